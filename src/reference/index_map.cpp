#include "reference/index_map.hpp"

#include <algorithm>
#include <cassert>

namespace fusecalc {

namespace {

StridedMap map_of(const Shape& shape, std::span<const std::uint64_t> strides,
                  std::uint64_t offset) {
  assert(shape.size() == strides.size());
  StridedMap map;
  map.offset = offset;
  for (std::size_t i = 0; i < shape.size(); ++i) map.append(shape[i], strides[i]);
  return map;
}

}  // namespace

IndexMap::IndexMap(const Shape& shape, std::span<const std::uint64_t> strides, std::uint64_t offset)
    : IndexMap(map_of(shape, strides, offset)) {}

IndexMap::IndexMap(const StridedMap& map) : offset_(map.offset) {
  for (const StridedMap::Axis& axis : map.axes) axes_.push_back({axis.extent, 1, axis.stride});
  for (std::size_t i = axes_.size(); i > 1; --i) {
    axes_[i - 2].inner = axes_[i - 1].inner * axes_[i - 1].extent;
  }
}

std::uint64_t IndexMap::operator()(std::uint64_t element) const {
  std::uint64_t source = offset_;
  for (const Axis& axis : axes_) {
    source += element / axis.inner * axis.stride;
    element %= axis.inner;
  }
  return source;
}

void IndexMap::append(const StridedRange& range, std::vector<Repeated>& sources) const {
  if (range.count == 1 || axes_.empty()) {
    sources.push_back({.range = {.first = (*this)(range.first)}, .times = range.count});
    return;
  }
  // Within one axis, a step of the range is a fixed number of steps along that axis.
  const Axis* along = nullptr;
  for (const Axis& axis : axes_) {
    if (range.step % axis.inner != 0) continue;
    along = &axis;
    break;
  }
  const std::uint64_t steps = range.step / along->inner;
  for (std::uint64_t done = 0; done < range.count;) {
    const std::uint64_t element = range.first + done * range.step;
    const std::uint64_t place = element / along->inner % along->extent;
    const std::uint64_t reach = (along->extent - 1 - place) / steps + 1;
    const std::uint64_t count = std::min(reach, range.count - done);
    const StridedRange source{
        .first = (*this)(element), .step = steps * along->stride, .count = count};
    if (count == 1 || source.step == 0) {
      sources.push_back({.range = {.first = source.first}, .times = count});
    } else {
      sources.push_back({.range = source});
    }
    done += count;
  }
}

std::vector<StridedRange> ranges_of(std::span<const std::uint64_t> elements) {
  std::vector<StridedRange> ranges;
  for (std::size_t i = 0; i < elements.size();) {
    std::size_t end = i + 1;
    // Steps are unsigned: only rising elements form a range.
    if (end < elements.size() && elements[end] > elements[i]) {
      const std::uint64_t step = elements[end] - elements[i];
      while (end < elements.size() && elements[end] - elements[end - 1] == step &&
             elements[end] > elements[end - 1]) {
        ++end;
      }
      ranges.push_back({elements[i], step, end - i});
    } else {
      ranges.push_back({.first = elements[i]});
    }
    i = end;
  }
  return ranges;
}

}  // namespace fusecalc
