#include "plan/reordering.hpp"

namespace fusecalc {

std::optional<StridedMap> reordering_of(const OpGraph& graph, const Op& op) {
  if (op.op_class != OpClass::kMovement || op.operands.size() != 1) return std::nullopt;
  const Tensor& input = graph.tensors[op.operands[0].tensor];
  std::optional<StridedMap> map = op.source.value_or(StridedMap::of(input.elements));
  for (const StridedMap& next : input.maps) map = map ? joined(*map, next) : map;
  const std::uint64_t elements = graph.tensors[input.value].elements;
  const bool whole = map && map->offset == 0 && map->distinct() == elements &&
                     graph.tensors[op.outputs[0]].elements == elements;
  return whole && map->permutes() ? map : std::nullopt;
}

}  // namespace fusecalc
