// The rows of pointwise ops, and of dropout.
//
// Plain additions and multiplications count 1 FLOP, so does a call of a special function; moves,
// comparisons and selections count none.

#include <array>
#include <cmath>

#include "graph/op_rows.hpp"
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

constexpr OpRow with_factors(OpRow row, std::uint8_t factors) {
  row.factors = factors;
  return row;
}

constexpr OpRow with_instructions(std::uint8_t instructions, OpRow row) {
  row.instructions = instructions;
  return row;
}

// `narrow`: where the result has 16 bits; `special`: of them, those of the special function units.
constexpr OpRow with_functions(std::uint8_t instructions, std::uint8_t narrow, std::uint8_t special,
                               OpRow row) {
  row.instructions = instructions;
  row.narrow_instructions = narrow;
  row.special_functions = special;
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

constexpr std::array kPointwiseOps = {
    in_library(
        pointwise("add", 2, kPromote, 1, "a + b", "a + b", [](In x, At) { return x[0] + x[1]; }),
        LibraryStep::kBias),
    in_softmax(
        pointwise("sub", 2, kPromote, 1, "a - b", "a - b", [](In x, At) { return x[0] - x[1]; }),
        SoftmaxPart::kDifference),
    with_factors(
        pointwise("mul", 2, kPromote, 1, "a * b", "a * b", [](In x, At) { return x[0] * x[1]; }),
        0b11),
    with_quick(
        with_factors(
            in_softmax(with_instructions(8, pointwise("div", 2, kFloat, 1, "a / b", "$divide(a, b)",
                                                      [](In x, At) { return x[0] / x[1]; })),
                       SoftmaxPart::kQuotient),
            0b01),
        "quick_divide(a, b)"),
    keeping_range(pointwise("maximum", 2, kPromote, 1, "the larger of a and b", "larger(a, b)",
                            [](In x, At) { return reference::larger(x[0], x[1]); })),
    keeping_range(pointwise("minimum", 2, kPromote, 1, "the smaller of a and b", "smaller(a, b)",
                            [](In x, At) { return reference::smaller(x[0], x[1]); })),
    with_instructions(40, pointwise("pow", 2, kPromote, 1, "a to the power b", "power(a, b)",
                                    [](In x, At) { return std::pow(x[0], x[1]); })),
    pointwise("neg", 1, kPromote, 1, "-x", "-a", [](In x, At) { return -x[0]; }),
    pointwise("abs", 1, kPromote, 1, "|x|", "magnitude(a)",
              [](In x, At) { return std::abs(x[0]); }),
    with_quick(
        in_softmax(with_functions(5, 2, 1,
                                  pointwise("exp", 1, kFloat, 1, "e to the power x", "$exp(a)",
                                            [](In x, At) { return std::exp(x[0]); })),
                   SoftmaxPart::kExponential),
        "quick_exp(a)"),
    with_quick(with_instructions(8, pointwise("log", 1, kFloat, 1, "natural logarithm", "log(a)",
                                              [](In x, At) { return std::log(x[0]); })),
               "quick_log(a)"),
    with_quick(with_instructions(12, pointwise("log1p", 1, kFloat, 2, "log(1 + x)", "log1p(a)",
                                               [](In x, At) { return std::log1p(x[0]); })),
               "quick_log1p(a)"),
    with_functions(9, 4, 1,
                   pointwise("sqrt", 1, kFloat, 1, "square root", "$sqrt(a)",
                             [](In x, At) { return std::sqrt(x[0]); })),
    with_instructions(8, pointwise("rsqrt", 1, kFloat, 1, "1 / sqrt(x)", "rsqrt(a)",
                                   [](In x, At) { return 1 / std::sqrt(x[0]); })),
    with_instructions(8, pointwise("reciprocal", 1, kFloat, 1, "1 / x", "$divide($one, a)",
                                   [](In x, At) { return 1 / x[0]; })),
    with_slow_path(with_functions(23, 10, 0,
                                  pointwise("sin", 1, kFloat, 1, "sine", "$sin(a)",
                                            [](In x, At) { return std::sin(x[0]); }))),
    with_slow_path(with_functions(23, 10, 0,
                                  pointwise("cos", 1, kFloat, 1, "cosine", "$cos(a)",
                                            [](In x, At) { return std::cos(x[0]); }))),
    with_slow_path(with_instructions(26, pointwise("tan", 1, kFloat, 1, "tangent", "tan(a)",
                                                   [](In x, At) { return std::tan(x[0]); }))),
    with_instructions(20, pointwise("asin", 1, kFloat, 1, "arcsine", "asin(a)",
                                    [](In x, At) { return std::asin(x[0]); })),
    with_instructions(20, pointwise("acos", 1, kFloat, 1, "arccosine", "acos(a)",
                                    [](In x, At) { return std::acos(x[0]); })),
    with_instructions(18, pointwise("atan", 1, kFloat, 1, "arctangent", "atan(a)",
                                    [](In x, At) { return std::atan(x[0]); })),
    with_instructions(
        30, pointwise("atan2", 2, kFloat, 1, "the angle of the point (b, a)", "atan2(a, b)",
                      [](In x, At) { return std::atan2(x[0], x[1]); })),
    with_instructions(20, pointwise("hypot", 2, kFloat, 1, "sqrt(a^2 + b^2)", "hypot(a, b)",
                                    [](In x, At) { return std::hypot(x[0], x[1]); })),
    with_instructions(20, pointwise("sinh", 1, kFloat, 1, "hyperbolic sine", "sinh(a)",
                                    [](In x, At) { return std::sinh(x[0]); })),
    with_instructions(16, pointwise("cosh", 1, kFloat, 1, "hyperbolic cosine", "cosh(a)",
                                    [](In x, At) { return std::cosh(x[0]); })),
    with_instructions(30, pointwise("asinh", 1, kFloat, 1, "inverse hyperbolic sine", "asinh(a)",
                                    [](In x, At) { return std::asinh(x[0]); })),
    with_instructions(26, pointwise("acosh", 1, kFloat, 1, "inverse hyperbolic cosine", "acosh(a)",
                                    [](In x, At) { return std::acosh(x[0]); })),
    with_instructions(24, pointwise("atanh", 1, kFloat, 1, "inverse hyperbolic tangent", "atanh(a)",
                                    [](In x, At) { return std::atanh(x[0]); })),
    with_instructions(4, pointwise("exp2", 1, kFloat, 1, "2 to the power x", "exp2(a)",
                                   [](In x, At) { return std::exp2(x[0]); })),
    with_instructions(14, pointwise("expm1", 1, kFloat, 2, "exp(x) - 1", "expm1(a)",
                                    [](In x, At) { return std::expm1(x[0]); })),
    with_instructions(8, pointwise("log2", 1, kFloat, 1, "logarithm to base 2", "log2(a)",
                                   [](In x, At) { return std::log2(x[0]); })),
    with_instructions(9, pointwise("log10", 1, kFloat, 1, "logarithm to base 10", "log10(a)",
                                   [](In x, At) { return std::log10(x[0]); })),
    with_instructions(
        26, pointwise("logaddexp", 2, kFloat, 5, "log(exp(a) + exp(b))", "log_add_exp(a, b)",
                      [](In x, At) { return reference::log_add_exp(x[0], x[1]); })),
    with_instructions(
        11, pointwise("xlogy", 2, kFloat, 2, "a * log(b); 0 where a is 0, unless b is NaN",
                      "x_log_y(a, b)", [](In x, At) { return reference::x_log_y(x[0], x[1]); })),
    with_instructions(
        17, pointwise("logit", 1, kFloat, 3, "log(x / (1 - x))", "log($divide(a, $one - a))",
                      [](In x, At) { return std::log(x[0] / (1 - x[0])); })),
    with_instructions(22, pointwise("erf", 1, kFloat, 1, "error function", "erf(a)",
                                    [](In x, At) { return std::erf(x[0]); })),
    with_instructions(26, pointwise("erfc", 1, kFloat, 1, "1 - erf(x)", "erfc(a)",
                                    [](In x, At) { return std::erfc(x[0]); })),
    with_jumps(pointwise("copysign", 2, kFloat, 1, "a with the sign of b", "copysign(a, b)",
                         [](In x, At) { return std::copysign(x[0], x[1]); })),
    with_jumps(
        keeping_range(pointwise("floor", 1, kPromote, 1, "the next whole number below",
                                "round_down(a)", [](In x, At) { return std::floor(x[0]); }))),
    with_jumps(keeping_range(pointwise("ceil", 1, kPromote, 1, "the next whole number above",
                                       "round_up(a)", [](In x, At) { return std::ceil(x[0]); }))),
    with_jumps(
        keeping_range(pointwise("round", 1, kPromote, 1, "the nearest whole number, ties to even",
                                "round_even(a)", [](In x, At) { return std::nearbyint(x[0]); }))),
    with_jumps(
        keeping_range(pointwise("trunc", 1, kPromote, 1, "the next whole number towards 0",
                                "round_to_zero(a)", [](In x, At) { return std::trunc(x[0]); }))),
    with_jumps(
        keeping_range(pointwise("frac", 1, kPromote, 2, "x - trunc(x)", "a - round_to_zero(a)",
                                [](In x, At) { return x[0] - std::trunc(x[0]); }))),
    with_jumps(keeping_range(
        pointwise("sign", 1, kPromote, 0, "1, 0 or -1, by the sign of x (NaN: 0)", "sign_of(a)",
                  [](In x, At) { return double(x[0] > 0) - double(x[0] < 0); }))),
    with_jumps(with_instructions(
        20, keeping_range(pointwise(
                "fmod", 2, kPromote, 1, "what a / b, rounded towards 0, leaves over",
                "truncated_rest(a, b)", [](In x, At) { return std::fmod(x[0], x[1]); })))),
    with_jumps(with_instructions(
        20, keeping_range(pointwise(
                "remainder", 2, kPromote, 1,
                "what a / b, rounded down, leaves over: it has the sign of b", "floored_rest(a, b)",
                [](In x, At) { return reference::floored_rest(x[0], x[1]); })))),
    with_jumps(with_instructions(
        14,
        pointwise("floor_divide", 2, kPromote, 1, "a / b, rounded down", "floored_quotient(a, b)",
                  [](In x, At) { return reference::floored_quotient(x[0], x[1]); }))),
    with_quick(with_functions(14, 1, 1,
                              pointwise("tanh", 1, kFloat, 1, "hyperbolic tangent", "$tanh(a)",
                                        [](In x, At) { return std::tanh(x[0]); })),
               "quick_tanh(a)"),
    with_quick(with_functions(10, 4, 2,
                              pointwise("sigmoid", 1, kFloat, 3, "1 / (1 + exp(-x))", "$sigmoid(a)",
                                        [](In x, At) { return reference::sigmoid(x[0]); })),
               "quick_sigmoid(a)"),
    with_quick(in_library(keeping_range(pointwise(
                              "relu", 1, kPromote, 1, "max(x, 0)", "a < $zero ? $zero : a",
                              [](In x, At) { return reference::larger(x[0], 0); })),
                          LibraryStep::kRelu),
               "quick_relu(a)"),
    OpRow{.name = "gelu",
          .op_class = kPointwise,
          .flops = 5,
          .instructions = 26,
          .narrow_instructions = 10,
          .special_functions = 1,
          .type_rule = kFloat,
          .attributes = only(kApproximate),
          .summary = "x times the normal distribution at x, exact or by tanh",
          .device = "$gelu(a)",
          .quick = "$quick_gelu(a)",
          .library = LibraryStep::kGelu,
          .reference = reference::gelu},
    with_quick(with_functions(11, 5, 2,
                              pointwise("silu", 1, kFloat, 4, "x * sigmoid(x)", "a * $sigmoid(a)",
                                        [](In x, At) { return x[0] * reference::sigmoid(x[0]); })),
               "quick_silu(a)"),
    with_quick(with_functions(11, 5, 2,
                              pointwise("gate", 2, kFloat, 4, "a * sigmoid(b)", "a * $sigmoid(b)",
                                        [](In x, At) { return x[0] * reference::sigmoid(x[1]); })),
               "a * quick_sigmoid(b)"),
    with_instructions(
        26, pointwise("mish", 1, kFloat, 5, "x * tanh(softplus(x))", "mish(a)",
                      [](In x, At) { return x[0] * std::tanh(std::log1p(std::exp(x[0]))); })),
    with_attributes(
        kBeta | kThreshold,
        with_instructions(
            16, pointwise("softplus", 1, kFloat, 5,
                          "log(1 + exp(beta x)) / beta; x where beta x exceeds the threshold",
                          "softplus(a, $beta, $threshold)", reference::softplus))),
    with_attributes(
        only(kNegativeSlope),
        pointwise("leaky_relu", 1, kFloat, 1, "x, times negative_slope where x < 0",
                  "a < $zero ? a * $negative_slope : a",
                  [](In x, At at) { return x[0] < 0 ? x[0] * at.negative_slope : x[0]; })),
    pointwise("prelu", 2, kFloat, 1, "x, times a slope where x < 0 (x, slope)",
              "a < $zero ? a * b : a", [](In x, At) { return x[0] < 0 ? x[0] * x[1] : x[0]; }),
    with_attributes(
        only(kAlpha),
        with_instructions(
            8,
            pointwise("elu", 1, kFloat, 3, "x, alpha (exp(x) - 1) where x < 0",
                      "a > $zero ? a : $alpha * expm1(a)",
                      [](In x, At at) { return x[0] > 0 ? x[0] : at.alpha * std::expm1(x[0]); }))),
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
          .keeps_range = true,
          .reference = reference::clamp},
    OpRow{.name = "nan_to_num",
          .op_class = kPointwise,
          .instructions = 5,
          .attributes = kValue | kMin | kMax,
          .summary = "x; value where it is NaN, min and max in place of the infinities, which are "
                     "the least and the largest finite numbers of its dtype if not given",
          .device = "finite_or(a, $value, $min, $max)",
          .keeps_range = true,
          .has_type_bounds = true,
          .reference = reference::nan_to_num},
    OpRow{.name = "cast",
          .op_class = kPointwise,
          .family = OpFamily::kCast,
          .attributes = only(kTo),
          .summary = "x as another dtype",
          .device = "a",
          .keeps_range = true,
          .reference = [](In x, At) { return x[0]; }},
    OpRow{.name = "where",
          .op_class = kPointwise,
          .family = OpFamily::kWhere,
          .min_inputs = 3,
          .max_inputs = 3,
          .summary = "a where the condition holds, else b (condition, a, b)",
          .device = "a ? b : c",
          .keeps_range = true,
          .reference = [](In x, At) { return x[0] != 0 ? x[1] : x[2]; }},
    pointwise("fma", 3, kPromote, 2, "a * b + c", "a * b + c",
              [](In x, At) { return x[0] * x[1] + x[2]; }),
    pointwise("lerp", 3, kPromote, 3, "a + weight * (b - a) (a, b, weight)", "a + c * (b - a)",
              [](In x, At) { return x[0] + x[2] * (x[1] - x[0]); }),
    pointwise("addcmul", 4, kPromote, 3, "a + scale * b * c (a, b, c, scale)", "a + d * b * c",
              [](In x, At) { return x[0] + x[3] * x[1] * x[2]; }),
    pointwise("addcdiv", 4, kPromote, 3, "a + scale * b / c (a, b, c, scale)", "a + d * b / c",
              [](In x, At) { return x[0] + x[3] * x[1] / x[2]; }),
    pointwise("squared_difference", 2, kPromote, 2, "(a - b)^2", "(a - b) * (a - b)",
              [](In x, At) { return (x[0] - x[1]) * (x[0] - x[1]); }),
    with_attributes(
        only(kDelta),
        with_instructions(7, pointwise("huber", 2, kFloat, 4,
                                       "d^2 / 2 where d = |a - b| is at most delta, delta "
                                       "(d - delta / 2) beyond",
                                       "huber(a, b, $delta)", reference::huber))),
    with_attributes(only(kBeta), with_instructions(
                                     7, pointwise("smooth_l1", 2, kFloat, 4,
                                                  "d^2 / (2 beta) where d = |a - b| is below beta, "
                                                  "d - beta / 2 beyond",
                                                  "smooth_l1(a, b, $beta)", reference::smooth_l1))),
    with_instructions(
        28, pointwise("binary_cross_entropy", 2, kFloat, 8,
                      "-t log(p) - (1 - t) log(1 - p), of logarithms that are at least -100 (p, t)",
                      "binary_cross_entropy(a, b)",
                      [](In x, At) { return reference::binary_cross_entropy(x[0], x[1]); })),
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
          .instructions = 24,
          .type_rule = kFloat,
          .attributes = kP | kSeed | kSaveMask,
          .summary = "zeroes a share p, scales the rest; the mask as a second output",
          .device = "dropped($seed, $index, $limit) ? $zero : a * $kept",
          .device_more = {"!dropped($seed, $index, $limit)"},
          .factors = 0b01},
};

}  // namespace

std::span<const OpRow> pointwise_ops() { return kPointwiseOps; }

}  // namespace fusecalc
