#include "plan/ordered_rows.hpp"

#include <algorithm>
#include <bit>
#include <limits>

#include "core/ceil_div.hpp"
#include "graph/axis.hpp"

namespace fusecalc {
namespace {

constexpr std::uint64_t kLanes = 32;  // of a warp

// Of a stretch in shared memory: several items of a thread are apart from each other, with padding.
std::uint64_t slots_of(std::uint64_t stretch) {
  return stretch > kLanes ? stretch + kLanes : stretch;
}

}  // namespace

OrderedRows ordered_rows(const OpGraph& graph, const Op& op) {
  const Tensor& tensor = graph.tensors[op.operands[0].tensor];
  const Shape& shape = tensor.type.shape;
  if (shape.empty() || tensor.elements == 0) return {};
  const std::size_t axis = axis_of(op, shape.size(), -1);
  return {.count = tensor.elements / shape[axis],
          .length = shape[axis],
          .apart = elements_between(shape, axis + 1, shape.size())};
}

std::uint64_t SortTiling::together() const {
  constexpr std::uint64_t kLeastThreads = 256;  // of a block
  return std::max<std::uint64_t>(1, kLeastThreads / threads());
}

std::uint64_t SortTiling::shared_bytes() const {
  return together() * slots_of(stretch()) * item_bytes();
}

bool SortTiling::picks() const {
  return together() == 1 && items > 1 && items * runs.front().kept <= threads();
}

std::array<std::uint64_t, 2> SortTiling::buffers(std::uint64_t rows) const {
  std::array<std::uint64_t, 2> bytes = {0, 0};
  for (std::size_t i = 0; i + 1 < runs.size(); ++i) {
    bytes[i % 2] = std::max(bytes[i % 2], rows * runs[i].runs * runs[i].kept * item_bytes());
  }
  return bytes;
}

SortTiling sort_tiling(const OpGraph& graph, const Op& op, const Device& device) {
  constexpr std::uint64_t kMostItems = 8;
  constexpr std::uint64_t kMostThreads = 1024;
  constexpr std::uint64_t kLeastShared = 1024;  // elements of a stretch of a row that blocks share
  const OrderedRows rows = ordered_rows(graph, op);
  const DType dtype = graph.tensors[op.operands[0].tensor].type.dtype;
  SortTiling tiling{
      .kept = op.attributes->k ? static_cast<std::uint64_t>(*op.attributes->k) : rows.length,
      .wide = bytes_of(dtype, 1) > 4 || rows.length > std::numeric_limits<std::uint32_t>::max()};
  const std::uint64_t most = kMostItems * kMostThreads / (tiling.wide ? 2 : 1);
  SortedRuns next{.span = std::clamp<std::uint64_t>(std::bit_ceil(rows.length), 2, most)};
  const auto spreads = [&] {
    const std::uint64_t blocks = rows.count * ceil_div(rows.length, next.span);
    return next.span > kLeastShared && blocks < device.multiprocessors;
  };
  const auto fits = [&] {
    return slots_of(next.span) * tiling.item_bytes() <= device.on_chip_bytes;
  };
  while (spreads() || !fits()) next.span /= 2;
  tiling.items = std::clamp<std::uint64_t>(next.span / kLanes, 1, kMostItems);
  do {
    next.runs = std::max<std::uint64_t>(1, ceil_div(rows.length, next.span));
    next.kept = std::min(tiling.kept, next.span);
    tiling.runs.push_back(next);
    next.span *= SortTiling::kRunsMerged;
  } while (next.runs > 1);
  return tiling;
}

}  // namespace fusecalc
