// Convolutions of one channel in a group, of an input with its channels last.

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "codegen/contraction_writer.hpp"
#include "codegen/elements.hpp"
#include "plan/last_boxes.hpp"
#include "plan/last_down.hpp"
#include "plan/tiling.hpp"

namespace fusecalc {
namespace {

// Of more taps, 16 bits each, products with diagonals of weights on tensor cores take less time.
constexpr std::uint64_t kFewTaps = 25;

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

// Whether it has two axes, and neighbouring channels are neighbours.
bool is_last(const Convolution& convolution) {
  const WindowAxis& outer = convolution.axes[0];
  return convolution.strides->channel == 1 && outer.in == 1 && outer.kernel == 1 && outer.out == 1;
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

// A map of the input: channels, columns, lines and images, of which the copy engine takes strides
// of whole 16 bytes.
MappedTensor map_of_last(const Convolution& convolution, const LastBoxes& boxes, DType type) {
  const Convolution::Strides& strides = *convolution.strides;
  const auto& [outer, lines, line] = convolution.axes;
  const std::uint64_t size = bytes_of(type, 1);
  // The stride of a dimension of extent 1 is never used, but must be a multiple of 16.
  const auto bytes = [&](std::uint64_t distance) { return distance > 0 ? distance * size : 16; };
  return {.dtype = type,
          .offset = strides.offset * size,
          .extents = {convolution.groups, number(line.in), number(lines.in), convolution.images},
          .strides = {bytes(strides.at[2]), bytes(strides.at[1]), bytes(strides.image)},
          .box = {static_cast<std::uint32_t>(boxes.channels),
                  static_cast<std::uint32_t>(boxes.box_columns),
                  static_cast<std::uint32_t>(boxes.box_lines),
                  static_cast<std::uint32_t>(boxes.together)}};
}

}  // namespace

// In boxes that the copy engine brings.
bool ContractionWriter::write_boxes_of_last(const Convolution& convolution,
                                            const LastShape& shape) {
  const DType type = operand_type();
  const bool halves = shape.bytes == 2 && graph_.tensors[op_.operands[1].tensor].type.dtype == type;
  if (device_.capability != kHopper || !halves ||
      !has_strides_of_copies(convolution, shape.bytes)) {
    return false;
  }
  const auto boxes = last_boxes(shape, std::max(1U, device_.multiprocessors));
  if (!boxes) return false;
  const std::string functions = weights_of_convolution();
  epilogue_.write(product_of_pixels_last(convolution), 8, {.channels_last = true});
  result_.maps = {map_of_last(convolution, *boxes, type)};
  result_.maps[0].storage = graph_.storage_of(op_.operands[0].tensor);
  const KernelFacts facts{.threads = boxes->threads(),
                          .shared_bytes = boxes->shared_bytes,
                          .tile_rows = boxes->channels,
                          .tile_columns = boxes->tile_lines() * boxes->columns};
  result_.source.architecture_bound = true;
  result_.source.text +=
      blocks({"mma", "hopper", "convolve_last_sm90"}) + epilogue_.text() +
      operands_struct(functions) +
      fmt::format(
          "typedef ConvolveLastMma<Geometry, {}, {}, {}, {}, {}, {}, {}, {}, {}, Operands, "
          "Epilogue> Convolve;\n",
          stored_type(type), boxes->channels, boxes->columns, boxes->deep, boxes->lines,
          boxes->together, boxes->warps, boxes->stages, boxes->each) +
      fmt::format(
          "static_assert(Convolve::kBoxColumns == {} && Convolve::kBoxLines == {}, "
          "\"boxes of the map\");\n",
          boxes->box_columns, boxes->box_lines) +
      facts.asserted_of("Convolve") +
      entry(fmt::format("__launch_bounds__(Convolve::kThreads, {})", boxes->resident),
            "const __grid_constant__ TensorMap x",
            fmt::format("Convolve::run(x, Operands{{{}}}, {});", code_.parameters().arguments(),
                        epilogue_.made()));
  facts.launch(result_);
  result_.blocks = boxes->blocks(shape);
  result_.schedule = fmt::format(
      "mma with diagonals of weights, channels last, {} per block, {} tile{} of {} x {}",
      boxes->channels, boxes->each, boxes->each > 1 ? "s" : "", boxes->tile_lines(),
      boxes->columns);
  return true;
}

// By threads that go down lines.
bool ContractionWriter::write_down_of_last(const Convolution& convolution, const LastShape& shape) {
  if (device_.capability < kFirstWithCopies || !has_strides_of_copies(convolution, shape.bytes)) {
    return false;
  }
  const auto down = last_down(shape, std::max(1U, device_.multiprocessors));
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
  const bool few = shape.taps[0] * shape.taps[1] <= kFewTaps;
  const auto boxes = [&] { return write_boxes_of_last(convolution, shape); };
  return (!few && boxes()) || write_down_of_last(convolution, shape) || (few && boxes());
}

}  // namespace fusecalc
