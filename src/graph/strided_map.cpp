#include "graph/strided_map.hpp"

#include <algorithm>
#include <functional>

namespace fusecalc {
namespace {

using Axes = std::vector<StridedMap::Axis>;

// The same as the public function. `room`, if given, is how far each axis of the map may be counted
// by all axes together, and is reduced by what this one takes; without it, all smaller steps are
// taken to be counted as well.
std::optional<Axes> through(const StridedMap::Axis& axis, const StridedMap& map,
                            std::vector<std::uint64_t>* room) {
  Axes parts;  // innermost first
  std::uint64_t at = axis.stride;
  for (std::uint64_t rest = axis.extent; rest > 1;) {
    // The map's axis that `at` counts along, and the elements below it.
    std::uint64_t below = 1;
    std::size_t i = map.axes.size();
    while (i > 0 && below * map.axes[i - 1].extent <= at) below *= map.axes[--i].extent;
    if (i == 0 || at % below != 0) return std::nullopt;
    const StridedMap::Axis& along = map.axes[i - 1];
    const std::uint64_t from = at / below;
    const bool ends_here = room != nullptr && (rest - 1) * from < along.extent;
    const std::uint64_t part = ends_here ? rest : std::min(rest, along.extent / from);
    if (!ends_here && (along.extent % from != 0 || rest % part != 0)) return std::nullopt;
    if (room != nullptr) {
      const std::uint64_t taken = (part - 1) * from;
      if (taken > (*room)[i - 1]) return std::nullopt;
      (*room)[i - 1] -= taken;
    }
    parts.push_back({part, from * along.stride});
    rest /= part;
    at *= part;
  }
  std::ranges::reverse(parts);
  return parts;
}

}  // namespace

StridedMap StridedMap::of(std::uint64_t elements) {
  StridedMap map;
  map.append(elements, 1);
  return map;
}

void StridedMap::append(std::uint64_t extent, std::uint64_t stride) {
  if (extent == 1) return;
  if (!axes.empty() && axes.back().stride == stride * extent) {
    axes.back().extent *= extent;
    axes.back().stride = stride;
    return;
  }
  axes.push_back({extent, stride});
}

bool StridedMap::identity() const {
  return offset == 0 && (axes.empty() || (axes.size() == 1 && axes[0].stride == 1));
}

bool StridedMap::permutes() const {
  std::uint64_t outer = 0;
  for (const Axis& axis : axes) {
    if (axis.stride == 0) continue;
    if (outer != 0 && axis.stride > outer) return true;
    outer = axis.stride;
  }
  return false;
}

std::uint64_t StridedMap::distinct() const {
  std::uint64_t count = 1;
  for (const Axis& axis : axes) count *= axis.stride == 0 ? 1 : axis.extent;
  return count;
}

std::uint64_t StridedMap::operator()(std::uint64_t element) const {
  std::uint64_t to = offset;
  for (std::size_t i = axes.size(); i-- > 0;) {
    to += (i == 0 ? element : element % axes[i].extent) * axes[i].stride;
    element /= axes[i].extent;
  }
  return to;
}

StridedMap broadcast_map(const Shape& from, const Shape& to) {
  const std::vector<std::uint64_t> strides = strides_of(from);
  const std::size_t added = to.size() - from.size();
  StridedMap map;
  for (std::size_t i = 0; i < to.size(); ++i) {
    const bool repeated = i < added || (from[i - added] == 1 && to[i] != 1);
    map.append(to[i], repeated ? 0 : strides[i - added]);
  }
  return map;
}

StridedMap inverse(const StridedMap& permutation) {
  Axes back;  // with the strides that they have in the tensor that the permutation leads from
  std::uint64_t inner = 1;
  for (std::size_t i = permutation.axes.size(); i-- > 0;) {
    back.push_back({permutation.axes[i].stride, inner});
    inner *= permutation.axes[i].extent;
  }
  std::ranges::sort(back, std::greater<>(), &StridedMap::Axis::extent);
  StridedMap map;
  std::uint64_t outer = inner;
  for (const StridedMap::Axis& axis : back) {
    map.append(outer / axis.extent, axis.stride);
    outer = axis.extent;
  }
  return map;
}

std::optional<Axes> through(const StridedMap::Axis& axis, const StridedMap& map) {
  return through(axis, map, nullptr);
}

std::optional<StridedMap> joined(const StridedMap& first, const StridedMap& second) {
  StridedMap result;
  result.offset = second(first.offset);
  // Coordinates must not carry: how far each can count after the offset.
  std::vector<std::uint64_t> room(second.axes.size());
  std::uint64_t rest = first.offset;
  for (std::size_t i = second.axes.size(); i-- > 0;) {
    const std::uint64_t extent = second.axes[i].extent;
    room[i] = extent - 1 - (i == 0 ? std::min(rest, extent - 1) : rest % extent);
    rest /= extent;
  }
  for (const StridedMap::Axis& axis : first.axes) {
    if (axis.stride == 0) {
      result.append(axis.extent, 0);
      continue;
    }
    const auto parts = through(axis, second, &room);
    if (!parts) return std::nullopt;
    for (const StridedMap::Axis& part : *parts) result.append(part.extent, part.stride);
  }
  return result;
}

}  // namespace fusecalc
