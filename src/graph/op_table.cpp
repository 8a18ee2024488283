#include "graph/op_table.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "graph/reference_ops.hpp"

namespace fusecalc {
namespace {

using enum OpClass;
using enum Attribute;
using enum TypeRule;

using reference::whole;
using In = std::span<const double>;
using At = const Attributes&;

constexpr OpRow pointwise(std::string_view name, std::uint8_t inputs, TypeRule types,
                          std::uint8_t flops, std::string_view summary, std::string_view device,
                          ReferenceFunction reference) {
  return {.name = name,
          .op_class = kPointwise,
          .min_inputs = inputs,
          .max_inputs = inputs,
          .flops = flops,
          .type_rule = types,
          .summary = summary,
          .device = device,
          .reference = reference};
}

constexpr OpRow in_softmax(OpRow row, SoftmaxPart part) {
  row.softmax = part;
  return row;
}

constexpr OpRow with_factors(OpRow row, std::uint8_t factors) {
  row.factors = factors;
  return row;
}

constexpr OpRow with_jumps(OpRow row) {
  row.jumps = true;
  return row;
}

constexpr OpRow with_attributes(AttributeSet attributes, OpRow row) {
  row.attributes = attributes;
  return row;
}

constexpr OpRow with_quick(OpRow row, std::string_view quick) {
  row.quick = quick;
  return row;
}

constexpr OpRow in_library(OpRow row, LibraryStep step) {
  row.library = step;
  return row;
}

constexpr OpRow reduction(std::string_view name, TypeRule types, std::uint8_t flops,
                          std::string_view summary, Accumulator accumulator,
                          std::string_view device, ReferenceFunction reference) {
  return {.name = name,
          .op_class = kReduce,
          .family = OpFamily::kReduce,
          .flops = flops,
          .type_rule = types,
          .attributes = kAxes | kKeepdim,
          .summary = summary,
          .device = device,
          .accumulator = accumulator,
          .reference = reference};
}

constexpr OpRow movement(std::string_view name, std::uint8_t inputs, Access access,
                         AttributeSet attributes, OpFamily family, std::string_view summary) {
  return {.name = name,
          .op_class = kMovement,
          .family = family,
          .min_inputs = inputs,
          .max_inputs = inputs,
          .access = access,
          .attributes = attributes,
          .summary = summary};
}

constexpr OpRow view(std::string_view name, Access access, AttributeSet attributes, OpFamily family,
                     std::string_view summary) {
  OpRow row = movement(name, 1, access, attributes, family, summary);
  row.op_class = kView;
  return row;
}

// Plain additions and multiplications count 1 FLOP, so does a call of a special function; moves,
// comparisons and selections count none.
constexpr std::array kRows = {
    in_library(
        pointwise("add", 2, kPromote, 1, "a + b", "a + b", [](In x, At) { return x[0] + x[1]; }),
        LibraryStep::kBias),
    in_softmax(
        pointwise("sub", 2, kPromote, 1, "a - b", "a - b", [](In x, At) { return x[0] - x[1]; }),
        SoftmaxPart::kDifference),
    with_factors(
        pointwise("mul", 2, kPromote, 1, "a * b", "a * b", [](In x, At) { return x[0] * x[1]; }),
        0b11),
    with_quick(with_factors(in_softmax(pointwise("div", 2, kFloat, 1, "a / b", "a / b",
                                                 [](In x, At) { return x[0] / x[1]; }),
                                       SoftmaxPart::kQuotient),
                            0b01),
               "quick_divide(a, b)"),
    pointwise("maximum", 2, kPromote, 1, "the larger of a and b", "larger(a, b)",
              [](In x, At) { return reference::larger(x[0], x[1]); }),
    pointwise("minimum", 2, kPromote, 1, "the smaller of a and b", "smaller(a, b)",
              [](In x, At) { return reference::smaller(x[0], x[1]); }),
    pointwise("pow", 2, kPromote, 1, "a to the power b", "power(a, b)",
              [](In x, At) { return std::pow(x[0], x[1]); }),
    pointwise("neg", 1, kPromote, 1, "-x", "-a", [](In x, At) { return -x[0]; }),
    pointwise("abs", 1, kPromote, 1, "|x|", "magnitude(a)",
              [](In x, At) { return std::abs(x[0]); }),
    with_quick(in_softmax(pointwise("exp", 1, kFloat, 1, "e to the power x", "$exp(a)",
                                    [](In x, At) { return std::exp(x[0]); }),
                          SoftmaxPart::kExponential),
               "quick_exp(a)"),
    with_quick(pointwise("log", 1, kFloat, 1, "natural logarithm", "log(a)",
                         [](In x, At) { return std::log(x[0]); }),
               "quick_log(a)"),
    with_quick(pointwise("log1p", 1, kFloat, 2, "log(1 + x)", "log1p(a)",
                         [](In x, At) { return std::log1p(x[0]); }),
               "quick_log1p(a)"),
    pointwise("sqrt", 1, kFloat, 1, "square root", "sqrt(a)",
              [](In x, At) { return std::sqrt(x[0]); }),
    pointwise("rsqrt", 1, kFloat, 1, "1 / sqrt(x)", "rsqrt(a)",
              [](In x, At) { return 1 / std::sqrt(x[0]); }),
    pointwise("reciprocal", 1, kFloat, 1, "1 / x", "$one / a", [](In x, At) { return 1 / x[0]; }),
    pointwise("sin", 1, kFloat, 1, "sine", "sin(a)", [](In x, At) { return std::sin(x[0]); }),
    pointwise("cos", 1, kFloat, 1, "cosine", "cos(a)", [](In x, At) { return std::cos(x[0]); }),
    pointwise("tan", 1, kFloat, 1, "tangent", "tan(a)", [](In x, At) { return std::tan(x[0]); }),
    pointwise("asin", 1, kFloat, 1, "arcsine", "asin(a)", [](In x, At) { return std::asin(x[0]); }),
    pointwise("acos", 1, kFloat, 1, "arccosine", "acos(a)",
              [](In x, At) { return std::acos(x[0]); }),
    pointwise("atan", 1, kFloat, 1, "arctangent", "atan(a)",
              [](In x, At) { return std::atan(x[0]); }),
    pointwise("atan2", 2, kFloat, 1, "the angle of the point (b, a)", "atan2(a, b)",
              [](In x, At) { return std::atan2(x[0], x[1]); }),
    pointwise("sinh", 1, kFloat, 1, "hyperbolic sine", "sinh(a)",
              [](In x, At) { return std::sinh(x[0]); }),
    pointwise("cosh", 1, kFloat, 1, "hyperbolic cosine", "cosh(a)",
              [](In x, At) { return std::cosh(x[0]); }),
    pointwise("exp2", 1, kFloat, 1, "2 to the power x", "exp2(a)",
              [](In x, At) { return std::exp2(x[0]); }),
    pointwise("expm1", 1, kFloat, 2, "exp(x) - 1", "expm1(a)",
              [](In x, At) { return std::expm1(x[0]); }),
    pointwise("log2", 1, kFloat, 1, "logarithm to base 2", "log2(a)",
              [](In x, At) { return std::log2(x[0]); }),
    pointwise("erf", 1, kFloat, 1, "error function", "erf(a)",
              [](In x, At) { return std::erf(x[0]); }),
    with_jumps(pointwise("floor", 1, kPromote, 1, "the next whole number below", "round_down(a)",
                         [](In x, At) { return std::floor(x[0]); })),
    with_jumps(pointwise("ceil", 1, kPromote, 1, "the next whole number above", "round_up(a)",
                         [](In x, At) { return std::ceil(x[0]); })),
    with_jumps(pointwise("round", 1, kPromote, 1, "the nearest whole number, ties to even",
                         "round_even(a)", [](In x, At) { return std::nearbyint(x[0]); })),
    with_jumps(pointwise("trunc", 1, kPromote, 1, "the next whole number towards 0",
                         "round_to_zero(a)", [](In x, At) { return std::trunc(x[0]); })),
    with_jumps(pointwise("sign", 1, kPromote, 0, "1, 0 or -1, by the sign of x (NaN: 0)",
                         "sign_of(a)",
                         [](In x, At) { return double(x[0] > 0) - double(x[0] < 0); })),
    with_jumps(pointwise("fmod", 2, kPromote, 1, "what a / b, rounded towards 0, leaves over",
                         "truncated_rest(a, b)", [](In x, At) { return std::fmod(x[0], x[1]); })),
    with_jumps(pointwise(
        "remainder", 2, kPromote, 1, "what a / b, rounded down, leaves over: it has the sign of b",
        "floored_rest(a, b)", [](In x, At) { return reference::floored_rest(x[0], x[1]); })),
    with_jumps(pointwise("floor_divide", 2, kPromote, 1, "a / b, rounded down",
                         "floored_quotient(a, b)",
                         [](In x, At) { return reference::floored_quotient(x[0], x[1]); })),
    with_quick(pointwise("tanh", 1, kFloat, 1, "hyperbolic tangent", "tanh(a)",
                         [](In x, At) { return std::tanh(x[0]); }),
               "quick_tanh(a)"),
    with_quick(pointwise("sigmoid", 1, kFloat, 3, "1 / (1 + exp(-x))", "$sigmoid(a)",
                         [](In x, At) { return reference::sigmoid(x[0]); }),
               "quick_sigmoid(a)"),
    in_library(pointwise("relu", 1, kPromote, 1, "max(x, 0)", "a < $zero ? $zero : a",
                         [](In x, At) { return reference::larger(x[0], 0); }),
               LibraryStep::kRelu),
    OpRow{.name = "gelu",
          .op_class = kPointwise,
          .flops = 5,
          .type_rule = kFloat,
          .attributes = only(kApproximate),
          .summary = "x times the normal distribution at x, exact or by tanh",
          .device = "$gelu(a)",
          .quick = "$quick_gelu(a)",
          .library = LibraryStep::kGelu,
          .reference = reference::gelu},
    with_quick(pointwise("silu", 1, kFloat, 4, "x * sigmoid(x)", "a * $sigmoid(a)",
                         [](In x, At) { return x[0] * reference::sigmoid(x[0]); }),
               "quick_silu(a)"),
    pointwise("mish", 1, kFloat, 5, "x * tanh(softplus(x))", "mish(a)",
              [](In x, At) { return x[0] * std::tanh(std::log1p(std::exp(x[0]))); }),
    with_attributes(kBeta | kThreshold,
                    pointwise("softplus", 1, kFloat, 5,
                              "log(1 + exp(beta x)) / beta; x where beta x exceeds the threshold",
                              "softplus(a, $beta, $threshold)", reference::softplus)),
    with_attributes(
        only(kNegativeSlope),
        pointwise("leaky_relu", 1, kFloat, 1, "x, times negative_slope where x < 0",
                  "a < $zero ? a * $negative_slope : a",
                  [](In x, At at) { return x[0] < 0 ? x[0] * at.negative_slope : x[0]; })),
    with_attributes(
        only(kAlpha),
        pointwise("elu", 1, kFloat, 3, "x, alpha (exp(x) - 1) where x < 0",
                  "a > $zero ? a : $alpha * expm1(a)",
                  [](In x, At at) { return x[0] > 0 ? x[0] : at.alpha * std::expm1(x[0]); })),
    pointwise("selu", 1, kFloat, 4, "elu with the scales that keep unit variance", "selu(a)",
              [](In x, At) { return reference::selu(x[0]); }),
    pointwise("hardsigmoid", 1, kFloat, 2, "(x + 3) / 6, kept within 0 and 1", "hard_sigmoid(a)",
              [](In x, At) { return reference::hard_sigmoid(x[0]); }),
    pointwise("hardswish", 1, kFloat, 3, "x * hardsigmoid(x)", "a * hard_sigmoid(a)",
              [](In x, At) { return x[0] * reference::hard_sigmoid(x[0]); }),
    pointwise("square", 1, kPromote, 1, "x * x", "a * a", [](In x, At) { return x[0] * x[0]; }),
    OpRow{.name = "clamp",
          .op_class = kPointwise,
          .max_inputs = 3,
          .flops = 0,
          .attributes = kMin | kMax,
          .summary = "x kept within min and max (attributes or inputs)",
          .device = "smaller(larger(a, $min), $max)",
          .reference = reference::clamp},
    OpRow{.name = "cast",
          .op_class = kPointwise,
          .family = OpFamily::kCast,
          .attributes = only(kTo),
          .summary = "x as another dtype",
          .device = "a",
          .reference = [](In x, At) { return x[0]; }},
    OpRow{.name = "where",
          .op_class = kPointwise,
          .family = OpFamily::kWhere,
          .min_inputs = 3,
          .max_inputs = 3,
          .summary = "a where the condition holds, else b (condition, a, b)",
          .device = "a ? b : c",
          .reference = [](In x, At) { return x[0] != 0 ? x[1] : x[2]; }},
    pointwise("fma", 3, kPromote, 2, "a * b + c", "a * b + c",
              [](In x, At) { return x[0] * x[1] + x[2]; }),
    pointwise("lt", 2, kBool, 0, "a < b", "a < b",
              [](In x, At) { return x[0] < x[1] ? 1.0 : 0.0; }),
    pointwise("le", 2, kBool, 0, "a <= b", "a <= b",
              [](In x, At) { return x[0] <= x[1] ? 1.0 : 0.0; }),
    pointwise("gt", 2, kBool, 0, "a > b", "a > b",
              [](In x, At) { return x[0] > x[1] ? 1.0 : 0.0; }),
    pointwise("ge", 2, kBool, 0, "a >= b", "a >= b",
              [](In x, At) { return x[0] >= x[1] ? 1.0 : 0.0; }),
    pointwise("eq", 2, kBool, 0, "a == b", "a == b",
              [](In x, At) { return x[0] == x[1] ? 1.0 : 0.0; }),
    pointwise("ne", 2, kBool, 0, "a != b", "a != b",
              [](In x, At) { return x[0] != x[1] ? 1.0 : 0.0; }),
    pointwise("isnan", 1, kBool, 0, "whether x is not a number", "a != a",
              [](In x, At) { return std::isnan(x[0]) ? 1.0 : 0.0; }),
    pointwise("isinf", 1, kBool, 0, "whether x is infinite", "is_infinite(a)",
              [](In x, At) { return std::isinf(x[0]) ? 1.0 : 0.0; }),
    pointwise("logical_and", 2, kBool, 0, "whether neither is 0", "a != $zero && b != $zero",
              [](In x, At) { return x[0] != 0 && x[1] != 0 ? 1.0 : 0.0; }),
    pointwise("logical_or", 2, kBool, 0, "whether one is not 0", "a != $zero || b != $zero",
              [](In x, At) { return x[0] != 0 || x[1] != 0 ? 1.0 : 0.0; }),
    pointwise("logical_xor", 2, kBool, 0, "whether one alone is not 0",
              "(a != $zero) != (b != $zero)",
              [](In x, At) { return (x[0] != 0) != (x[1] != 0) ? 1.0 : 0.0; }),
    pointwise("logical_not", 1, kBool, 0, "whether x is 0", "a == $zero",
              [](In x, At) { return x[0] == 0 ? 1.0 : 0.0; }),
    pointwise("bitwise_and", 2, kBits, 0, "a & b, of integers", "a & b",
              [](In x, At) { return double(whole(x[0]) & whole(x[1])); }),
    pointwise("bitwise_or", 2, kBits, 0, "a | b, of integers", "a | b",
              [](In x, At) { return double(whole(x[0]) | whole(x[1])); }),
    pointwise("bitwise_xor", 2, kBits, 0, "a ^ b, of integers", "a ^ b",
              [](In x, At) { return double(whole(x[0]) ^ whole(x[1])); }),
    pointwise("bitwise_not", 1, kBits, 0, "~x, of integers", "$wrap(~a)",
              [](In x, At) { return double(~whole(x[0])); }),
    pointwise("bitwise_left_shift", 2, kBits, 0, "a << b, of integers; bits beyond the type go",
              "$wrap(shift_left(a, b))",
              [](In x, At) { return reference::shift_left(x[0], x[1]); }),
    pointwise("bitwise_right_shift", 2, kBits, 0, "a >> b, of integers; the sign fills up",
              "shift_right(a, b)", [](In x, At) { return reference::shift_right(x[0], x[1]); }),
    OpRow{.name = "dropout",
          .op_class = kPointwise,
          .family = OpFamily::kDropout,
          .max_outputs = 2,
          .flops = 1,
          .attributes = kP | kSeed | kSaveMask,
          .summary = "zeroes a share p, scales the rest; the mask as a second output",
          .device = "dropped($seed, $index, $limit) ? $zero : a * $kept",
          .device_more = {"!dropped($seed, $index, $limit)"},
          .factors = 0b01},
    in_softmax(reduction("sum", kAccumulate, 1, "sum over axes", Accumulator::kSum, "s.sum",
                         reference::sum),
               SoftmaxPart::kSum),
    reduction("mean", kFloat, 1, "mean over axes", Accumulator::kSum, "s.sum / $count",
              reference::mean),
    in_softmax(reduction("max", kPromote, 0, "maximum over axes", Accumulator::kLargest, "s.value",
                         reference::max),
               SoftmaxPart::kMaximum),
    reduction("min", kPromote, 0, "minimum over axes", Accumulator::kSmallest, "s.value",
              reference::min),
    reduction("amax_abs", kPromote, 0, "largest magnitude over axes",
              Accumulator::kLargestMagnitude, "s.value", reference::amax_abs),
    reduction("var", kFloat, 4, "variance over axes (of the whole population)",
              Accumulator::kMoments, "s.variance", reference::var),
    reduction("argmax", kIndex, 0, "index of the maximum over axes (the first, as i64)",
              Accumulator::kLargestPlace, "s.place", reference::argmax),
    reduction("logsumexp", kFloat, 3, "log of the sum of exponentials over axes",
              Accumulator::kExponentialSum, "s.log", reference::logsumexp),
    OpRow{.name = "softmax",
          .op_class = kNormalise,
          .family = OpFamily::kSoftmax,
          .flops = 3,
          .passes = 2,
          .attributes = only(kAxes),
          .summary = "softmax over an axis (default: the last)",
          .device = "exp_below(a - s.most) * s.inverse",
          .accumulator = Accumulator::kExponentialSum,
          .softmax = SoftmaxPart::kWhole,
          .reference = [](In x, At) { return std::exp(x[0] - x[1]) / x[2]; }},
    OpRow{.name = "log_softmax",
          .op_class = kNormalise,
          .family = OpFamily::kSoftmax,
          .flops = 3,
          .passes = 2,
          .attributes = only(kAxes),
          .summary = "log of softmax over an axis (default: the last)",
          .device = "a - s.log",
          .accumulator = Accumulator::kExponentialSum,
          .reference = [](In x, At) { return x[0] - x[1] - std::log(x[2]); }},
    OpRow{.name = "layer_norm",
          .op_class = kNormalise,
          .family = OpFamily::kRowNorm,
          .max_inputs = 3,
          .flops = 7,
          .passes = 2,
          .attributes = kAxes | kEps,
          .summary = "over the last axes, those of the weight (x, weight, bias)",
          .device = "(a - s.mean) * s.rstd * $weight + $bias",
          .accumulator = Accumulator::kMoments,
          .reference = [](In x, At) { return (x[0] - x[1]) / std::sqrt(x[2] + x[3]); }},
    OpRow{.name = "rms_norm",
          .op_class = kNormalise,
          .family = OpFamily::kRowNorm,
          .max_inputs = 2,
          .flops = 4,
          .passes = 2,
          .attributes = kAxes | kEps,
          .summary = "over the last axes, those of the weight (x, weight)",
          .device = "a * s.scale * $weight",
          .accumulator = Accumulator::kSquareSum,
          .reference = [](In x, At) { return x[0] / std::sqrt(x[1] * x[1] + x[2] + x[3]); }},
    OpRow{.name = "batch_norm",
          .op_class = kNormalise,
          .family = OpFamily::kBatchNorm,
          .min_inputs = 3,
          .max_inputs = 5,
          .max_outputs = 3,
          .flops = 7,
          .passes = 2,
          .holds_rows = false,  // a channel is spread over all samples
          .attributes = kMode | kEps,
          .summary = "per channel (x, weight, bias, and mean, variance for inference)",
          .device = "(a - $mean) * $rstd * $weight + $bias",
          .device_more = {"s.mean", "s.variance"},
          .accumulator = Accumulator::kMoments,
          .per_channel = true,
          .reference = [](In x, At) { return (x[0] - x[1]) / std::sqrt(x[2] + x[3]); }},
    OpRow{.name = "group_norm",
          .op_class = kNormalise,
          .family = OpFamily::kGroupNorm,
          .max_inputs = 3,
          .flops = 7,
          .passes = 2,
          .attributes = kGroups | kEps,
          .summary = "per group of channels (x, weight, bias)",
          .device = "(a - s.mean) * s.rstd * $weight + $bias",
          .accumulator = Accumulator::kMoments,
          .per_channel = true,
          .reference = [](In x, At) { return (x[0] - x[1]) / std::sqrt(x[2] + x[3]); }},
    OpRow{.name = "cross_entropy",
          .op_class = kNormalise,
          .family = OpFamily::kLoss,
          .min_inputs = 2,
          .max_inputs = 2,
          .max_outputs = 2,
          .flops = 3,
          .attributes = only(kReduction),
          .summary = "(logits, class indices); the log-normaliser as a second output",
          .device = "s.log - a",
          .device_more = {"s.log"},
          .accumulator = Accumulator::kExponentialSum},
    OpRow{.name = "nll_loss",
          .op_class = kNormalise,
          .family = OpFamily::kLoss,
          .min_inputs = 2,
          .max_inputs = 2,
          .flops = 1,
          .access = Access::kGather,  // one score of each row
          .attributes = only(kReduction),
          .summary = "(log-probabilities, class indices)",
          .device = "-a"},
    movement("transpose", 1, Access::kPermute, only(kPerm), OpFamily::kTranspose,
             "a copy with the axes in another order (default: reversed)"),
    OpRow{.name = "concat",
          .op_class = kMovement,
          .family = OpFamily::kConcat,
          .min_inputs = 2,
          .max_inputs = 255,
          .access = Access::kSelect,
          .attributes = only(kAxes),
          .summary = "one after the other along an axis (default: the first)"},
    movement("slice", 1, Access::kSelect, kAxes | kStarts | kEnds | kSteps, OpFamily::kSlice,
             "a copy of a range of each of some axes"),
    movement("gather", 2, Access::kGather, only(kAxes), OpFamily::kGather,
             "the rows of x that the indices name (x, indices)"),
    movement("embedding", 2, Access::kGather, 0, OpFamily::kEmbedding,
             "the rows of a table that the indices name (table, indices)"),
    movement("scatter_update", 3, Access::kScatter, only(kAxes), OpFamily::kScatter,
             "replaces rows of x in place (x, indices, rows)"),
    movement("broadcast_to", 1, Access::kSame, only(kShape), OpFamily::kBroadcastTo,
             "a copy, repeated to a shape"),
    movement("copy", 1, Access::kSame, 0, OpFamily::kPointwise, "a copy"),
    view("reshape", Access::kSame, only(kShape), OpFamily::kReshape,
         "the same elements, another shape"),
    view("view", Access::kSame, only(kShape), OpFamily::kReshape, "the same as reshape"),
    view("permute_view", Access::kPermute, only(kPerm), OpFamily::kTranspose,
         "the same elements, read with the axes in another order"),
    OpRow{.name = "matmul",
          .op_class = kContract,
          .family = OpFamily::kMatmul,
          .min_inputs = 2,
          .max_inputs = 2,
          .attributes = kTransposeA | kTransposeB,
          .summary = "a @ b, over broadcast batches"},
    OpRow{.name = "linear",
          .op_class = kContract,
          .family = OpFamily::kLinear,
          .min_inputs = 2,
          .max_inputs = 3,
          .summary = "x @ weight^T + bias, weight being [out, in]"},
    OpRow{.name = "conv2d",
          .op_class = kContract,
          .family = OpFamily::kConv2d,
          .min_inputs = 2,
          .max_inputs = 3,
          .has_kernel = false,
          .attributes = kStride | kPadding | kDilation | kGroups,
          .summary = "(x [N,C,H,W], weight [out, C/groups, h, w], bias)"},
    OpRow{.name = "attention",
          .op_class = kContract,
          .family = OpFamily::kAttention,
          .min_inputs = 3,
          .max_inputs = 4,
          .attributes = kCausal | kScale,
          .summary = "softmax(q @ k^T * scale + mask) @ v; fewer key heads are shared"},
    OpRow{.name = "custom",
          .op_class = kOpaque,
          .family = OpFamily::kCustom,
          .min_inputs = 0,
          .max_inputs = 255,
          .max_outputs = 255,
          .summary = "anything: declared output shapes, reads, writes, flops, class"},
};

constexpr auto kNames = [] {
  std::array<std::string_view, kRows.size()> names{};
  for (std::size_t i = 0; i < kRows.size(); ++i) names[i] = kRows[i].name;
  return names;
}();

constexpr std::array<std::string_view, 7> kClassNames = {
    "pointwise", "reduce", "normalise", "movement", "view", "contract", "opaque"};

}  // namespace

std::span<const OpRow> op_table() { return kRows; }

const OpRow* op_named(std::string_view name) {
  const auto* found = std::ranges::find(kNames, name);
  return found == kNames.end() ? nullptr : &kRows[static_cast<std::size_t>(found - kNames.begin())];
}

std::span<const std::string_view> op_names() { return kNames; }

std::size_t table_input(OpFamily family, DType first, DType second) {
  return family == OpFamily::kEmbedding && !is_float(first) && is_float(second) ? 1 : 0;
}

std::string_view name_of(OpClass op_class) {
  return kClassNames[static_cast<std::size_t>(op_class)];
}

std::span<const std::string_view> op_class_names() { return kClassNames; }

}  // namespace fusecalc
