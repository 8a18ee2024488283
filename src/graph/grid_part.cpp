#include "graph/grid_part.hpp"

#include <algorithm>
#include <map>
#include <numeric>

namespace fusecalc {
namespace {

// Which of the parts have a place, as flags.
using PartSet = std::uint64_t;
// How many places each set of parts has.
using SetCounts = std::map<PartSet, std::uint64_t>;

constexpr std::uint64_t kLongestCycle = 4096;
constexpr std::size_t kMostSets = 4096;

// The places along one axis. Between the ends of parts, what has a place repeats with the steps.
std::optional<SetCounts> counts_along(std::span<const GridPart* const> parts, std::size_t axis) {
  std::vector<std::uint64_t> borders;
  for (const GridPart* part : parts) {
    borders.push_back(part->axes[axis].first);
    borders.push_back(part->axes[axis].end());
  }
  std::ranges::sort(borders);
  SetCounts counts;
  for (std::size_t i = 0; i + 1 < borders.size(); ++i) {
    const std::uint64_t begin = borders[i];
    const std::uint64_t length = borders[i + 1] - begin;
    if (length == 0) continue;
    std::uint64_t period = 1;
    for (const GridPart* part : parts) {
      const GridPart::Axis& along = part->axes[axis];
      if (along.first > begin || along.end() <= begin) continue;
      period = std::lcm(period, along.step);
      if (period > kLongestCycle) return std::nullopt;
    }
    for (std::uint64_t place = 0; place < std::min(period, length); ++place) {
      PartSet has = 0;
      for (std::size_t k = 0; k < parts.size(); ++k) {
        const GridPart::Axis& along = parts[k]->axes[axis];
        const bool inside = along.first <= begin && begin < along.end() &&
                            (begin + place - along.first) % along.step == 0;
        if (inside) has |= PartSet{1} << k;
      }
      if (has != 0) counts[has] += (length - 1 - place) / period + 1;
    }
  }
  return counts;
}

}  // namespace

std::uint64_t GridPart::elements() const {
  std::uint64_t product = 1;
  for (const Axis& axis : axes) product *= axis.count;
  return product;
}

std::optional<GridPart> grid_part(const StridedMap& map, const Shape& shape) {
  const std::vector<std::uint64_t> strides = strides_of(shape);
  GridPart part;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    part.axes.push_back({.first = map.offset / strides[i] % shape[i]});
  }
  std::vector<bool> counted(shape.size(), false);
  for (const StridedMap::Axis& axis : map.axes) {
    std::uint64_t at = axis.stride;
    for (std::uint64_t rest = at == 0 ? 1 : axis.extent; rest > 1;) {
      // The axis that `at` counts along.
      std::size_t i = 0;
      while (i < shape.size() && (at < strides[i] || shape[i] == 1)) ++i;
      if (i == shape.size() || at % strides[i] != 0 || counted[i]) return std::nullopt;
      GridPart::Axis& along = part.axes[i];
      along.step = at / strides[i];
      const std::uint64_t room = (shape[i] - 1 - along.first) / along.step + 1;
      along.count = std::min(rest, room);
      counted[i] = true;
      if (rest <= room) break;
      // Goes on at the next place of the axis before it.
      const bool even = shape[i] % along.step == 0 && along.first < along.step;
      if (!even || rest % room != 0) return std::nullopt;
      rest /= room;
      at = strides[i] * shape[i];
    }
  }
  for (GridPart::Axis& along : part.axes) {
    if (along.count == 1) along.step = 1;
  }
  return part;
}

StridedMap map_of(const GridPart& part, const Shape& shape) {
  const std::vector<std::uint64_t> strides = strides_of(shape);
  StridedMap map;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const GridPart::Axis& along = part.axes[i];
    map.offset += along.first * strides[i];
    map.append(along.count, along.step * strides[i]);
  }
  return map;
}

std::optional<GridPart> part_within(GridPart part, std::size_t axis, std::uint64_t begin,
                                    std::uint64_t length) {
  GridPart::Axis& along = part.axes[axis];
  const std::uint64_t before =
      begin > along.first ? (begin - along.first + along.step - 1) / along.step : 0;
  const std::uint64_t first = along.first + before * along.step;
  if (before >= along.count || first >= begin + length) return std::nullopt;
  const std::uint64_t count =
      std::min(along.count - before, (begin + length - first - 1) / along.step + 1);
  along = {.first = first - begin, .step = count == 1 ? 1 : along.step, .count = count};
  return part;
}

std::optional<std::uint64_t> elements_of_union(std::span<const GridPart* const> parts) {
  constexpr std::size_t kMostFlags = 64;
  if (parts.empty()) return 0;
  if (parts.size() > kMostFlags) return std::nullopt;
  SetCounts all = {{~PartSet{0} >> (kMostFlags - parts.size()), 1}};
  for (std::size_t axis = 0; axis < parts.front()->axes.size(); ++axis) {
    const std::optional<SetCounts> along = counts_along(parts, axis);
    if (!along || all.size() * along->size() > kMostSets) return std::nullopt;
    SetCounts both;
    for (const auto& [before, places] : all) {
      for (const auto& [has, count] : *along) {
        if ((before & has) != 0) both[before & has] += places * count;
      }
    }
    all = std::move(both);
  }
  std::uint64_t sum = 0;
  for (const auto& [has, places] : all) sum += places;
  return sum;
}

}  // namespace fusecalc
