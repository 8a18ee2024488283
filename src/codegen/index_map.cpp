#include "codegen/index_map.hpp"

#include <fmt/format.h>

namespace fusecalc {

void IndexTransform::append(std::uint64_t extent, std::uint64_t stride) {
  if (extent == 1) return;
  if (!axes.empty() && axes.back().stride == stride * extent) {
    axes.back().extent *= extent;
    axes.back().stride = stride;
    return;
  }
  axes.push_back({extent, stride});
}

bool IndexTransform::identity() const {
  return offset == 0 && (axes.empty() || (axes.size() == 1 && axes[0].stride == 1));
}

LanePattern IndexTransform::pattern(unsigned width) const {
  if (axes.empty()) return LanePattern::kUniform;
  const Axis& inner = axes.back();
  if (axes.size() > 1 && inner.extent % width != 0) return LanePattern::kScattered;
  if (inner.stride > 1) return width == 1 ? LanePattern::kUnit : LanePattern::kScattered;
  return inner.stride == 0 ? LanePattern::kUniform : LanePattern::kUnit;
}

bool IndexTransform::aligned(unsigned width) const {
  if (offset % width != 0) return false;
  for (std::size_t i = 0; i + 1 < axes.size(); ++i) {
    if (axes[i].stride % width != 0) return false;
  }
  return true;
}

std::string IndexTransform::text(std::string_view index) const {
  std::string sum;
  std::uint64_t inner = 1;  // elements of the axes that are done
  for (std::size_t i = axes.size(); i-- > 0; inner *= axes[i].extent) {
    if (axes[i].stride == 0) continue;
    std::string term(index);
    if (inner > 1) term += fmt::format(" / {}", inner);
    if (i > 0) term += fmt::format(" % {}", axes[i].extent);
    if (axes[i].stride > 1) term += fmt::format(" * {}", axes[i].stride);
    sum = sum.empty() ? term : fmt::format("{} + {}", term, sum);
  }
  if (offset > 0)
    return sum.empty() ? fmt::format("{}", offset) : fmt::format("{} + {}", sum, offset);
  return sum.empty() ? "0" : sum;
}

IndexTransform broadcast_map(const Shape& from, const Shape& to) {
  const std::vector<std::uint64_t> strides = strides_of(from);
  const std::size_t added = to.size() - from.size();
  IndexTransform map;
  for (std::size_t i = 0; i < to.size(); ++i) {
    const bool repeated = i < added || (from[i - added] == 1 && to[i] != 1);
    map.append(to[i], repeated ? 0 : strides[i - added]);
  }
  return map;
}

IndexTransform permutation_map(const Shape& original, const std::vector<std::int64_t>& perm) {
  const std::vector<std::uint64_t> strides = strides_of(original);
  const auto rank = static_cast<std::int64_t>(original.size());
  IndexTransform map;
  for (std::int64_t i = 0; i < rank; ++i) {
    const std::int64_t axis = perm.empty() ? rank - 1 - i : perm[static_cast<std::size_t>(i)];
    const auto at = static_cast<std::size_t>(axis < 0 ? axis + rank : axis);
    map.append(original[at], strides[at]);
  }
  return map;
}

}  // namespace fusecalc
