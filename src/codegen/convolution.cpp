#include "codegen/convolution.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace fusecalc {
namespace {

std::uint64_t unsigned_of(std::int64_t number) { return static_cast<std::uint64_t>(number); }

}  // namespace

std::optional<Convolution::Strides> strides_in_memory(const OpGraph& graph, TensorId id) {
  const Tensor& tensor = graph.tensors[id];
  const Shape& shape = tensor.type.shape;
  const std::vector<std::uint64_t> own = strides_of(shape);
  const auto offset = offset_of(graph, id);
  if (!offset || is_packed(graph.tensors[tensor.value].type.dtype)) return std::nullopt;
  Convolution::Strides strides{.offset = *offset};
  const std::size_t spatial = shape.size() - 2;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis] == 1) continue;
    const auto apart = distance(graph, id, shape[axis], own[axis]);
    if (!apart) return std::nullopt;
    std::uint64_t& stride = axis == 0   ? strides.image
                            : axis == 1 ? strides.channel
                                        : strides.at.at(axis - 2 + 3 - spatial);
    stride = *apart;
  }
  return strides;
}

std::string text_of(const Convolution::Strides& strides) {
  return fmt::format("{{{}, {}, {{{}}}}}", strides.image, strides.channel,
                     fmt::join(strides.at, ", "));
}

std::uint64_t Convolution::pixels() const {
  std::uint64_t product = 1;
  for (const WindowAxis& axis : axes) product *= unsigned_of(axis.out);
  return product;
}

std::uint64_t Convolution::taps() const {
  std::uint64_t product = 1;
  for (const WindowAxis& axis : axes) product *= unsigned_of(axis.kernel);
  return product;
}

bool Convolution::has_two_axes() const {
  return axes[0].in == 1 && axes[0].kernel == 1 && axes[0].out == 1;
}

bool Convolution::has_single_windows() const {
  return std::ranges::all_of(axes, [](const WindowAxis& axis) {
    return axis.kernel == 1 && axis.stride == 1 && axis.padding == 0;
  });
}

std::optional<std::uint64_t> Convolution::pixels_apart() const {
  std::uint64_t apart = 0, count = 1;
  const auto follows = [&](std::uint64_t extent, std::uint64_t distance) {
    if (extent == 1) return true;
    if (count == 1) apart = distance;
    const bool next = distance == apart * count;
    count *= extent;
    return next;
  };
  for (const std::size_t axis : {2U, 1U, 0U}) {
    if (!follows(unsigned_of(axes.at(axis).in), strides->at.at(axis))) return std::nullopt;
  }
  return follows(images, strides->image) ? std::optional(apart) : std::nullopt;
}

std::uint64_t Convolution::alignment(std::uint64_t most) const {
  if (!strides || strides->at[2] > 1) return 1;
  const std::uint64_t bits = most | strides->offset | strides->image | strides->channel |
                             strides->at[0] | strides->at[1] | unsigned_of(axes[2].in);
  return bits & (~bits + 1);
}

std::string Convolution::text() const {
  const auto each = [&](std::int64_t WindowAxis::*member) {
    return fmt::format("{{{}, {}, {}}}", axes[0].*member, axes[1].*member, axes[2].*member);
  };
  return fmt::format(
      "struct Geometry {{\n"
      "  static constexpr ConvolutionShape kShape = {{{}, {}, {}, {}, {}, {}, {}, {}, {}, {}}};\n"
      "  static constexpr ConvolutionStrides kStrides = {};\n}};\n",
      images, groups, channels, filters, each(&WindowAxis::in), each(&WindowAxis::out),
      each(&WindowAxis::kernel), each(&WindowAxis::stride), each(&WindowAxis::padding),
      each(&WindowAxis::dilation), text_of(strides.value_or(Strides{})));
}

Convolution convolution_of(const OpGraph& graph, const Op& op) {
  const Shape& x = graph.tensors[op.operands[0].tensor].type.shape;
  const Shape& weight = graph.tensors[op.operands[1].tensor].type.shape;
  const Shape& result = graph.tensors[op.outputs[0]].type.shape;
  const Attributes& attributes = *op.attributes;
  const std::uint64_t groups = unsigned_of(attributes.groups);
  Convolution made{.images = x[0],
                   .groups = groups,
                   .channels = weight[1],
                   .filters = weight[0] / groups,
                   .strides = strides_in_memory(graph, op.operands[0].tensor)};
  const std::size_t spatial = x.size() - 2;
  for (std::size_t i = 0; i < spatial; ++i) {
    made.axes.at(3 - spatial + i) = {.in = static_cast<std::int64_t>(x[i + 2]),
                                     .out = static_cast<std::int64_t>(result[i + 2]),
                                     .kernel = static_cast<std::int64_t>(weight[i + 2]),
                                     .stride = along(attributes.stride, i, 1),
                                     .padding = along(attributes.padding, i, 0),
                                     .dilation = along(attributes.dilation, i, 1)};
  }
  return made;
}

std::uint64_t pixels_of_input(const Convolution& convolution) {
  return number(convolution.axes[1].in) * number(convolution.axes[2].in);
}

bool lies_in_eights(const Convolution::Strides& strides) {
  const std::uint64_t all = strides.offset | strides.image | strides.at[1] | strides.at[2];
  return strides.channel == 1 && all % 8 == 0;
}

bool has_channels_last(const Convolution& convolution) {
  return lies_in_eights(*convolution.strides) && convolution.strides->at[2] != 0;
}

ConvolutionSize size_of(const Convolution& convolution, DType type) {
  return {.images = convolution.images,
          .groups = convolution.groups,
          .channels = convolution.channels,
          .filters = convolution.filters,
          .taps = convolution.taps(),
          .in = pixels_of_input(convolution),
          .out = convolution.pixels(),
          .channels_last = has_channels_last(convolution),
          .weights_last = false,
          .bytes = bytes_of(type, 1),
          .exact = type == DType::kF32};
}

namespace {

// The weights of single elements side by side, [filter][channel] of all groups.
std::optional<MatrixOperand> single_weights(const OpGraph& graph, const Op& op,
                                            const Convolution& made) {
  const TensorId weight = op.operands[1].tensor;
  const auto offset = offset_of(graph, weight);
  const auto line = distance(graph, weight, made.groups * made.filters, made.channels);
  if (!made.has_single_windows() || !offset || !line || !made.strides) return std::nullopt;
  if (made.channels > 1 && distance(graph, weight, made.channels, 1) != std::uint64_t{1}) {
    return std::nullopt;
  }
  return MatrixOperand{.tensor = graph.tensors[weight].value, .offset = *offset, .line = *line};
}

}  // namespace

std::optional<MatrixProduct> product_of_pixel_rows(const OpGraph& graph, const Op& op) {
  const Convolution made = convolution_of(graph, op);
  const auto weights = single_weights(graph, op, made);
  if (!weights || made.groups > 1) return std::nullopt;
  const Convolution::Strides& strides = *made.strides;
  const auto line = made.pixels_apart();
  if (!line || *line < made.channels || (made.channels > 1 && strides.channel != 1)) {
    return std::nullopt;
  }
  return MatrixProduct{.m = made.images * made.pixels(),
                       .n = made.filters,
                       .k = made.channels,
                       .a = {.tensor = graph.tensors[op.operands[0].tensor].value,
                             .offset = strides.offset,
                             .line = *line},
                       .b = *weights};
}

std::optional<MatrixProduct> product_of_pixels(const OpGraph& graph, const Op& op) {
  const Convolution made = convolution_of(graph, op);
  const auto weights = single_weights(graph, op, made);
  if (!weights) return std::nullopt;
  const TensorId x = op.operands[0].tensor;
  const std::uint64_t pixels = made.pixels();
  const auto apart = distance(graph, x, pixels, 1);
  if (pixels < 2 || apart != std::uint64_t{1} || weights->line == 0) return std::nullopt;
  const Convolution::Strides& strides = *made.strides;
  if (made.channels > 1 && strides.channel < pixels) return std::nullopt;
  MatrixProduct product{.m = made.filters,
                        .n = pixels,
                        .k = made.channels,
                        .inner = made.images,
                        .a = *weights,
                        .b = {.tensor = graph.tensors[x].value,
                              .offset = strides.offset,
                              .across = true,
                              .line = made.channels > 1 ? strides.channel : pixels,
                              .inner = strides.image}};
  if (made.groups > 1) {
    product.outer = std::exchange(product.inner, made.groups);
    product.a.inner = made.filters * weights->line;
    product.b.outer = std::exchange(product.b.inner, made.channels * strides.channel);
  }
  return product;
}

}  // namespace fusecalc
