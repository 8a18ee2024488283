// Losses of ATen that have no row of their own: as PyTorch decomposes them.

#include <array>

#include "input/pt2/aten.hpp"

namespace fusecalc {
namespace {

using Step = AtenCall::Step;

struct Pair {
  Step self;
  Step target;
};

// Both have the shape of the loss: what broadcasts was expanded before.
Pair operands(const AtenCall& call) {
  const auto self = call.value("self");
  const auto target = call.value("target");
  if (!self || !target || call.at(*self).type.shape() != call.at(*target).type.shape()) return {};
  return {call.tensor(*self), call.operand(*target)};
}

// The row yields the loss of each element, of which the result is the mean or the sum, or it is all
// of them.
bool reduced(const AtenCall& call, std::string_view row, const std::vector<Step>& inputs) {
  const std::int64_t reduction = call.whole("reduction", 1);
  if (reduction == 0) return call.last_step(row, inputs);
  return call.last_step(reduction == 1 ? "mean" : "sum", {call.step(row, inputs)});
}

// Squared or absolute differences.
bool error_of(const AtenCall& call, std::string_view row) {
  const auto [self, target] = operands(call);
  return reduced(call, row, {call.step("sub", {self, target})});
}

// With d = |x - t| and m = min(d, delta): m (d - m / 2), which is d^2 / 2 where d is below delta.
// smooth_l1_loss divides it by its delta, beta.
bool bounded_error(const AtenCall& call, std::string_view parameter) {
  const auto [self, target] = operands(call);
  const double delta = call.number(parameter).value_or(1);
  const bool divides = parameter == "beta" && delta != 1;
  if (divides && delta <= 0) return error_of(call, "abs");
  const Step d = call.step("abs", {call.step("sub", {self, target})});
  const Step m = call.step("clamp", {d}, {{.name = "max", .value = delta}});
  const Step rest = call.step("fma", {m, -0.5, d});
  if (!divides) return reduced(call, "mul", {m, rest});
  return reduced(call, "div", {call.step("mul", {m, rest}), delta});
}

// t (log t - x), or exp(t) (t - x) of a target that is a logarithm.
bool kl_div(const AtenCall& call, std::string_view) {
  const auto [self, target] = operands(call);
  if (call.truth("log_target", false)) {
    return reduced(call, "mul", {call.step("exp", {target}), call.step("sub", {target, self})});
  }
  return reduced(call, "mul", {target, call.step("sub", {call.step("log", {target}), self})});
}

// (1 - t) x - w log sigmoid(x), with w = 1 + (pos_weight - 1) t.
bool cross_entropy_of_logits(const AtenCall& call, std::string_view) {
  const auto [self, target] = operands(call);
  Step log = call.step("softplus", {self}, log_sigmoid_attributes());
  if (const auto positive = call.value("pos_weight")) {
    const Step more = call.step("sub", {call.operand(*positive), 1.0});
    log = call.step("mul", {log, call.step("fma", {more, target, 1.0})});
  }
  const Step other = call.step("mul", {call.step("sub", {1.0, target}), self});
  const auto weight = call.value("weight");
  if (!weight) return reduced(call, "sub", {other, log});
  return reduced(call, "mul", {call.step("sub", {other, log}), call.operand(*weight)});
}

constexpr std::array kLossRules = {
    AtenRule{"mse_loss", error_of, "square"},
    AtenRule{"l1_loss", error_of, "abs"},
    AtenRule{"smooth_l1_loss", bounded_error, "beta"},
    AtenRule{"huber_loss", bounded_error, "delta"},
    AtenRule{"kl_div", kl_div},
    AtenRule{"binary_cross_entropy_with_logits", cross_entropy_of_logits},
};

}  // namespace

std::span<const AtenRule> aten_loss_rules() { return kLossRules; }

}  // namespace fusecalc
