#include "plan/channels_last.hpp"

#include <optional>

#include "plan/reordering.hpp"

namespace fusecalc {

StridedMap channels_last(const Shape& result) {
  const std::uint64_t pixels = elements_between(result, 2, result.size());
  StridedMap map;
  map.append(result[0], result[1] * pixels);
  map.append(pixels, 1);
  map.append(result[1], pixels);
  return map;
}

bool stores_channels_last(const OpGraph& graph, const Op& op, const Op& convolution) {
  const std::optional<StridedMap> reordering = reordering_of(graph, op);
  return reordering == channels_last(graph.tensors[convolution.outputs[0]].type.shape);
}

bool lies_channels_last(const OpGraph& graph, TensorId tensor, const Op& convolution) {
  const Tensor& made = graph.tensors[convolution.outputs[0]];
  const Tensor& shown = graph.tensors[tensor];
  if (shown.elements != made.elements) return false;
  std::optional<StridedMap> map = channels_last(made.type.shape);
  for (const StridedMap& next : shown.maps) map = map ? joined(*map, next) : map;
  return map && map->identity();
}

}  // namespace fusecalc
