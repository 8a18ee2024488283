#include "plan/norm_backward.hpp"

#include <algorithm>

namespace fusecalc {
namespace {

std::uint64_t element_bytes_of(const OpGraph& graph, TensorId id) {
  return bytes_of(graph.tensors[id].type.dtype, 1);
}

std::uint64_t held_bytes(const OpGraph& graph, const Op& op, const Operand& operand) {
  if (!copied_as_stored(graph, operand)) return computes_in_f64(graph, op) ? 8 : 4;
  return element_bytes_of(graph, operand.tensor);
}

}  // namespace

bool copied_as_stored(const OpGraph& graph, const Operand& operand) {
  const Tensor& tensor = graph.tensors[operand.tensor];
  return tensor.window == tensor.value && is_float(tensor.type.dtype) &&
         !is_packed(tensor.type.dtype);
}

bool computes_in_f64(const OpGraph& graph, const Op& op) {
  const auto wide = [&](TensorId id) { return graph.tensors[id].type.dtype == DType::kF64; };
  return std::ranges::any_of(op.outputs, wide) ||
         std::ranges::any_of(op.operands, wide, &Operand::tensor);
}

bool lists_gradient(const Op& op, std::size_t which) {
  for (std::size_t i = 0; i < op.outputs.size(); ++i) {
    if (gradient_of(op, i) == which) return true;
  }
  return false;
}

std::optional<ColumnTiling> norm_backward_tiling(const OpGraph& graph, const Op& op,
                                                 std::uint64_t on_chip_bytes) {
  const std::size_t weight = op.row->accumulator == Accumulator::kMoments ? 4 : 3;
  ColumnWork work;
  work.rows = graph.tensors[op.operands[2].tensor].elements;
  work.length = graph.tensors[op.operands[1].tensor].elements / work.rows;
  work.number_bytes = computes_in_f64(graph, op) ? 8 : 4;
  work.sums = (lists_gradient(op, 1) ? 1U : 0U) + (lists_gradient(op, 2) ? 1U : 0U);
  work.shifts = true;
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
    const Operand& operand = op.operands[i];
    work.element_bytes += held_bytes(graph, op, operand);
    if (copied_as_stored(graph, operand)) {
      work.widest_bytes = std::max(work.widest_bytes, element_bytes_of(graph, operand.tensor));
    } else {
      work.shifts = false;
    }
  }
  for (std::size_t i = 0; i < op.outputs.size(); ++i) {
    if (gradient_of(op, i) > 0) continue;
    work.widest_bytes = std::max(work.widest_bytes, element_bytes_of(graph, op.outputs[i]));
  }
  if (op.operands.size() > weight) work.column_bytes = held_bytes(graph, op, op.operands[weight]);
  return column_tiling(work, on_chip_bytes);
}

}  // namespace fusecalc
