#include "plan/ordered_rows.hpp"

#include <algorithm>
#include <bit>

#include "core/ceil_div.hpp"
#include "graph/axis.hpp"

namespace fusecalc {

OrderedRows ordered_rows(const OpGraph& graph, const Op& op) {
  const Tensor& tensor = graph.tensors[op.operands[0].tensor];
  const Shape& shape = tensor.type.shape;
  if (shape.empty() || tensor.elements == 0) return {};
  const std::int64_t written = op.attributes->axes ? op.attributes->axes->front() : -1;
  const auto axis = static_cast<std::size_t>(
      written < 0 ? written + static_cast<std::int64_t>(shape.size()) : written);
  return {.count = tensor.elements / shape[axis],
          .length = shape[axis],
          .apart = elements_between(shape, axis + 1, shape.size())};
}

SortTiling sort_tiling(const OpGraph& graph, const Op& op, std::uint64_t multiprocessors) {
  constexpr std::uint64_t kMostItems = 8;
  constexpr std::uint64_t kMostThreads = 1024;
  constexpr std::uint64_t kLeastShared =
      2048;                             // elements of a stretch that others share a row with
  constexpr std::uint64_t kLanes = 32;  // of a warp
  const OrderedRows rows = ordered_rows(graph, op);
  const DType dtype = graph.tensors[op.operands[0].tensor].type.dtype;
  SortTiling tiling{
      .kept = op.attributes->k ? static_cast<std::uint64_t>(*op.attributes->k) : rows.length,
      .wide = bytes_of(dtype, 1) > 4};
  const std::uint64_t most = kMostItems * kMostThreads / (tiling.wide ? 2 : 1);
  tiling.stretch = std::clamp<std::uint64_t>(std::bit_ceil(rows.length), 2, most);
  while (tiling.stretch > kLeastShared &&
         rows.count * ceil_div(rows.length, tiling.stretch) < multiprocessors) {
    tiling.stretch /= 2;
  }
  tiling.stretches = std::max<std::uint64_t>(1, ceil_div(rows.length, tiling.stretch));
  tiling.items = std::clamp<std::uint64_t>(tiling.stretch / kLanes, 1, kMostItems);
  return tiling;
}

}  // namespace fusecalc
