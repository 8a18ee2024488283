#include "codegen/row_results.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/elements.hpp"
#include "codegen/expressions.hpp"
#include "codegen/movement.hpp"

namespace fusecalc {
namespace {

// A loss over elements, not over classes: no more than their sum.
bool is_plain_sum(const Op& op) {
  return op.row->family == OpFamily::kLoss && op.row->accumulator == Accumulator::kNone;
}

// The k-th result of an op for the row that the loop is at, computed in the block.
Value computed_row(const Scope& scope, OpId id, std::size_t k) {
  const Op& op = scope.op(id);
  const Index& row = scope.loop.row.index;
  // Only ops with an accumulator take rows as input; others may have a literal as first operand.
  if (op.rows.empty()) return computed_element(scope, id, k, row);
  Expression expression{.op = id,
                        .device = device_expression(op, k),
                        .at = row,
                        .computed = accumulator_type(scope.view(), op),
                        .result = compute_type(scope.tensor(op.outputs[k]).type.dtype),
                        .made = op.outputs[k]};
  if (is_plain_sum(op) && scope.view().takes_rows(id)) {
    const bool mean = op.attributes->reduction == LossReduction::kMean;
    expression.device = mean ? "s.sum / $count" : "s.sum";
  } else if (op.row->family == OpFamily::kLoss && k == 0) {
    expression.inputs = {picked_score(scope, id, row)};
  } else if (k > op.row->device_more.size()) {
    // One number for each row, which the result goes on from; the others are not read.
    expression.inputs.assign(k, Value{.text = {}, .uniform = true, .number = 0});
    expression.inputs.push_back(element(scope, op.operands[k].tensor, row));
  }
  return evaluate(scope, expression);
}

Accumulator accumulator_of(const Op& op) {
  const Accumulator kept = op.row->accumulator;
  // Nobody asks where the value is.
  const bool value_only = op.outputs.size() == 1 && op.row->device == "s.value";
  if (value_only && kept == Accumulator::kLargestPlace) return Accumulator::kLargest;
  if (value_only && kept == Accumulator::kSmallestPlace) return Accumulator::kSmallest;
  return kept == Accumulator::kNone ? Accumulator::kSum : kept;
}

}  // namespace

std::string accumulator_class(const KernelView& view, const Op& op) {
  const Accumulator kept = accumulator_of(op);
  return fmt::format("{}<{}>", row_of(kept).name, name_of(accumulator_type(view, op)));
}

std::uint64_t state_bytes(const KernelView& view, const Op& op) {
  const ComputeType type = accumulator_type(view, op);
  const std::uint64_t word = type == ComputeType::kF64 || type == ComputeType::kI64 ? 8 : 4;
  switch (accumulator_of(op)) {
    case Accumulator::kSquareSum: return 2 * word;
    case Accumulator::kExponentialSum:
    case Accumulator::kLargestPlace:
    case Accumulator::kSmallestPlace: return 4 * word;
    case Accumulator::kMoments: return 6 * word;
    default: return word;
  }
}

bool finds_place(const Op& op) {
  const Accumulator kept = accumulator_of(op);
  return kept == Accumulator::kLargestPlace || kept == Accumulator::kSmallestPlace;
}

ComputeType accumulator_type(const KernelView& view, const Op& op) {
  const ComputeType taken = compute_type(view.tensor(op.operands[0].tensor).type.dtype);
  if (op.row->type_rule == TypeRule::kIndex) return taken;
  return std::max(taken, compute_type(view.tensor(op.outputs[0]).type.dtype));
}

Value accumulator_input(const Scope& scope, OpId id, const Index& at) {
  const Op& op = scope.op(id);
  const ComputeType type = accumulator_type(scope.view(), op);
  if (!op.row->device_taken.empty()) {
    Expression expression{
        .op = id, .device = op.row->device_taken, .at = at, .computed = type, .result = type};
    for (const Operand& operand : op.operands) {
      expression.inputs.push_back(element(scope, operand.tensor, at));
    }
    return evaluate(scope, expression);
  }
  const Value taken = is_plain_sum(op) ? computed_element(scope, id, 0, at)
                                       : element(scope, op.operands[0].tensor, at);
  return converted(taken, type);
}

bool rows_are_single(const Op& op) {
  return op.op_class != OpClass::kPointwise && op.row->accumulator != Accumulator::kNone &&
         op.rows.empty();
}

std::string define_accumulator(const Scope& scope, OpId id, const Value& element) {
  const Op& op = scope.op(id);
  // Kernels with a contraction do not include rows.cuh, which has the accumulators.
  const auto contracts = [&](OpId other) { return scope.op(other).op_class == OpClass::kContract; };
  if (std::ranges::any_of(scope.view().ops(), contracts)) {
    cannot_generate(op, "its rows are single elements, and it follows a contraction");
  }
  const std::string name = scope.fresh("s");
  const std::string taken = converted(element, accumulator_type(scope.view(), op)).text;
  std::string& code = scope.block.lanes;
  code += fmt::format("{} {}[1];\n", accumulator_class(scope.view(), op), name);
  if (row_of(op.row->accumulator).has_pivot)
    code += fmt::format("{}[0].pivot = {};\n", name, taken);
  code += fmt::format("{0}[0].add({1}, 0);\n{0}[0].finish(1, {2:.17g});\n", name, taken,
                      op.attributes->eps);
  return name + "[0]";
}

Value row_result(const Scope& scope, TensorId tensor) {
  std::map<TensorId, Value>& results = scope.kernel.row_results();
  if (const auto known = results.find(tensor); known != results.end()) return known->second;
  const OpId producer = scope.tensor(tensor).producer;
  const std::vector<TensorId>& outputs = scope.op(producer).outputs;
  const auto k = static_cast<std::size_t>(std::ranges::find(outputs, tensor) - outputs.begin());
  const RowIndex& row = scope.loop.row;
  CodeBlock block = block_of(row.width);
  const Value computed = computed_row({scope.kernel, scope.loop, block}, producer, k);
  const std::string name = scope.fresh("r");
  block.lanes += fmt::format("{}[j] = {};\n", name, computed.text);
  scope.block.row_results +=
      block.row_results + fmt::format("  {} {}[{}];\n", name_of(computed.type), name, row.width) +
      "  {\n" + block.text("    ") + "  }\n";
  const Value result{.text = fmt::format("{}[{}]", name, row.lane()),
                     .type = computed.type,
                     .uniform = row.width == 1};
  return results.emplace(tensor, result).first->second;
}

Value row_loss(const Scope& scope, OpId id) { return computed_row(scope, id, 0); }

}  // namespace fusecalc
