// What the emitter knows of rows: states that reductions leave, and what follows from them.

#include <fmt/format.h>

#include <algorithm>

#include "codegen/emitter.hpp"

namespace fusecalc {

bool Emitter::of_rows(OpId id) const {
  const Op& op = this->op(id);
  if (phases_.rows.empty() || ready_in(id) == 0) return false;
  if (op.op_class == OpClass::kReduce || op.row->family == OpFamily::kLoss) return true;
  if (op.op_class == OpClass::kNormalise) return false;
  return op.work <= phases_.rows.rows() &&
         (phases_.rows.row_length() > 1 || op.work < phases_.rows.rows());
}

bool Emitter::is_row_result(TensorId tensor) const {
  const OpId producer = graph_.tensors[tensor].producer;
  if (of_rows(producer)) return true;
  // The mean and the variance that a normalisation hands out.
  const Op& op = this->op(producer);
  return op.op_class == OpClass::kNormalise && !op.rows.empty() && tensor != op.outputs[0];
}

bool Emitter::takes_rows(OpId id) const {
  const Op& op = this->op(id);
  return !op.rows.empty() && op.rows == phases_.rows &&
         !(op.row->access == Access::kGather && runs_in(id) > 0);
}

bool Emitter::ends_in_loss(OpId id) const {
  const Op& op = this->op(id);
  return op.collapses && (!op.row->state.empty() || !takes_rows(id));
}

// A loss that is no more than a sum keeps a sum.
std::string Emitter::state_class(const Op& op) const {
  return fmt::format("{}<{}>", op.row->state.empty() ? "Sum" : op.row->state,
                     name_of(state_type(op)));
}

ComputeType Emitter::state_type(const Op& op) const {
  const ComputeType taken = compute_type(graph_.tensors[op.operands[0].tensor].type.dtype);
  if (op.row->type_rule == TypeRule::kIndex) return taken;
  return std::max(taken, compute_type(graph_.tensors[op.outputs[0]].type.dtype));
}

std::string Emitter::state_of(OpId id) {
  std::string& name = states_[id];
  if (name.empty()) name = fresh("s");
  return name;
}

Value Emitter::row_input(OpId id, const Index& at) {
  const Op& op = this->op(id);
  if (op.row->family == OpFamily::kLoss && op.row->state.empty())
    return converted(compute(id, 0, at), state_type(op));
  return converted(value(op.operands[0].tensor, at), state_type(op));
}

// The k-th result of an op for the row at hand, computed in the present piece.
Value Emitter::row_result(OpId id, std::size_t k) {
  const Op& op = this->op(id);
  // Only what keeps a state takes rows in; others may begin with an inline number.
  if (op.rows.empty()) return compute(id, k, row_);
  const ComputeType inner = state_type(op);
  const ComputeType type = compute_type(graph_.tensors[op.outputs[k]].type.dtype);
  const std::string_view device = k == 0 ? op.row->device : op.row->device_more[k - 1];
  if (op.row->family == OpFamily::kLoss && op.row->state.empty() && takes_rows(id)) {
    const bool mean = op.attributes->reduction == LossReduction::kMean;
    return expression(op, mean ? "s.sum / $count" : "s.sum", {}, row_, inner, type);
  }
  if (op.row->family == OpFamily::kLoss) {
    if (k > 0) return expression(op, device, {}, row_, inner, type);
    return expression(op, device, {picked(op, row_)}, row_, inner, type);
  }
  return expression(op, device, {}, row_, inner, type);
}

Value Emitter::row_loss(OpId id) { return row_result(id, 0); }

Value Emitter::row_value(TensorId tensor) {
  const auto known = row_values_.find(tensor);
  if (known != row_values_.end()) return known->second;
  const OpId producer = graph_.tensors[tensor].producer;
  const std::vector<TensorId>& outputs = op(producer).outputs;
  const auto k = static_cast<std::size_t>(std::ranges::find(outputs, tensor) - outputs.begin());
  CodeBlock piece{.width = row_width_, .width_text = std::to_string(row_width_)};
  CodeBlock* const outer = piece_;
  piece_ = &piece;
  const Value computed = row_result(producer, k);
  piece_ = outer;
  const std::string name = fresh("r");
  piece.lanes += fmt::format("{}[j] = {};\n", name, computed.text);
  row_code_ += fmt::format("  {} {}[{}];\n", name_of(computed.type), name, row_width_) + "  {\n" +
               piece.text("    ") + "  }\n";
  const Value result{.text = fmt::format("{}[{}]", name, row_lane_),
                     .type = computed.type,
                     .uniform = row_width_ == 1};
  row_values_.emplace(tensor, result);
  return result;
}

}  // namespace fusecalc
