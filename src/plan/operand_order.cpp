#include "plan/operand_order.hpp"

namespace fusecalc {

Shape batch_axes(const OpGraph& graph, const Op& op) {
  const Shape& to = graph.tensors[op.outputs[0]].type.shape;
  if (op.matrix.batch == 1) return {};
  // Vectors leave no axis in the result.
  std::size_t rank = to.size();
  for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
    if (graph.tensors[op.operands[side].tensor].type.shape.size() > 1) --rank;
  }
  return {to.begin(), to.begin() + static_cast<std::ptrdiff_t>(rank)};
}

OperandOrder operand_order(const OpGraph& graph, const Op& op, std::size_t which) {
  const Shape& shape = graph.tensors[op.operands[which].tensor].type.shape;
  const std::size_t rank = shape.size();
  const std::uint64_t columns = shape.back();
  const bool linear = op.row->family == OpFamily::kLinear;
  // Lines of a run along k, those of b along n, unless it is told to be the other way round.
  const bool turned =
      which == 0 ? op.attributes->transpose_a : linear || op.attributes->transpose_b;
  const bool along_depth = rank == 1 || (which == 0) != turned;
  OperandOrder order{.line = along_depth ? columns : 1, .depth = along_depth ? 1 : columns};
  const Shape batch = batch_axes(graph, op);
  if (batch.empty()) return order;
  order.batch.assign(batch.size(), 0);
  const std::vector<std::uint64_t> strides = strides_of(shape);
  for (std::size_t back = 0; back + 2 < rank; ++back) {
    const std::size_t axis = rank - 3 - back;
    if (shape[axis] != 1) order.batch[batch.size() - 1 - back] = strides[axis];
  }
  return order;
}

}  // namespace fusecalc
