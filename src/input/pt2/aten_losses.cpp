// Losses of ATen that have no row of their own: as PyTorch decomposes them.

#include <array>
#include <cmath>
#include <numbers>

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
bool reduced(const AtenCall& call, std::string_view row, const std::vector<Step>& inputs,
             const std::vector<WrittenAttribute>& attributes = {}) {
  const std::int64_t reduction = call.whole("reduction", 1);
  if (reduction == 0) return call.last_step(row, inputs, attributes);
  return call.last_step(reduction == 1 ? "mean" : "sum", {call.step(row, inputs, attributes)});
}

bool squared_error(const AtenCall& call, std::string_view) {
  const auto [self, target] = operands(call);
  return reduced(call, "squared_difference", {self, target});
}

bool absolute_error(const AtenCall& call, std::string_view) {
  const auto [self, target] = operands(call);
  return reduced(call, "abs", {call.step("sub", {self, target})});
}

bool huber(const AtenCall& call, std::string_view) {
  const auto [self, target] = operands(call);
  const double delta = call.number("delta").value_or(1);
  return reduced(call, "huber", {self, target}, {{.name = "delta", .value = delta}});
}

// Without a beta PyTorch, too, takes absolute differences.
bool smooth_error(const AtenCall& call, std::string_view) {
  const auto [self, target] = operands(call);
  const double beta = call.number("beta").value_or(1);
  if (beta == 0) return absolute_error(call, "");
  return reduced(call, "smooth_l1", {self, target}, {{.name = "beta", .value = beta}});
}

// t (log t - x), or exp(t) (t - x) of a target that is a logarithm. What a softmax made of rows is
// reduced along them first, which can be done in its kernel.
bool kl_div(const AtenCall& call, std::string_view) {
  const auto [self, target] = operands(call);
  const bool log_target = call.truth("log_target", false);
  const std::vector<Step> factors = {
      log_target ? call.step("exp", {target}) : target,
      call.step("sub", {log_target ? target : call.step("log", {target}), self})};
  const std::int64_t reduction = call.whole("reduction", 1);
  if (reduction == 0) return call.last_step("mul", factors);
  const std::string_view row = reduction == 1 ? "mean" : "sum";
  return call.last_step(
      row, {call.step(row, {call.step("mul", factors)}, {listed("axes", {WrittenDim(-1)})})});
}

// (1 - t) x - w log sigmoid(x), with w = 1 + (pos_weight - 1) t.
bool cross_entropy_of_logits(const AtenCall& call, std::string_view) {
  const auto [self, target] = operands(call);
  Step log = call.step("softplus", {self}, log_sigmoid_attributes());
  if (const auto positive = call.value("pos_weight")) {
    const Step more = call.step("sub", {call.operand(*positive), 1.0});
    log = call.step("mul", {log, call.step("fma", {more, target, 1.0})});
  }
  // Adversarial losses have one target for all, 1 or 0.
  const double* all = target ? std::get_if<double>(&*target) : nullptr;
  const Step rest = all != nullptr ? Step(1 - *all) : call.step("sub", {1.0, target});
  if (all != nullptr && *all == 1 && !call.given("weight")) return reduced(call, "neg", {log});
  const Step other = rest == Step(1.0) ? self : call.step("mul", {self, rest});
  const auto weight = call.value("weight");
  if (!weight) return reduced(call, "sub", {other, log});
  return reduced(call, "mul", {call.step("sub", {other, log}), call.operand(*weight)});
}

Step named(const AtenCall& call, std::string_view name) {
  const auto value = call.value(name);
  return value ? Step(call.operand(*value)) : std::nullopt;
}

bool cross_entropy_of_probabilities(const AtenCall& call, std::string_view) {
  const auto [self, target] = operands(call);
  const std::vector<Step> both = {self, target};
  if (!call.given("weight")) return reduced(call, "binary_cross_entropy", both);
  return reduced(call, "mul", {call.step("binary_cross_entropy", both), named(call, "weight")});
}

// log(1 + exp(-t x))
bool soft_margin(const AtenCall& call, std::string_view) {
  const auto [self, target] = operands(call);
  const Step exponent = call.step("mul", {call.step("neg", {target}), self});
  return reduced(call, "log1p", {call.step("exp", {exponent})});
}

// The distance x, unless t is -1, and max(0, margin - x), unless it is 1.
bool hinge_embedding(const AtenCall& call, std::string_view) {
  const auto [self, target] = operands(call);
  const double margin = call.number("margin").value_or(1);
  const Step lacking = call.step("relu", {call.step("sub", {margin, self})});
  const Step unlike = call.step("where", {call.step("ne", {target, 1.0}), lacking, 0.0});
  const Step like = call.step("where", {call.step("ne", {target, -1.0}), self, 0.0});
  return reduced(call, "add", {unlike, like});
}

// max(0, margin - t (a - b))
bool margin_ranking(const AtenCall& call, std::string_view) {
  const Step apart = call.step("sub", {named(call, "input1"), named(call, "input2")});
  const Step against = call.step("neg", {named(call, "target")});
  const double margin = call.number("margin").value_or(0);
  return reduced(call, "relu", {call.step("fma", {against, apart, margin})});
}

// The squares of the differences of rows, which PyTorch moves away from 0, summed along each row.
Step squared_distance(const AtenCall& call, std::string_view one, std::string_view other) {
  const Step apart = call.step("sub", {named(call, one), named(call, other)});
  const Step moved = call.step("add", {apart, call.number("eps").value_or(1e-6)});
  return call.step(
      "sum", {call.step("square", {moved})},
      {listed("axes", {-1}), {.name = "keepdim", .value = call.truth("keepdim", false)}});
}

bool pairwise_distance(const AtenCall& call, std::string_view) {
  if (call.number("p").value_or(2) != 2) return false;
  return call.last_step("sqrt", {squared_distance(call, "x1", "x2")});
}

// What the distance of two rows exceeds that of two others by, and a margin.
bool triplet_margin(const AtenCall& call, std::string_view) {
  if (call.number("p").value_or(2) != 2 || call.truth("swap", false)) return false;
  const auto distance = [&call](std::string_view other) {
    return call.step("sqrt", {squared_distance(call, "anchor", other)});
  };
  const Step more = call.step("sub", {distance("positive"), distance("negative")});
  return reduced(call, "relu", {call.step("add", {more, call.number("margin").value_or(1)})});
}

// exp(x) - t x, or x - t log(x + eps) of an input that is no logarithm. In full, Stirling's
// approximation of log t! is added where t is above 1.
bool poisson_nll(const AtenCall& call, std::string_view) {
  const Step input = named(call, "input");
  const Step target = named(call, "target");
  const auto log_of = [&call](const Step& x) { return call.step("log", {x}); };
  const bool logarithm = call.truth("log_input", true);
  const Step moved = call.step("add", {input, call.number("eps").value_or(1e-8)});
  const std::vector<Step> both = {logarithm ? call.step("exp", {input}) : input,
                                  call.step("mul", {target, logarithm ? input : log_of(moved)})};
  if (!call.truth("full", false)) return reduced(call, "sub", both);
  // t log t - t + log(2 pi t) / 2
  const Step log = log_of(target);
  const Step main = call.step("sub", {call.step("mul", {target, log}), target});
  const Step rest = call.step("fma", {log, 0.5, 0.5 * std::log(2 * std::numbers::pi)});
  const Step large = call.step("gt", {target, 1.0});
  const Step more = call.step("where", {large, call.step("add", {main, rest}), 0.0});
  return reduced(call, "add", {call.step("sub", both), more});
}

// With c = a b / sqrt(a a b b) of rows a and b: 1 - c where t is 1, max(0, c - margin) where it is
// -1.
bool cosine_embedding(const AtenCall& call, std::string_view) {
  const Step a = named(call, "input1");
  const Step b = named(call, "input2");
  const auto sum = [&call](const Step& each) {
    return call.step("sum", {each}, {listed("axes", {-1})});
  };
  const auto length = [&call, &sum](const Step& x) {
    return call.step("add", {sum(call.step("square", {x})), 1e-12});
  };
  const Step lengths = call.step("sqrt", {call.step("mul", {length(a), length(b)})});
  const Step cosine = call.step("div", {sum(call.step("mul", {a, b})), lengths});
  const Step target = named(call, "target");
  const Step beyond = call.step("sub", {cosine, call.number("margin").value_or(0)});
  // One target for all rows.
  if (target == Step(1.0)) return reduced(call, "sub", {1.0, cosine});
  if (target == Step(-1.0)) return reduced(call, "relu", {beyond});
  const Step excess = call.step("relu", {beyond});
  const Step like =
      call.step("where", {call.step("eq", {target, 1.0}), call.step("sub", {1.0, cosine}), 0.0});
  const Step unlike = call.step("where", {call.step("eq", {target, -1.0}), excess, 0.0});
  return reduced(call, "add", {like, unlike});
}

constexpr std::array kLossRules = {
    AtenRule{"mse_loss", squared_error},
    AtenRule{"l1_loss", absolute_error},
    AtenRule{"smooth_l1_loss", smooth_error},
    AtenRule{"huber_loss", huber},
    AtenRule{"kl_div", kl_div},
    AtenRule{"binary_cross_entropy_with_logits", cross_entropy_of_logits},
    AtenRule{"binary_cross_entropy", cross_entropy_of_probabilities},
    AtenRule{"soft_margin_loss", soft_margin},
    AtenRule{"hinge_embedding_loss", hinge_embedding},
    AtenRule{"margin_ranking_loss", margin_ranking},
    AtenRule{"triplet_margin_loss", triplet_margin},
    AtenRule{"pairwise_distance", pairwise_distance},
    AtenRule{"poisson_nll_loss", poisson_nll},
    AtenRule{"cosine_embedding_loss", cosine_embedding},
};

}  // namespace

std::span<const AtenRule> aten_loss_rules() { return kLossRules; }

}  // namespace fusecalc
