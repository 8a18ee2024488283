#include "codegen/elements.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "codegen/expressions.hpp"
#include "codegen/indices.hpp"
#include "codegen/memory_access.hpp"
#include "codegen/movement.hpp"
#include "codegen/row_results.hpp"
#include "codegen/windows.hpp"
#include "graph/product_parts.hpp"

namespace fusecalc {
namespace {

// From an element of a tensor to its place along one axis.
IndexTransform place_along(const Shape& shape, std::size_t along) {
  IndexTransform map;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    map.append(shape[axis], axis == along ? 1 : 0);
  }
  return map;
}

// From an element of the op's result to that of an operand.
IndexTransform operand_map(const Scope& scope, const Op& op, std::size_t i) {
  const Shape& shape = scope.tensor(op.outputs[0]).type.shape;
  return op.row->per_channel && i > 0
             ? place_along(shape, 1)
             : broadcast_map(scope.tensor(op.operands[i].tensor).type.shape, shape);
}

std::vector<Value> operand_elements(const Scope& scope, const Op& op, const Index& at) {
  std::vector<Value> values;
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    const Operand& operand = op.operands[i];
    if (operand.tensor == kNone) {
      values.push_back({.text = {}, .uniform = true, .number = operand.number});
    } else {
      values.push_back(
          element(scope, operand.tensor, mapped(scope, at, operand_map(scope, op, i))));
    }
  }
  return values;
}

// An element of the result of the contraction that the loop follows.
Value contraction_result(const Scope& scope, const Index& at) {
  const MatrixLoop& matrix = *scope.loop.matrix;
  const Op& op = scope.op(matrix.by);
  if (at.name != scope.loop.element.name) {
    cannot_generate(op, "its result is read in another order");
  }
  const DType dtype = scope.tensor(matrix.made).type.dtype;
  const auto kept = [&](const std::string& text) {
    return is_narrow_integer(dtype) ? wrapped_to(dtype, text) : text;
  };
  const Shape& shape = scope.tensor(op.outputs[0]).type.shape;
  const bool convolves = op.row->family == OpFamily::kConvolution;
  const std::size_t channel = convolves ? 1 : shape.size() - 1;
  const std::string text =
      finished_sum(scope, op, {.text = "v[j]", .type = matrix.type}, at,
                   {.row = place_along(shape, 0), .column = place_along(shape, channel)});
  if (text == "v[j]") return {.text = kept(text), .type = matrix.type};
  return scope.define(matrix.type, kept(text), false);
}

// The element of a reduction or a normalisation.
Value reduced_element(const Scope& scope, OpId id, std::size_t k, const Index& at) {
  const Op& op = scope.op(id);
  Expression expression{.op = id,
                        .device = device_expression(op, k),
                        .quick = k == 0 ? op.row->quick : std::string_view(),
                        .at = at,
                        .computed = accumulator_type(scope.view(), op),
                        .result = compute_type(scope.tensor(op.outputs[k]).type.dtype),
                        .made = op.outputs[k]};
  const bool single = rows_are_single(op);
  if (op.row->family == OpFamily::kLoss) {
    // One score of each row, each row by itself.
    if (single) {
      expression.accumulator =
          define_accumulator(scope, id, element(scope, op.operands[0].tensor, at));
    }
    expression.inputs = {picked_score(scope, id, at)};
    if (!single) expression.computed = expression.inputs[0].type;
    return evaluate(scope, expression);
  }
  expression.inputs = operand_elements(scope, op, at);
  if (single) {
    expression.accumulator = define_accumulator(scope, id, accumulator_input(scope, id, at));
  }
  return evaluate(scope, expression);
}

// The element of a tensor that is no view, at an index that the block has no value for yet.
Value new_element(const Scope& scope, TensorId tensor, const Index& at) {
  if (scope.loop.matrix && tensor == scope.loop.matrix->made) {
    return contraction_result(scope, at);
  }
  const HeldValue* const held = scope.loop.held_at(tensor, at);
  if (held != nullptr && held->ready) return load_held(scope, *held);
  if (!scope.view().makes(tensor)) return load(scope, tensor, at);
  const OpId producer = scope.tensor(tensor).producer;
  const std::vector<TensorId>& outputs = scope.op(producer).outputs;
  const auto k = static_cast<std::size_t>(std::ranges::find(outputs, tensor) - outputs.begin());
  Value result = computed_element(scope, producer, k, at);
  if (held != nullptr) hold(scope, *held, result);
  return result;
}

// Whether the value's element is still to be computed from those of a pointwise op's operands.
bool is_to_compute(const Scope& scope, TensorId value, const Index& at) {
  const KernelView& view = scope.view();
  if (!view.makes(value) || view.is_row_result(value)) return false;
  if (scope.loop.matrix && value == scope.loop.matrix->made) return false;
  if (scope.loop.ready.contains(value)) return false;
  if (scope.block.values.contains({value, at.name})) return false;
  const HeldValue* const held = scope.loop.held_at(value, at);
  if (held != nullptr && held->ready) return false;
  return scope.op(scope.tensor(value).producer).op_class == OpClass::kPointwise;
}

// Writes the code of all that the value's element is computed from at the same index, in the order
// in which the ops name it: a long chain of ops would else be as deep a recursion.
void write_operands(const Scope& scope, TensorId value, const Index& at) {
  struct Waiting {
    TensorId value;
    std::size_t operand = 0;  // the next one
  };
  std::vector<Waiting> waiting{{value}};
  while (!waiting.empty()) {
    auto& [current, next] = waiting.back();
    const Op& op = scope.op(scope.tensor(current).producer);
    if (next == op.operands.size()) {
      if (waiting.size() > 1) (void)element(scope, current, at);
      waiting.pop_back();
      continue;
    }
    const std::size_t i = next++;
    if (op.operands[i].tensor == kNone) continue;
    const Tensor& operand = scope.tensor(op.operands[i].tensor);
    const Index index = mapped(scope, at, operand_map(scope, op, i));
    if (operand.window == operand.value && index.name == at.name &&
        is_to_compute(scope, operand.value, at)) {
      waiting.push_back({operand.value});
    } else {
      (void)element(scope, op.operands[i].tensor, index);
    }
  }
}

Value element_of_value(const Scope& scope, TensorId value, const Index& at) {
  if (const auto ready = scope.loop.ready.find(value); ready != scope.loop.ready.end()) {
    return ready->second;
  }
  const std::pair key(value, at.name);
  const auto known = scope.block.values.find(key);
  if (known != scope.block.values.end()) return known->second;
  if (is_to_compute(scope, value, at)) write_operands(scope, value, at);
  const bool just_made = scope.loop.matrix && value == scope.loop.matrix->made;
  if (!just_made && scope.view().makes(value) && scope.view().is_row_result(value)) {
    return row_result(scope, value);
  }
  return scope.block.values.emplace(key, new_element(scope, value, at)).first->second;
}

}  // namespace

std::string finished_sum(const Scope& scope, const Op& product, const Value& sum, const Index& at,
                         const MatrixPlaces& places) {
  std::string text = sum.text;
  const auto append = [&](const char* operation, TensorId tensor, const IndexTransform& place) {
    const Value value = element(scope, tensor, mapped(scope, at, place));
    text = fmt::format("{} {} {}", text, operation, converted(value, sum.type).text);
  };
  const OpGraph& graph = scope.view().graph();
  for (const std::size_t which : {std::size_t{0}, std::size_t{1}}) {
    const Scales scales = scales_of(graph, product, which);
    if (scales.tensor == kNone || !scales_sums(graph, product)) continue;
    IndexTransform single;
    single.append(scope.tensor(product.outputs[0]).elements, 0);
    const IndexTransform& each = which == 0 ? places.row : places.column;
    append("*", scales.tensor, scales.lines == 1 ? single : each);
  }
  const TensorId bias = bias_of(product);
  if (bias != kNone) append("+", bias, places.column);
  return text;
}

Value element(const Scope& scope, TensorId tensor, const Index& at) {
  const Tensor& shown = scope.tensor(tensor);
  if (shown.window == shown.value) return element_of_value(scope, shown.value, at);
  const std::pair key(shown.window, at.name);
  const auto known = scope.block.values.find(key);
  if (known != scope.block.values.end()) return known->second;
  const HeldValue* const held = scope.loop.held_at(shown.window, at);
  Value result;
  if (held != nullptr && held->ready) {
    result = load_held(scope, *held);
  } else {
    Index index = at;
    for (const StridedMap& map : shown.maps) index = mapped(scope, index, map);
    result = element_of_value(scope, shown.value, index);
    if (held != nullptr) hold(scope, *held, result);
  }
  return scope.block.values.emplace(key, result).first->second;
}

Value computed_element(const Scope& scope, OpId id, std::size_t k, const Index& at) {
  const Op& op = scope.op(id);
  switch (op.op_class) {
    case OpClass::kPointwise: return pointwise(scope, id, k, operand_elements(scope, op, at), at);
    case OpClass::kMovement:
      if (op.row->access == Access::kWindow) return windowed_element(scope, id, k, at);
      if (op.row->family == OpFamily::kLossBackward) return loss_gradient(scope, id, at);
      return moved_element(scope, id, at);
    case OpClass::kReduce:
    case OpClass::kNormalise: return reduced_element(scope, id, k, at);
    default: cannot_generate(op, fmt::format("{} ops have no code yet", name_of(op.op_class)));
  }
}

}  // namespace fusecalc
