#include "codegen/expressions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <utility>

#include "core/checked.hpp"
#include "graph/dropout.hpp"

namespace fusecalc {
namespace {

// The narrowest type that holds a number, with a fraction or an infinity as single precision.
ComputeType type_of_number(double number) {
  const std::optional<std::int64_t> whole = exact_integer(number);
  if (!whole) return ComputeType::kF32;
  return std::in_range<std::int32_t>(*whole) ? ComputeType::kI32 : ComputeType::kI64;
}

// The type that a pointwise op computes in: wide enough for its inputs and its result.
ComputeType pointwise_type(const Op& op, const std::vector<Value>& inputs, ComputeType result) {
  const bool selects = op.row->family == OpFamily::kWhere;
  ComputeType computed =
      op.row->type_rule == TypeRule::kFloat ? ComputeType::kF32 : ComputeType::kBool;
  for (std::size_t i = selects ? 1 : 0; i < inputs.size(); ++i) {
    const std::optional<double>& number = inputs[i].number;
    computed = std::max(computed, number ? type_of_number(*number) : inputs[i].type);
  }
  const bool converts = op.row->family == OpFamily::kCast || op.row->type_rule == TypeRule::kBits;
  const bool made = op.row->family == OpFamily::kIota || op.row->family == OpFamily::kFull;
  if (made) {
    for (const double number : {op.attributes->first, op.attributes->delta, op.attributes->value}) {
      computed = std::max(computed, type_of_number(number));
    }
  }
  if ((is_float(result) && !converts) || made) computed = std::max(computed, result);
  return computed;
}

// What a word of a device expression is replaced by; empty where it stays.
class Words {
 public:
  Words(const Scope& scope, const Expression& expression)
      : scope_(scope),
        expression_(expression),
        op_(scope.op(expression.op)),
        attributes_(*op_.attributes),
        accumulates_(!op_.rows.empty() || !expression.accumulator.empty()) {}

  std::string operator()(std::string_view word) const;

 private:
  std::string input(std::size_t i, double otherwise) const;
  std::string accumulator() const;
  std::string of_normalisation(std::string_view word) const;
  std::string term_of(std::initializer_list<std::size_t> inputs, const std::string& text) const;
  std::string function(std::string_view word) const;
  std::string attribute(std::string_view word) const;
  std::string coordinate(bool row) const;

  const Scope& scope_;
  const Expression& expression_;
  const Op& op_;
  const Attributes& attributes_;
  bool accumulates_;  // rather than take a mean and a variance as operands
};

std::string Words::input(std::size_t i, double otherwise) const {
  const bool selects = op_.row->family == OpFamily::kWhere;
  const ComputeType type = selects && i == 0 ? ComputeType::kBool : expression_.computed;
  if (i < expression_.inputs.size()) return converted(expression_.inputs[i], type).text;
  return literal(otherwise, type);
}

std::string Words::accumulator() const {
  if (!expression_.accumulator.empty()) return expression_.accumulator;
  return fmt::format("{}[{}]", scope_.kernel.accumulator(expression_.op), scope_.loop.row.lane());
}

std::string Words::of_normalisation(std::string_view word) const {
  if (word == "$weight") return input(1, 1);
  if (word == "$bias") return input(2, 0);
  if (word == "$mean") return accumulates_ ? accumulator() + ".mean" : input(3, 0);
  if (word == "$gain") {
    if (accumulates_) return fmt::format("({}.rstd * {})", accumulator(), input(1, 1));
    return term_of({1, 4},
                   fmt::format("(rsqrt({} + {}) * {})", input(4, 1),
                               literal(attributes_.eps, expression_.computed), input(1, 1)));
  }
  if (word != "$shift") return {};
  return term_of({1, 2, 3, 4},
                 fmt::format("({} - {} * {})", input(2, 0), (*this)("$mean"), (*this)("$gain")));
}

// What is computed from these inputs alone, as a term of columns if all of them are such.
std::string Words::term_of(std::initializer_list<std::size_t> inputs,
                           const std::string& text) const {
  const bool of_columns = !accumulates_ && std::ranges::all_of(inputs, [&](std::size_t i) {
    return expression_.inputs[i].of_column;
  });
  return of_columns ? scope_.define_term(text).text : text;
}

// Whether the value is rounded to whole numbers or to few bits: what is exactly between two of them
// goes up or down by its last bit.
bool is_rounded(const OpGraph& graph, TensorId value) {
  return std::ranges::any_of(graph.readers[graph.tensors[value].value], [&](OpId id) {
    const Op& reader = graph.ops[id];
    const DType to = graph.tensors[reader.outputs[0]].type.dtype;
    return reader.row->jumps || !is_float(to) || bytes_of(to, 2) < 4;
  });
}

bool is_signed(DType dtype) {
  return dtype != DType::kBool && dtype != DType::kU8 && dtype != DType::kU4;
}

unsigned bits_of(DType dtype) {
  return dtype == DType::kBool ? 1 : static_cast<unsigned>(bytes_of(dtype, 2) * 4);
}

// The device function that keeps the bits that a type has.
std::string wrapping_to(DType dtype) {
  return fmt::format("wrap_bits<{}, {}>", is_float(dtype) ? 64 : bits_of(dtype), is_signed(dtype));
}

// A result that is stored in 16 bits or less may be computed by the faster, less exact functions,
// and so may what is divided by a value of its row.
std::string Words::function(std::string_view word) const {
  const DType dtype = scope_.tensor(op_.outputs[0]).type.dtype;
  const bool narrow = bytes_of(dtype, 1) <= 2;
  const bool fast = narrow && expression_.computed == ComputeType::kF32;
  if (word == "$sigmoid") return narrow ? "sigmoid_narrow" : "sigmoid";
  if (word == "$exp") return fast ? "exp_narrow" : "exp";
  if (word == "$divide") {
    const bool by_row = expression_.computed == ComputeType::kF32 &&
                        expression_.inputs.size() > 1 && expression_.inputs[1].uniform &&
                        !expression_.inputs[1].number &&
                        !is_rounded(scope_.view().graph(), op_.outputs[0]);
    return fast || by_row ? "divide_rough" : "divide";
  }
  if (word == "$sqrt") return fast ? "sqrt_narrow" : "sqrt";
  if (word == "$sin") return fast ? "sin_narrow" : "sin";
  if (word == "$cos") return fast ? "cos_narrow" : "cos";
  if (word == "$tanh") return fast && dtype != DType::kF16 ? "tanh_rough" : "tanh";
  if (word == "$wrap") return wrapping_to(dtype);
  if (word == "$quick_gelu") {
    return attributes_.approximate == GeluKind::kTanh ? "quick_gelu_tanh" : "quick_gelu";
  }
  if (word == "$gelu_slope") {
    return attributes_.approximate == GeluKind::kTanh ? "gelu_slope_tanh" : "gelu_slope_exact";
  }
  if (word != "$gelu") return {};
  if (attributes_.approximate == GeluKind::kExact) return fast ? "gelu_narrow" : "gelu_exact";
  return narrow ? "gelu_tanh_narrow" : "gelu_tanh";
}

std::string Words::attribute(std::string_view word) const {
  const ComputeType computed = expression_.computed;
  if (word == "$alpha") return literal(attributes_.alpha, computed);
  if (word == "$beta") return literal(attributes_.beta, computed);
  if (word == "$threshold") return literal(attributes_.threshold, computed);
  if (word == "$scale") return literal(attributes_.scale.value_or(1), computed);
  if (word == "$negative_slope") return literal(attributes_.negative_slope, computed);
  if (word == "$first") return literal(attributes_.first, computed);
  if (word == "$delta") return literal(attributes_.delta, computed);
  if (word == "$value") return literal(attributes_.value, computed);
  if (word == "$diagonal") {
    return literal(static_cast<double>(attributes_.diagonal), ComputeType::kI64);
  }
  if (word == "$momentum") return literal(attributes_.momentum, computed);
  if (word == "$sample") {
    const auto count = static_cast<double>(op_.rows.row_length());
    return literal(count / (count - 1), computed);
  }
  if (word == "$unbias") {
    const auto count = static_cast<double>(op_.rows.row_length());
    return literal(count / std::max(0.0, count - attributes_.correction), computed);
  }
  return {};
}

// The element's row or column in its matrix, the last two axes.
std::string Words::coordinate(bool row) const {
  const Shape& shape = scope_.tensor(op_.outputs[0]).type.shape;
  const std::uint64_t columns = shape.back();
  if (!row) return fmt::format("(i64)({} % {})", expression_.at.lane(), columns);
  return fmt::format("(i64)({} / {} % {})", expression_.at.lane(), columns,
                     shape[shape.size() - 2]);
}

std::string Words::operator()(std::string_view word) const {
  const ComputeType computed = expression_.computed;
  const double infinity = std::numeric_limits<double>::infinity();
  if (word.size() == 1 && word[0] >= 'a' && word[0] <= 'e') {
    return input(static_cast<std::size_t>(word[0] - 'a'), 0);
  }
  if (word == "s") return accumulator();
  if (word == "$zero") return literal(0, computed);
  if (word == "$one") return literal(1, computed);
  if (word == "$min") return input(1, attributes_.min.value_or(-infinity));
  if (word == "$max") return input(2, attributes_.max.value_or(infinity));
  if (word == "$count" && !expression_.count.empty()) return expression_.count;
  if (word == "$count") return literal(static_cast<double>(op_.rows.row_length()), computed);
  if (word == "$seed") return fmt::format("{}ull", dropout_seed(op_));
  if (word == "$index") return expression_.at.lane();
  if (word == "$row" || word == "$column") return coordinate(word == "$row");
  if (word == "$limit") return fmt::format("{}u", dropout_threshold(op_));
  if (word == "$kept") return literal(1 / (1 - attributes_.p), computed);
  if (std::string found = of_normalisation(word); !found.empty()) return found;
  if (std::string found = attribute(word); !found.empty()) return found;
  return function(word);
}

}  // namespace

std::string_view device_expression(const Op& op, std::size_t k) {
  if (k == 0) return op.row->device;
  const bool running = op.outputs.size() > op.row->device_more.size() + 1;
  return running ? op.row->device_running[k - 1] : op.row->device_more[k - 1];
}

namespace {

bool is_read_inside(const Scope& scope, TensorId made) {
  return std::ranges::any_of(scope.view().graph().readers[scope.tensor(made).value],
                             [&](OpId id) { return scope.view().contains(id); });
}

// Whether it is the same in all rows of the loop's matrix, for what it is computed from.
bool is_of_columns(const Scope& scope, const Expression& expression) {
  const auto of_column = [](const Value& value) { return value.of_column; };
  return scope.loop.matrix && scope.loop.matrix->keeps_terms &&
         expression.computed == ComputeType::kF32 && expression.result == ComputeType::kF32 &&
         std::ranges::any_of(expression.inputs, of_column) &&
         std::ranges::all_of(expression.inputs,
                             [&](const Value& value) { return value.number || of_column(value); });
}

// Whether a narrow integer type holds the number.
bool holds(DType dtype, double number) {
  const double values = std::ldexp(1.0, static_cast<int>(bits_of(dtype)));
  const double lowest = is_signed(dtype) ? -values / 2 : 0;
  return number >= lowest && number < lowest + values;
}

// Whether a result may lie beyond the range of its type, a narrow integer.
bool may_leave_range(const Scope& scope, const Op& op, DType dtype) {
  if (!op.row->keeps_range && op.row->type_rule != TypeRule::kBits) return true;
  const auto fits = [&](const Operand& operand) {
    if (operand.tensor == kNone) return holds(dtype, operand.number);
    return promote(scope.tensor(operand.tensor).type.dtype, dtype) == dtype;
  };
  const auto selected = static_cast<std::ptrdiff_t>(op.row->family == OpFamily::kWhere ? 1 : 0);
  const Attributes& at = *op.attributes;
  return !std::all_of(op.operands.begin() + selected, op.operands.end(), fits) ||
         !holds(dtype, at.min.value_or(0)) || !holds(dtype, at.max.value_or(0)) ||
         !holds(dtype, at.value);
}

// Whether what is beyond the range of the result's type would be seen: a store drops the bits
// beyond, but what else reads the result computes with them, and in a matrix narrow integers are
// stored by way of floats, which would lose low bits of large numbers.
bool must_wrap(const Scope& scope, const Expression& expression) {
  if (expression.made == kNone) return false;
  const DType dtype = scope.tensor(expression.made).type.dtype;
  if (!is_narrow_integer(dtype)) return false;
  const bool seen = scope.loop.matrix.has_value() || is_read_inside(scope, expression.made);
  return seen && may_leave_range(scope, scope.op(expression.op), dtype);
}

}  // namespace

bool is_narrow_integer(DType dtype) {
  return !is_float(dtype) && dtype != DType::kBool && bits_of(dtype) < 32;
}

std::string wrapped_to(DType dtype, const std::string& text) {
  return fmt::format("{}({}({}))", wrapping_to(dtype), name_of(ComputeType::kI32), text);
}

Value evaluate(const Scope& scope, const Expression& expression) {
  bool uniform = std::ranges::all_of(expression.inputs, &Value::uniform);
  const bool quick =
      scope.loop.matrix && scope.loop.matrix->quick && expression.computed == ComputeType::kF32;
  const bool accumulator_per_lane = scope.loop.row.width > 1 || !expression.accumulator.empty();
  bool of_columns = is_of_columns(scope, expression);
  const Words words(scope, expression);
  const std::string text =
      substitute(quick && !expression.quick.empty() ? expression.quick : expression.device,
                 [&](std::string_view found) {
                   const bool placed = found == "$index" || found == "$row" || found == "$column";
                   if (placed && expression.at.pattern != LanePattern::kUniform)
                     uniform = of_columns = false;
                   constexpr std::array kOfAccumulators = {"s", "$mean", "$gain", "$shift"};
                   if (accumulator_per_lane &&
                       std::ranges::find(kOfAccumulators, found) != kOfAccumulators.end()) {
                     uniform = false;
                   }
                   return words(found);
                 });
  if (of_columns) return scope.define_term(text);
  const std::string kept = must_wrap(scope, expression)
                               ? wrapped_to(scope.tensor(expression.made).type.dtype, text)
                               : text;
  return scope.define(expression.result, kept, uniform);
}

Value pointwise(const Scope& scope, OpId id, std::size_t k, std::vector<Value> inputs,
                const Index& at) {
  const Op& op = scope.op(id);
  const ComputeType result = compute_type(scope.tensor(op.outputs[k]).type.dtype);
  const ComputeType computed = pointwise_type(op, inputs, result);
  return evaluate(scope, {.op = id,
                          .device = device_expression(op, k),
                          .quick = k == 0 ? op.row->quick : std::string_view(),
                          .inputs = std::move(inputs),
                          .at = at,
                          .computed = computed,
                          .result = result,
                          .made = op.outputs[k]});
}

}  // namespace fusecalc
