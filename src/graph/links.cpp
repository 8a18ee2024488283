#include "graph/links.hpp"

#include <utility>
#include <vector>

namespace fusecalc {

void link_ops(OpGraph& graph) {
  std::vector<IdLists::Pair> reads;
  std::vector<IdLists::Pair> orders;
  for (OpId id = 0; id < graph.ops.size(); ++id) {
    for (const Operand& operand : graph.ops[id].operands) {
      if (operand.tensor == kNone) continue;
      const TensorId value = graph.tensors[operand.tensor].value;
      const OpId producer = graph.tensors[value].producer;
      reads.emplace_back(value, id);
      if (producer != kNone) orders.emplace_back(id, producer);
    }
  }
  graph.readers = IdLists(graph.tensors.size(), reads);
  for (TensorId value = 0; value < graph.tensors.size(); ++value) {
    const OpId writer = graph.tensors[value].overwritten_by;
    if (writer == kNone) continue;
    for (const OpId reader : graph.readers[value]) {
      if (reader != writer) orders.emplace_back(writer, reader);
    }
  }
  graph.before = IdLists(graph.ops.size(), orders);
  for (auto& [later, earlier] : orders) std::swap(later, earlier);
  graph.after = IdLists(graph.ops.size(), orders);
}

}  // namespace fusecalc
