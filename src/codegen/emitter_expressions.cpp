// What the emitter knows of arithmetic: the device column of the op table, its words filled in.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "codegen/emitter.hpp"
#include "graph/dropout.hpp"

namespace fusecalc {
namespace {

// The device column of an op in the functions of quick.cuh, where they have it.
std::string in_quick_functions(std::string_view device, const Op& op) {
  if (device == "a * $sigmoid(a)") return "quick_silu(a)";
  if (device == "$gelu(a)") {
    return op.attributes->approximate == GeluKind::kTanh ? "quick_gelu_tanh(a)" : "quick_gelu(a)";
  }
  constexpr std::array kQuick = {
      std::pair{"$exp(a)", "quick_exp(a)"},         std::pair{"log(a)", "quick_log(a)"},
      std::pair{"log1p(a)", "quick_log1p(a)"},      std::pair{"tanh(a)", "quick_tanh(a)"},
      std::pair{"$sigmoid(a)", "quick_sigmoid(a)"}, std::pair{"a / b", "quick_divide(a, b)"},
  };
  for (const auto& [precise, quick] : kQuick) {
    if (device == precise) return quick;
  }
  return std::string(device);
}

}  // namespace

Value Emitter::pointwise(const Op& op, std::size_t k, const Index& at) {
  std::vector<Value> inputs;
  const bool selects = op.row->family == OpFamily::kWhere;
  ComputeType computed =
      op.row->type_rule == TypeRule::kFloat ? ComputeType::kF32 : ComputeType::kBool;
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    inputs.push_back(operand(op, i, at));
    if (selects && i == 0) continue;
    const std::optional<double>& number = inputs[i].number;
    if (!number) {
      computed = std::max(computed, inputs[i].type);
    } else if (*number != static_cast<double>(static_cast<std::int64_t>(*number))) {
      computed = std::max(computed, ComputeType::kF32);
    } else {
      computed = std::max(computed, ComputeType::kI32);
    }
  }
  const ComputeType result = compute_type(graph_.tensors[op.outputs[k]].type.dtype);
  if (is_float(result) && op.row->family != OpFamily::kCast) computed = std::max(computed, result);
  const std::string_view device = k == 0 ? op.row->device : op.row->device_more[k - 1];
  return expression(op, device, inputs, at, computed, result);
}

// What a word of a device expression stands for.
std::string Emitter::word(const Op& op, std::string_view word, const std::vector<Value>& inputs,
                          const Index& at, ComputeType computed) {
  const Attributes& attributes = *op.attributes;
  const bool selects = op.row->family == OpFamily::kWhere;
  const auto input = [&](std::size_t i, double otherwise) {
    const ComputeType type = selects && i == 0 ? ComputeType::kBool : computed;
    if (i < inputs.size()) return converted(inputs[i], type).text;
    return literal(otherwise, type);
  };
  const bool trains = !op.rows.empty() || inline_rows(op);
  const double infinity = std::numeric_limits<double>::infinity();
  if (word.size() == 1 && word[0] >= 'a' && word[0] <= 'e') {
    return input(static_cast<std::size_t>(word[0] - 'a'), 0);
  }
  if (word == "s") {
    const auto id = static_cast<OpId>(&op - graph_.ops.data());
    return fmt::format("{}[{}]", state_of(id), inline_rows(op) ? "0" : row_lane_);
  }
  if (word == "$zero") return literal(0, computed);
  if (word == "$one") return literal(1, computed);
  if (word == "$min") return input(1, attributes.min.value_or(-infinity));
  if (word == "$max") return input(2, attributes.max.value_or(infinity));
  if (word == "$weight") return input(1, 1);
  if (word == "$bias") return input(2, 0);
  if (word == "$mean")
    return trains ? this->word(op, "s", inputs, at, computed) + ".mean" : input(3, 0);
  if (word == "$rstd") {
    if (trains) return this->word(op, "s", inputs, at, computed) + ".rstd";
    return fmt::format("rsqrt({} + {})", input(4, 1), literal(attributes.eps, computed));
  }
  if (word == "$count") return literal(static_cast<double>(op.rows.row_length()), computed);
  // What is stored in 16 bits or less need not be worked out to more.
  const bool narrow = bytes_of(graph_.tensors[op.outputs[0]].type.dtype, 1) <= 2;
  if (word == "$sigmoid") return narrow ? "sigmoid_narrow" : "sigmoid";
  if (word == "$exp") return narrow && computed == ComputeType::kF32 ? "exp_narrow" : "exp";
  if (word == "$gelu") {
    if (attributes.approximate == GeluKind::kExact) return "gelu_exact";
    return narrow ? "gelu_tanh_narrow" : "gelu_tanh";
  }
  if (word == "$seed") return fmt::format("{}ull", dropout_seed(op));
  if (word == "$index") return at.lane();
  if (word == "$limit") return fmt::format("{}u", dropout_threshold(op));
  if (word == "$kept") return literal(1 / (1 - attributes.p), computed);
  return {};
}

Value Emitter::expression(const Op& op, std::string_view device, const std::vector<Value>& inputs,
                          const Index& at, ComputeType computed, ComputeType result) {
  bool uniform = std::ranges::all_of(inputs, &Value::uniform);
  const bool quick = matrix_ && matrix_->quick && computed == ComputeType::kF32;
  const std::string text = substitute(
      quick ? in_quick_functions(device, op) : std::string(device), [&](std::string_view found) {
        if (found == "$index" && at.pattern != LanePattern::kUniform) uniform = false;
        if ((found == "s" || found == "$mean" || found == "$rstd") &&
            (row_lane_ == "j" || inline_rows(op))) {
          uniform = false;
        }
        return word(op, found, inputs, at, computed);
      });
  return define("v", result, text, uniform);
}

}  // namespace fusecalc
