#include "plan/whole_rows.hpp"

#include <algorithm>
#include <vector>

namespace fusecalc {
namespace {

// Whether what needs a row's reduction, and the reduction, can be computed out of `kept`.
bool is_enough(const OpGraph& graph, const Kernel& kernel, const Phases& phases, OpId product,
               TensorId kept) {
  std::vector<bool> computed(kernel.size());  // of the ops before the reduction, by their places
  for (std::size_t i = kernel.size(); i-- > 0;) {
    if (phases.ready_in[i] == 0 && !computed[i]) continue;
    if (kernel[i] == product) return false;
    for (const Operand& operand : graph.ops[kernel[i]].operands) {
      if (operand.tensor == kNone) continue;
      const Tensor& value = graph.value_of(operand.tensor);
      const auto maker = std::ranges::lower_bound(kernel, value.producer);
      const bool inside = maker != kernel.end() && *maker == value.producer;
      if (inside && graph.tensors[operand.tensor].value != kept) {
        computed[static_cast<std::size_t>(maker - kernel.begin())] = true;
      }
    }
  }
  return true;
}

}  // namespace

bool holds_rows_of(const OpGraph& graph, const Kernel& kernel, const Phases& phases, OpId product) {
  const std::uint64_t space = graph.tensors[graph.ops[product].outputs[0]].elements;
  for (std::size_t i = 0; i < kernel.size(); ++i) {
    const Op& op = graph.ops[kernel[i]];
    const bool normalises = op.op_class == OpClass::kNormalise && op.row->family != OpFamily::kLoss;
    if (normalises || (phases.runs_in[i] > 0 && op.work == space)) return true;
  }
  return false;
}

TensorId kept_value_of(const OpGraph& graph, const Kernel& kernel, const Phases& phases,
                       OpId product) {
  const TensorId made = graph.ops[product].outputs[0];
  for (std::size_t i = kernel.size(); i-- > 0 && kernel[i] != product;) {
    if (phases.ready_in[i] > 0 || graph.ops[kernel[i]].outputs.size() != 1) continue;
    const Tensor& result = graph.tensors[graph.ops[kernel[i]].outputs[0]];
    const bool holds = is_float(result.type.dtype) && result.type.dtype != DType::kF64 &&
                       result.elements == graph.tensors[made].elements;
    if (holds && is_enough(graph, kernel, phases, product, result.value)) return result.value;
  }
  return made;
}

}  // namespace fusecalc
