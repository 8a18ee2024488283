// The rows of gradients.

#include <array>
#include <cmath>

#include "graph/op_rows.hpp"
#include "graph/reference_ops.hpp"

namespace fusecalc {
namespace {

using enum OpClass;
using enum Attribute;

using In = std::span<const double>;
using At = const Attributes&;

// Of the gradient of the result and one more tensor.
constexpr OpRow pointwise(std::string_view name, std::uint8_t flops, std::string_view summary,
                          std::string_view device, ReferenceFunction reference,
                          AttributeSet attributes = 0) {
  return {.name = name,
          .op_class = kPointwise,
          .min_inputs = 2,
          .max_inputs = 2,
          .flops = flops,
          .type_rule = TypeRule::kFloat,
          .attributes = attributes,
          .summary = summary,
          .device = device,
          .reference = reference};
}

// Of rows that lie along an axis.
constexpr OpRow rows(std::string_view name, std::uint8_t flops, std::string_view summary,
                     std::string_view device, ReferenceFunction reference) {
  return {.name = name,
          .op_class = kNormalise,
          .family = OpFamily::kSoftmaxBackward,
          .min_inputs = 2,
          .max_inputs = 2,
          .flops = flops,
          .passes = 2,
          .attributes = only(kAxes),
          .summary = summary,
          .device = device,
          .accumulator = Accumulator::kSum,
          .reference = reference};
}

// No code; its bytes alone.
constexpr OpRow opaque(std::string_view name, OpFamily family, std::uint8_t min_inputs,
                       std::uint8_t max_inputs, std::uint8_t outputs, AttributeSet attributes,
                       std::string_view summary) {
  return {.name = name,
          .op_class = kOpaque,
          .family = family,
          .min_inputs = min_inputs,
          .max_inputs = max_inputs,
          .max_outputs = outputs,
          .has_kernel = false,
          .attributes = attributes,
          .summary = summary};
}

// Of rows that are the last axes.
constexpr OpRow row_norm(std::string_view name, std::uint8_t min_inputs, std::uint8_t max_inputs,
                         std::uint8_t outputs, Accumulator accumulator, std::string_view summary) {
  OpRow row = opaque(name, OpFamily::kRowNormBackward, min_inputs, max_inputs, outputs,
                     only(kGradients), summary);
  row.has_kernel = true;
  row.flops = 14;
  row.accumulator = accumulator;
  return row;
}

constexpr OpRow channel_norm(std::string_view name, AttributeSet attributes) {
  OpRow row = opaque(name, OpFamily::kNormBackward, 4, 5, 3, attributes,
                     "(dy, x, mean, rstd, weight): the gradients of x (0), weight (1), bias (2)");
  row.accumulator = Accumulator::kMoments;
  row.per_channel = true;
  return row;
}

constexpr OpRow with_flops(OpRow row, std::uint8_t flops) {
  row.flops = flops;
  return row;
}

constexpr OpRow convolution(std::string_view name, std::uint8_t spatial_axes,
                            OpFamily family = OpFamily::kConvolutionBackward) {
  OpRow row = opaque(name, family, 3, 3, 3, kStride | kPadding | kDilation | kGroups | kGradients,
                     "(dy, x, weight): the gradients of x (0), weight (1) and bias (2)");
  row.spatial_axes = spatial_axes;
  if (family == OpFamily::kTransposedConvolutionBackward) {
    row.attributes = row.attributes | kOutputPadding;
  }
  return row;
}

constexpr std::array kBackwardOps = {
    with_jumps(pointwise("relu_backward", 0, "dy, 0 where x (or the result) is not above 0 (dy, x)",
                         "b <= $zero ? $zero : a", [](In x, At) { return x[1] <= 0 ? 0 : x[0]; })),
    with_jumps(pointwise(
        "leaky_relu_backward", 1, "(dy, x)", "b > $zero ? a : a * $negative_slope",
        [](In x, At at) { return x[1] > 0 ? x[0] : x[0] * at.negative_slope; },
        only(kNegativeSlope))),
    pointwise("sigmoid_backward", 3, "dy y (1 - y) (dy, y)", "a * b * ($one - b)",
              [](In x, At) { return x[0] * x[1] * (1 - x[1]); }),
    pointwise("tanh_backward", 3, "dy (1 - y y) (dy, y)", "a * ($one - b * b)",
              [](In x, At) { return x[0] * (1 - x[1] * x[1]); }),
    pointwise("silu_backward", 7, "(dy, x)", "a * silu_slope(b)",
              [](In x, At) { return x[0] * reference::silu_slope(x[1]); }),
    pointwise(
        "gelu_backward", 9, "(dy, x)", "a * $gelu_slope(b)",
        [](In x, At at) { return x[0] * reference::gelu_slope(x[1], at); }, only(kApproximate)),
    with_jumps(pointwise("hardsigmoid_backward", 1, "(dy, x)", "a * hard_sigmoid_slope(b)",
                         [](In x, At) { return std::abs(x[1]) < 3 ? x[0] / 6 : 0 * x[0]; })),
    with_jumps(pointwise("hardswish_backward", 3, "(dy, x)", "a * hard_swish_slope(b)",
                         [](In x, At) { return x[0] * reference::hard_swish_slope(x[1]); })),
    pointwise(
        "softplus_backward", 4, "(dy, x)", "b * $beta > $threshold ? a : a * sigmoid(b * $beta)",
        [](In x, At at) {
          const double z = x[1] * at.beta;
          return z > at.threshold ? x[0] : x[0] * reference::sigmoid(z);
        },
        kBeta | kThreshold),
    pointwise(
        "dropout_backward", 1, "dy times scale where the mask holds (dy, mask)",
        "b != $zero ? a * $scale : $zero",
        [](In x, At at) { return x[1] != 0 ? x[0] * at.scale.value_or(1) : 0; }, only(kScale)),
    [] {
      OpRow row = rows("softmax_backward", 4, "y (dy - sum(dy y)) over an axis (dy, y)",
                       "b * (a - s.sum)", [](In x, At) { return x[1] * (x[0] - x[2]); });
      row.row_inputs = 2;
      row.device_taken = "a * b";
      row.reference_taken = [](In x, At) { return x[0] * x[1]; };
      return row;
    }(),
    rows("log_softmax_backward", 4, "dy - exp(y) sum(dy) over an axis (dy, y)",
         "a - $exp(b) * s.sum", [](In x, At) { return x[0] - std::exp(x[1]) * x[2]; }),
    OpRow{.name = "nll_loss_backward",
          .op_class = kMovement,
          .family = OpFamily::kLossBackward,
          .min_inputs = 3,
          .max_inputs = 3,
          .flops = 1,
          .access = Access::kSelect,
          .attributes = only(kReduction),
          .summary = "(dy, log-probabilities, whose shape counts alone, class indices)"},
    row_norm("layer_norm_backward", 4, 5, 3, Accumulator::kMoments,
             "(dy, x, mean, rstd, weight): the gradients of x (0), weight (1), bias (2)"),
    row_norm("rms_norm_backward", 3, 4, 2, Accumulator::kSquareSum,
             "(dy, x, rstd, weight): the gradients of x (0) and weight (1)"),
    channel_norm("batch_norm_backward", only(kGradients)),
    channel_norm("group_norm_backward", kGroups | kGradients),
    convolution("conv1d_backward", 1),
    convolution("conv2d_backward", 2),
    convolution("conv3d_backward", 3),
    convolution("conv_transpose1d_backward", 1, OpFamily::kTransposedConvolutionBackward),
    convolution("conv_transpose2d_backward", 2, OpFamily::kTransposedConvolutionBackward),
    convolution("conv_transpose3d_backward", 3, OpFamily::kTransposedConvolutionBackward),
    opaque("attention_backward", OpFamily::kAttentionBackward, 6, 7, 3, kCausal | kScale,
           "(dy, q, k, v, y, log-sum-exp, mask): the gradients of q, k and v"),
    opaque("embedding_backward", OpFamily::kEmbeddingBackward, 2, 2, 1, only(kSize),
           "(dy, indices): the gradient of a table with `size` rows"),
    opaque("max_pool_backward", OpFamily::kPoolBackward, 3, 3, 1, 0,
           "(dy, x, whose shape counts alone, indices): the gradient of x"),
    with_flops(opaque("avg_pool_backward", OpFamily::kPoolBackward, 2, 2, 1,
                      kKernel | kStride | kPadding | kCeilMode | kCountIncludePad,
                      "(dy, x, whose shape counts alone): the gradient of x"),
               1),
    with_flops(opaque("adaptive_avg_pool_backward", OpFamily::kPoolBackward, 2, 2, 1, 0,
                      "(dy, x, whose shape counts alone): the gradient of x"),
               1),
    with_flops(opaque("upsample_nearest_backward", OpFamily::kPoolBackward, 1, 1, 1, only(kSize),
                      "(dy): the gradient of x, whose spatial axes have a size"),
               1),
    with_flops(
        opaque("upsample_linear_backward", OpFamily::kPoolBackward, 1, 1, 1, kSize | kAlignCorners,
               "(dy): the gradient of x, whose spatial axes have a size"),
        2),
};

}  // namespace

std::span<const OpRow> backward_ops() { return kBackwardOps; }

}  // namespace fusecalc
