#include "plan/channels_last.hpp"

#include <optional>

#include "plan/reordering.hpp"

namespace fusecalc {

StridedMap channels_last(const Shape& shape) {
  const std::uint64_t pixels = elements_between(shape, 2, shape.size());
  StridedMap map;
  map.append(shape[0], shape[1] * pixels);
  map.append(pixels, 1);
  map.append(shape[1], pixels);
  return map;
}

bool stores_channels_last(const OpGraph& graph, const Op& op, const Op& convolution) {
  const std::optional<StridedMap> reordering = reordering_of(graph, op);
  return reordering == channels_last(graph.tensors[convolution.outputs[0]].type.shape);
}

bool lies_channels_last(const Tensor& tensor) {
  std::optional<StridedMap> map = channels_last(tensor.type.shape);
  for (const StridedMap& next : tensor.maps) map = map ? joined(*map, next) : map;
  return map && map->identity();
}

}  // namespace fusecalc
