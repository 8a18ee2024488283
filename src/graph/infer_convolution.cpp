// Shapes and types of convolutions.

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/checked.hpp"
#include "graph/infer_shared.hpp"
#include "graph/windows.hpp"

namespace fusecalc {
namespace {

constexpr std::array<std::string_view, 3> kAxes = {"length", "height, width",
                                                   "depth, height, width"};

// A convolution of two of an op's inputs.
struct Operands {
  std::size_t x = 0;
  std::size_t weight = 1;
};

struct Convolved {
  Shape shape;
  MatrixShape matrix;
  std::uint64_t touched = 0;  // elements of x that some window has
};

// Checks the ranks of both operands; returns how many groups of channels there are.
std::uint64_t check_operands(const Inference& op, Operands of, std::string_view weight_channels) {
  op.require_tensors();
  const std::size_t spatial = op.row().spatial_axes;
  const Shape& x = op.shape(of.x);
  const Shape& weight = op.shape(of.weight);
  if (x.size() != spatial + 2) {
    op.fail_input(of.x, fmt::format("{} must be [batch, channels, {}]", op.describe(of.x),
                                    kAxes[spatial - 1]));
  }
  if (weight.size() != spatial + 2) {
    op.fail_input(of.weight, fmt::format("{} must be [{}, {}]", op.describe(of.weight),
                                         weight_channels, kAxes[spatial - 1]));
  }
  const std::int64_t groups = op.attributes().groups;
  const auto count = static_cast<std::uint64_t>(groups);
  if (groups < 1 || x[1] % count != 0 || weight[0] % count != 0) {
    op.fail_attribute(Attribute::kGroups, fmt::format("{} groups do not divide {} and {} channels",
                                                      groups, x[1], weight[0]));
  }
  return count;
}

void require_channels(const Inference& op, Operands of, std::uint64_t has, std::uint64_t needed) {
  if (has == needed) return;
  op.fail_input(of.weight,
                fmt::format("{} must have {} input channels", op.describe(of.weight), needed));
}

// The number of weights for one pair of channels.
std::uint64_t taps_of(const Shape& weight) { return elements_between(weight, 2, weight.size()); }

Convolved convolved(const Inference& op, Operands of) {
  const std::uint64_t groups = check_operands(op, of, "out channels, in channels / groups");
  const Shape& x = op.shape(of.x);
  const Shape& weight = op.shape(of.weight);
  require_channels(op, of, weight[1], x[1] / groups);
  Shape shape = {x[0], weight[0]};
  for (std::size_t i = 0; i + 2 < x.size(); ++i) {
    const ConvolutionAxis axis = convolution_axis(op, i, x.size() - 2);
    shape.push_back(window_places(op, axis, x[i + 2], weight[i + 2], of.x, of.weight));
  }
  const std::optional<std::uint64_t> elements = checked_elements(shape);
  if (!elements) op.fail("the result is too large");
  std::uint64_t touched = x[0] * x[1];
  for (const WindowAxis& axis : convolution_axes(op.attributes(), x, weight, shape)) {
    touched *= axis.touched();
  }
  const std::uint64_t pixels = weight[0] == 0 ? 0 : *elements / weight[0];
  return {
      shape,
      MatrixShape{
          .batch = 1, .rows = pixels, .columns = weight[0], .depth = weight[1] * taps_of(weight)},
      touched};
}

// The extent that the windows of all elements of x cover together.
std::uint64_t covered(const Inference& op, const ConvolutionAxis& axis, std::uint64_t extent,
                      std::uint64_t taps, Operands of) {
  if (axis.output_padding >= std::max(axis.stride, axis.dilation)) {
    op.fail_attribute(Attribute::kOutputPadding, "must be less than the stride or the dilation");
  }
  constexpr std::uint64_t kLargest = std::uint64_t{1} << 30U;
  const bool fits = extent > 0 && taps > 0 && extent <= kLargest && taps <= kLargest;
  const std::int64_t result =
      !fits ? 0
            : (static_cast<std::int64_t>(extent) - 1) * axis.stride - 2 * axis.padding +
                  axis.dilation * (static_cast<std::int64_t>(taps) - 1) + 1 + axis.output_padding;
  if (result < 1) {
    op.fail(fmt::format("a result of {} and {} with padding {} has no elements", op.describe(of.x),
                        op.describe(of.weight), axis.padding));
  }
  return static_cast<std::uint64_t>(result);
}

Convolved transposed(const Inference& op, Operands of) {
  const std::uint64_t groups = check_operands(op, of, "in channels, out channels / groups");
  const Shape& x = op.shape(of.x);
  const Shape& weight = op.shape(of.weight);
  require_channels(op, of, weight[0], x[1]);
  std::uint64_t channels = weight[1];
  if (!checked_multiply(channels, groups)) op.fail("the result is too large");
  Shape shape = {x[0], channels};
  for (std::size_t i = 0; i + 2 < x.size(); ++i) {
    const ConvolutionAxis axis = convolution_axis(op, i, x.size() - 2);
    shape.push_back(covered(op, axis, x[i + 2], weight[i + 2], of));
  }
  if (!checked_elements(shape)) op.fail("the result is too large");
  // Each element of x contributes to all taps.
  return {shape,
          MatrixShape{.batch = 1,
                      .rows = x[0] * elements_between(x, 2, x.size()),
                      .columns = weight[1] * taps_of(weight),
                      .depth = x[1]},
          op.elements(of.x)};
}

void finish(Inference& op, const Convolved& made) {
  if (op.input_count() == 3 && op.shape(2) != Shape{made.shape[1]}) {
    op.fail_input(2, fmt::format("{} must have the shape [{}]", op.describe(2), made.shape[1]));
  }
  op.reads[0] = made.touched;
  op.matrix = made.matrix;
  op.outputs.push_back({made.shape, product_type(op.dtype(0), op.dtype(1))});
}

}  // namespace

void infer_convolution(Inference& op) { finish(op, convolved(op, {})); }

void infer_transposed_convolution(Inference& op) { finish(op, transposed(op, {})); }

void infer_convolution_backward(Inference& op) {
  constexpr Operands kOperands{.x = 1, .weight = 2};
  const Convolved forward = op.row().family == OpFamily::kTransposedConvolutionBackward
                                ? transposed(op, kOperands)
                                : convolved(op, kOperands);
  require_shape(op, 0, forward.shape, "of the result");
  const MatrixShape& m = forward.matrix;
  const std::uint64_t product = counted_flops(op, {2, m.batch, m.rows, m.columns, m.depth});
  std::uint64_t flops = 0;
  op.reads[1] = op.reads[2] = 0;  // x and the weight make the gradient of the other one
  for (const std::size_t which : gradients_of(op, 3)) {
    if (which == 0) op.reads[2] = op.elements(2);
    if (which == 1) op.reads[1] = forward.touched;
    const std::uint64_t more = which == 2 ? op.elements(0) : product;
    if (!checked_add(flops, more)) op.fail("takes too many floating-point operations");
    if (which == 2) {
      op.outputs.push_back({{forward.shape[1]}, op.float_of(op.dtype(2))});
    } else {
      op.outputs.push_back({op.shape(which + 1), op.float_of(op.dtype(which + 1))});
    }
  }
  op.total_flops = flops;
}

}  // namespace fusecalc
