// Convolutions of one channel in a group, over planes that a block holds in shared memory.

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "codegen/contraction_writer.hpp"
#include "codegen/elements.hpp"
#include "core/ceil_div.hpp"
#include "plan/tiling.hpp"

namespace fusecalc {
namespace {

// Whether the planes of the input follow each other without gaps, from a multiple of 16 bytes on.
bool streams_planes(const Convolution& convolution, std::uint64_t element_bytes) {
  const auto& [outer, lines, line] = convolution.axes;
  const Convolution::Strides& strides = *convolution.strides;
  const auto follows = [](std::uint64_t stride, std::uint64_t extent, std::uint64_t expected) {
    return extent == 1 || stride == expected;
  };
  const std::uint64_t plane = number(lines.in * line.in);
  return outer.in == 1 && outer.kernel == 1 && outer.out == 1 &&
         follows(strides.at[2], number(line.in), 1) &&
         follows(strides.at[1], number(lines.in), number(line.in)) &&
         follows(strides.channel, convolution.groups, plane) &&
         follows(strides.image, convolution.images, convolution.groups * plane) &&
         strides.offset * element_bytes % 16 == 0;
}

// Lines of whole 16 bytes are loaded so from memory, which is faster than to hold planes.
bool has_whole_lines(const Convolution& convolution, std::uint64_t element_bytes) {
  return convolution.axes[2].out % 8 == 0 &&
         convolution.alignment(16 / element_bytes) * element_bytes == 16;
}

}  // namespace

bool ContractionWriter::streams(const Convolution& convolution) const {
  constexpr std::uint64_t kMostTaps = 64;  // whose code is written out
  return convolution.channels == 1 && convolution.strides &&
         device_.capability >= kFirstWithCopies && multiplies_on_tensor_cores() &&
         convolution.taps() <= kMostTaps && epilogue_.made_type() == ComputeType::kF32 &&
         streams_planes(convolution, bytes_of(operand_type(), 1)) &&
         !has_whole_lines(convolution, bytes_of(operand_type(), 1));
}

bool ContractionWriter::write_convolution_planes(const Convolution& convolution) {
  if (!streams(convolution)) return false;
  const auto& [outer, lines, line] = convolution.axes;
  const PlaneShape shape{.planes = convolution.images * convolution.groups,
                         .filters = convolution.filters,
                         .in = {number(lines.in), number(line.in)},
                         .out = {number(lines.out), number(line.out)},
                         .stride = number(line.stride)};
  const DType type = operand_type();
  const std::uint64_t multiprocessors = std::max(1U, device_.multiprocessors);
  const auto tiles_for = [&](std::uint64_t result_bytes) {
    return plane_tiles(shape, bytes_of(type, 1), result_bytes, multiprocessors);
  };
  // Which of them is known once the epilogue is written.
  if (!tiles_for(0) || !tiles_for(2)) return false;
  const std::string functions = weights_of_convolution();
  const std::string x = fmt::format("{} + {}", code_.parameters().input(op_.operands[0].tensor),
                                    convolution.strides->offset);
  epilogue_.write(product_, 8,
                  {.stores = true, .period = convolution.groups * convolution.filters});
  const PlaneTiles tiles = *tiles_for(epilogue_.stored_outside() ? 2 : 0);
  const KernelFacts facts{.threads = PlaneTiles::kThreads,
                          .shared_bytes = tiles.shared_bytes,
                          .tile_rows = tiles.planes,
                          .tile_columns = tiles.lines * tiles.columns};
  result_.source.text +=
      blocks({"mma", "hopper", "convolve_planes"}) + epilogue_.text() + operands_struct(functions) +
      fmt::format(
          "typedef ConvolvePlanes<Geometry, {}, {}, {}, {}, {}, Operands, Epilogue> Convolve;\n",
          stored_type(type), tiles.planes, tiles.lines, tiles.columns, tiles.align) +
      facts.asserted_of("Convolve") +
      entry("__launch_bounds__(Convolve::kThreads)", "",
            fmt::format("Convolve::run({}, Operands{{{}}}, {});", x, code_.parameters().arguments(),
                        epilogue_.made()));
  facts.launch(result_);
  result_.blocks = ceil_div(shape.planes, tiles.planes);
  result_.schedule = fmt::format("{} plane{} per block, strips of {} x {} per thread", tiles.planes,
                                 tiles.planes > 1 ? "s" : "", tiles.lines, tiles.columns);
  return true;
}

}  // namespace fusecalc
