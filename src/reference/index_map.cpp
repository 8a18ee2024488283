#include "reference/index_map.hpp"

#include <algorithm>
#include <cassert>

namespace fusecalc {

IndexMap::IndexMap(const Shape& shape, std::span<const std::uint64_t> strides, std::uint64_t offset)
    : offset_(offset) {
  assert(shape.size() == strides.size());
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 1) continue;
    if (!axes_.empty() && axes_.back().stride == strides[i] * shape[i]) {
      axes_.back().extent *= shape[i];
      axes_.back().stride = strides[i];
    } else {
      axes_.push_back({shape[i], 1, strides[i]});
    }
  }
  for (std::size_t i = axes_.size(); i > 1; --i) {
    axes_[i - 2].inner = axes_[i - 1].inner * axes_[i - 1].extent;
  }
}

IndexMap IndexMap::broadcast(const Shape& to, const Shape& from) {
  const std::size_t missing = to.size() - from.size();
  std::vector<std::uint64_t> strides(to.size(), 0);
  const std::vector<std::uint64_t> own = strides_of(from);
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (from[i] != 1) strides[missing + i] = own[i];
  }
  return {to, strides};
}

IndexMap IndexMap::permutation(const Shape& from, std::span<const std::int64_t> perm) {
  const std::vector<std::uint64_t> own = strides_of(from);
  Shape shape;
  std::vector<std::uint64_t> strides;
  for (const std::int64_t axis : perm) {
    shape.push_back(from[static_cast<std::size_t>(axis)]);
    strides.push_back(own[static_cast<std::size_t>(axis)]);
  }
  return {shape, strides};
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
