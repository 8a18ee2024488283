// Convolutions of one channel in a group, of an input with its channels last.

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "codegen/contraction_writer.hpp"
#include "codegen/elements.hpp"
#include "plan/tiling.hpp"

namespace fusecalc {
namespace {

LastShape last_shape_of(const Convolution& convolution, std::uint64_t bytes) {
  const auto& [outer, lines, line] = convolution.axes;
  return {.images = convolution.images,
          .channels = convolution.groups,
          .out = {number(lines.out), number(line.out)},
          .taps = {number(lines.kernel), number(line.kernel)},
          .stride = {number(lines.stride), number(line.stride)},
          .dilation = {number(lines.dilation), number(line.dilation)},
          .bytes = bytes};
}

// Whether neighbouring channels are neighbours, and each fourth one begins at a multiple of four
// elements.
bool has_fours_of_channels(const Convolution& convolution) {
  const Convolution::Strides& strides = *convolution.strides;
  const WindowAxis& outer = convolution.axes[0];
  const std::uint64_t all = strides.offset | strides.image | strides.at[1] | strides.at[2];
  return strides.channel == 1 && all % 4 == 0 && outer.in == 1 && outer.kernel == 1 &&
         outer.out == 1;
}

}  // namespace

bool ContractionWriter::write_convolution_last(const Convolution& convolution) {
  const bool single = convolution.channels == 1 && convolution.filters == 1 && convolution.strides;
  const DType type = operand_type();
  const bool known = type == DType::kBf16 || type == DType::kF16 || type == DType::kF32;
  if (!single || !known || !has_fours_of_channels(convolution) ||
      epilogue_.made_type() != ComputeType::kF32 || !epilogue_.ends_channels_last()) {
    return false;
  }
  const LastShape shape = last_shape_of(convolution, bytes_of(type, 1));
  const auto tiles = last_tiles(shape, std::max(1U, device_.multiprocessors));
  if (!tiles) return false;
  const std::string functions = weights_of_convolution();
  const std::string x = fmt::format("{} + {}", code_.parameters().input(op_.operands[0].tensor),
                                    convolution.strides->offset);
  epilogue_.write(product_of_pixels_last(convolution), 8, {.channels_last = true});
  const KernelFacts facts{.threads = LastTiles::kThreads,
                          .tile_rows = 4 * tiles->fours,
                          .tile_columns = tiles->lines * tiles->columns};
  result_.source.text +=
      blocks({"convolve_last"}) + epilogue_.text() + operands_struct(functions) +
      fmt::format(
          "typedef ConvolveLast<Geometry, {}, {}, {}, {}, {}, Operands, Epilogue> Convolve;\n",
          stored_type(type), tiles->lines, tiles->columns, tiles->fours, tiles->rounds) +
      facts.asserted_of("Convolve") +
      entry(fmt::format("__launch_bounds__(Convolve::kThreads, {})", LastTiles::kBlocksPerSm), "",
            fmt::format("Convolve::run({}, Operands{{{}}}, {});", x, code_.parameters().arguments(),
                        epilogue_.made()));
  facts.launch(result_);
  result_.blocks = tiles->blocks(shape);
  result_.schedule =
      fmt::format("channels last, {} per block, strips of {} x {} of four per thread",
                  4 * tiles->fours, tiles->lines, tiles->columns);
  return true;
}

}  // namespace fusecalc
