// Convolutions of one channel in a group, of an input with its channels last.

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "codegen/contraction_writer.hpp"
#include "codegen/elements.hpp"
#include "plan/last_bands.hpp"
#include "plan/last_down.hpp"
#include "plan/tiling.hpp"

namespace fusecalc {
namespace {

LastShape last_shape_of(const Convolution& convolution, std::uint64_t bytes) {
  const auto& [outer, lines, line] = convolution.axes;
  return {.images = convolution.images,
          .channels = convolution.groups,
          .in = {number(lines.in), number(line.in)},
          .out = {number(lines.out), number(line.out)},
          .taps = {number(lines.kernel), number(line.kernel)},
          .stride = {number(lines.stride), number(line.stride)},
          .padding = {number(lines.padding), number(line.padding)},
          .dilation = {number(lines.dilation), number(line.dilation)},
          .bytes = bytes};
}

// Whether it has two axes, and neighbouring channels are neighbours.
bool is_last(const Convolution& convolution) {
  return convolution.strides->channel == 1 && convolution.has_two_axes();
}

// Whether each has a stride of whole 16 bytes, or an extent of 1: a repeated one has none.
bool has_strides_of_copies(const Convolution& convolution, std::uint64_t bytes) {
  const Convolution::Strides& strides = *convolution.strides;
  const auto& [outer, lines, line] = convolution.axes;
  const auto whole = [&](std::uint64_t stride, std::uint64_t extent) {
    return stride * bytes % 16 == 0 && (stride > 0 || extent == 1);
  };
  return strides.offset * bytes % 16 == 0 && whole(strides.image, convolution.images) &&
         whole(strides.at[1], number(lines.in)) && whole(strides.at[2], number(line.in));
}

}  // namespace

// By bands of weights; the epilogue takes pixels of a channel where these are alike to it, and
// channels of a pixel elsewhere.
bool ContractionWriter::write_bands_of_last(const Convolution& convolution,
                                            const LastShape& shape) {
  const DType type = operand_type();
  const bool halves = shape.bytes == 2 && graph_.tensors[op_.operands[1].tensor].type.dtype == type;
  if (device_.capability < kFirstWithCopies || !halves ||
      !has_strides_of_copies(convolution, shape.bytes)) {
    return false;
  }
  const std::string functions = weights_of_convolution();
  epilogue_.write(product_, 8, {.stores = true, .stores_last = true, .period = convolution.groups});
  const bool keeps_sums = !epilogue_.stored_outside();
  const auto bands = last_bands(shape, keeps_sums, device_);
  if (!bands) return false;
  if (keeps_sums) {
    epilogue_.write(product_of_pixels_last(convolution), 8, {.channels_last = true});
  }
  const std::string x = fmt::format("{} + {}", code_.parameters().input(op_.operands[0].tensor),
                                    convolution.strides->offset);
  const KernelFacts facts{.threads = bands->threads(),
                          .shared_bytes = bands->shared_bytes,
                          .tile_rows = bands->channels(),
                          .tile_columns = bands->lines * bands->columns};
  result_.source.text +=
      blocks({"mma", "weight_bands", "convolve_last_bands"}) + epilogue_.text() +
      operands_struct(functions) +
      fmt::format(
          "typedef ConvolveLastBands<Geometry, {}, {}, {}, {}, {}, {}, {}, {}, Operands, "
          "Epilogue> Convolve;\n",
          stored_type(type), bands->warps, bands->own, bands->lines, bands->columns, bands->reused,
          bands->together, bands->each) +
      facts.asserted_of("Convolve") +
      entry(fmt::format("__launch_bounds__(Convolve::kThreads, {})", bands->resident), "",
            fmt::format("Convolve::run({}, Operands{{{}}}, {});", x, code_.parameters().arguments(),
                        epilogue_.made()));
  facts.launch(result_);
  result_.blocks = bands->blocks(shape);
  result_.schedule = fmt::format(
      "mma with bands of weights, channels last, {} per block, {} tile{} of {} x {}",
      bands->channels(), bands->each, bands->each > 1 ? "s" : "", bands->lines, bands->columns);
  return true;
}

// By threads that go down lines.
bool ContractionWriter::write_down_of_last(const Convolution& convolution, const LastShape& shape) {
  if (device_.capability < kFirstWithCopies || !has_strides_of_copies(convolution, shape.bytes)) {
    return false;
  }
  const auto down = last_down(shape, device_);
  if (!down) return false;
  const std::string functions = weights_of_convolution();
  const std::string x = fmt::format("{} + {}", code_.parameters().input(op_.operands[0].tensor),
                                    convolution.strides->offset);
  epilogue_.write(product_of_pixels_last(convolution), LastDown::kOwn,
                  {.channels_last = true, .width = LastDown::kOwn});
  const KernelFacts facts{.threads = down->threads,
                          .shared_bytes = down->shared_bytes,
                          .tile_rows = LastDown::kOwn,
                          .tile_columns = down->lines * down->beside};
  result_.source.text +=
      blocks({"mma", "convolve_last_down"}) + epilogue_.text() + operands_struct(functions) +
      fmt::format(
          "typedef ConvolveLastDown<Geometry, {}, {}, {}, {}, {}, Operands, Epilogue> Convolve;\n",
          stored_type(operand_type()), down->beside, down->lines, down->stages, down->threads) +
      facts.asserted_of("Convolve") +
      entry(fmt::format("__launch_bounds__(Convolve::kThreads, {})", down->resident), "",
            fmt::format("Convolve::run({}, Operands{{{}}}, {});", x, code_.parameters().arguments(),
                        epilogue_.made()));
  facts.launch(result_);
  result_.blocks = down->blocks(shape);
  result_.schedule = fmt::format("channels last, {} x {} per thread", down->lines, down->beside);
  return true;
}

bool ContractionWriter::write_convolution_last(const Convolution& convolution) {
  const bool single = convolution.channels == 1 && convolution.filters == 1 && convolution.strides;
  const DType type = operand_type();
  const bool known = type == DType::kBf16 || type == DType::kF16 || type == DType::kF32;
  if (!single || !known || !is_last(convolution) || epilogue_.made_type() != ComputeType::kF32 ||
      !epilogue_.ends_channels_last()) {
    return false;
  }
  const LastShape shape = last_shape_of(convolution, bytes_of(type, 1));
  const bool many = repays_bands(shape.taps[0] * shape.taps[1], shape.stride[0] * shape.stride[1]);
  const auto bands = [&] { return write_bands_of_last(convolution, shape); };
  return (many && bands()) || write_down_of_last(convolution, shape) || (!many && bands());
}

}  // namespace fusecalc
