#include "plan/whole_rows.hpp"

namespace fusecalc {

bool holds_rows_of(const OpGraph& graph, const Kernel& kernel, const Phases& phases, OpId product) {
  const std::uint64_t space = graph.tensors[graph.ops[product].outputs[0]].elements;
  for (std::size_t i = 0; i < kernel.size(); ++i) {
    const Op& op = graph.ops[kernel[i]];
    const bool normalises = op.op_class == OpClass::kNormalise && op.row->family != OpFamily::kLoss;
    if (normalises || (phases.runs_in[i] > 0 && op.work == space)) return true;
  }
  return false;
}

}  // namespace fusecalc
