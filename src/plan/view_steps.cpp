#include "plan/view_steps.hpp"

namespace fusecalc {

std::optional<std::uint64_t> distance(const OpGraph& graph, TensorId tensor, std::uint64_t extent,
                                      std::uint64_t stride) {
  if (extent <= 1 || stride == 0) return stride;
  const auto digits = digits_of(graph, tensor, extent, stride);
  return digits && digits->size() == 1 ? std::optional(digits->front().stride) : std::nullopt;
}

std::optional<std::vector<StridedMap::Axis>> digits_of(const OpGraph& graph, TensorId tensor,
                                                       std::uint64_t extent, std::uint64_t stride) {
  std::vector<StridedMap::Axis> digits = {{extent, stride}};
  for (const StridedMap& map : graph.tensors[tensor].maps) {
    StridedMap next;
    for (const StridedMap::Axis& digit : digits) {
      if (digit.stride == 0) {
        next.append(digit.extent, 0);
        continue;
      }
      const auto parts = through(digit, map);
      if (!parts) return std::nullopt;
      for (const StridedMap::Axis& part : *parts) next.append(part.extent, part.stride);
    }
    digits = next.axes;
  }
  return digits;
}

std::optional<std::uint64_t> offset_of(const OpGraph& graph, TensorId tensor) {
  const std::vector<StridedMap>& maps = graph.tensors[tensor].maps;
  for (std::size_t i = 0; i + 1 < maps.size(); ++i) {
    if (maps[i].offset != 0) return std::nullopt;
  }
  return maps.empty() ? 0 : maps.back().offset;
}

}  // namespace fusecalc
