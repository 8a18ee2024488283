// Pointwise ATen ops that several rows of the op table compute, or a row of another name.

#include <array>
#include <numbers>

#include "input/pt2/aten.hpp"

namespace fusecalc {
namespace {

using Step = AtenCall::Step;

Step operand(const AtenCall& call, std::string_view name) {
  if (const auto value = call.value(name)) return call.operand(*value);
  return call.number(name);
}

Step self_of(const AtenCall& call) {
  const auto self = call.value("self");
  return self ? Step(call.tensor(*self)) : std::nullopt;
}

bool row_of(const AtenCall& call, std::string_view row) {
  return call.last_step(row, {self_of(call)});
}

// x times 0 is 0, unless x is infinite or NaN.
bool is_finite(const AtenCall& call, std::string_view) {
  return call.last_step("eq", {call.step("mul", {self_of(call), 0.0}), 0.0});
}

bool hard_shrink(const AtenCall& call, std::string_view) {
  const Step x = self_of(call);
  const double least = call.number("lambd").value_or(0.5);
  return call.last_step("where", {call.step("gt", {call.step("abs", {x}), least}), x, 0.0});
}

bool soft_shrink(const AtenCall& call, std::string_view) {
  const Step x = self_of(call);
  const double bound = call.number("lambd").value_or(0.5);
  const Step inner =
      call.step("clamp", {x}, {{.name = "min", .value = -bound}, {.name = "max", .value = bound}});
  return call.last_step("sub", {x, inner});
}

// Outside of training, the slope is the mean of its bounds.
bool random_relu(const AtenCall& call, std::string_view) {
  if (call.truth("training", false)) return false;
  const double slope =
      (call.number("lower").value_or(1.0 / 8) + call.number("upper").value_or(1.0 / 3)) / 2;
  return call.last_step("leaky_relu", {self_of(call)},
                        {{.name = "negative_slope", .value = slope}});
}

// Of x, which eps keeps away from 0 and 1.
bool logit(const AtenCall& call, std::string_view) {
  Step x = self_of(call);
  if (const auto eps = call.number("eps")) {
    x = call.step("clamp", {x},
                  {{.name = "min", .value = *eps}, {.name = "max", .value = 1 - *eps}});
  }
  return call.last_step("logit", {x});
}

// The gradient, where x is not above 0 times the slope there: of elu's own result, or of x.
bool elu_backward(const AtenCall& call, std::string_view) {
  const Step gradient = operand(call, "grad_output");
  const Step x = operand(call, "self_or_result");
  const double scale = call.number("scale").value_or(1);
  const double inner = call.number("input_scale").value_or(1);
  const double alpha = call.number("alpha").value_or(1) * scale;
  const auto times = [&call](const Step& step, double factor) {
    return factor == 1 ? step : call.step("mul", {step, factor});
  };
  const bool of_result = call.truth("is_result", false);
  const Step slope =
      of_result ? call.step("add", {x, alpha}) : times(call.step("exp", {times(x, inner)}), alpha);
  const Step below = call.step("mul", {gradient, times(slope, inner)});
  return call.last_step("where", {call.step("le", {x, 0.0}), below, times(gradient, scale)});
}

Step cast_to(const AtenCall& call, const Step& step, DType dtype) {
  return call.step("cast", {step}, {{.name = "to", .value = std::string(name_of(dtype))}});
}

bool degrees(const AtenCall& call, std::string_view) {
  return call.last_step("mul", {self_of(call), 180 / std::numbers::pi});
}

bool radians(const AtenCall& call, std::string_view) {
  return call.last_step("mul", {self_of(call), std::numbers::pi / 180});
}

// That of -0, too, is taken for that of 0.
bool sign_bit(const AtenCall& call, std::string_view) {
  return call.last_step("lt", {self_of(call), 0.0});
}

// x 2^n, of which PyTorch, too, makes the power first.
bool scaled_by_power(const AtenCall& call, std::string_view) {
  const Step power = cast_to(call, operand(call, "other"), call.type().dtype());
  return call.last_step("mul", {self_of(call), call.step("exp2", {power})});
}

bool double_power(const AtenCall& call, std::string_view) {
  const auto widened = [&call](std::string_view name) {
    const Step step = operand(call, name);
    return step && std::holds_alternative<double>(*step) ? step : cast_to(call, step, DType::kF64);
  };
  return call.last_step("pow", {widened("self"), widened("exponent")});
}

constexpr std::array kElementwiseRules = {
    AtenRule{"rad2deg", degrees},
    AtenRule{"deg2rad", radians},
    AtenRule{"signbit", sign_bit},
    AtenRule{"ldexp", scaled_by_power},
    AtenRule{"float_power", double_power},
    AtenRule{"elu_backward", elu_backward},
    AtenRule{"isfinite", is_finite},
    AtenRule{"hardshrink", hard_shrink},
    AtenRule{"softshrink", soft_shrink},
    AtenRule{"rrelu", random_relu},
    AtenRule{"special_erfc", row_of, "erfc"},
    AtenRule{"logit", logit},
    AtenRule{"special_logit", logit},
    AtenRule{"sgn", row_of, "sign"},
    AtenRule{"special_expit", row_of, "sigmoid"},
    AtenRule{"special_erf", row_of, "erf"},
    AtenRule{"special_exp2", row_of, "exp2"},
    AtenRule{"special_log1p", row_of, "log1p"},
    AtenRule{"special_expm1", row_of, "expm1"},
};

}  // namespace

std::span<const AtenRule> aten_elementwise_rules() { return kElementwiseRules; }

}  // namespace fusecalc
