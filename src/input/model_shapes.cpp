#include "input/model_shapes.hpp"

namespace fusecalc {

std::optional<std::size_t> axis_of(std::int64_t axis, std::size_t rank) {
  const auto extent = static_cast<std::int64_t>(rank);
  if (axis < -extent || axis >= extent) return std::nullopt;
  return static_cast<std::size_t>(axis < 0 ? axis + extent : axis);
}

std::vector<std::int64_t> contiguous(const Shape& shape) {
  std::vector<std::int64_t> result;
  for (const std::uint64_t stride : strides_of(shape)) {
    result.push_back(static_cast<std::int64_t>(stride));
  }
  return result;
}

bool viewable(const Shape& from, const std::vector<std::int64_t>& strides, const Shape& to) {
  if (strides.size() != from.size()) return false;
  struct Run {
    std::uint64_t extent;
    std::int64_t stride;
  };
  std::vector<Run> runs;
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (from[i] == 1) continue;
    const bool joins =
        !runs.empty() && runs.back().stride == strides[i] * static_cast<std::int64_t>(from[i]);
    if (joins) {
      runs.back() = {runs.back().extent * from[i], strides[i]};
    } else {
      runs.push_back({from[i], strides[i]});
    }
  }
  std::size_t run = 0;
  std::uint64_t left = runs.empty() ? 1 : runs[0].extent;
  for (const std::uint64_t extent : to) {
    if (extent == 1) continue;
    if (extent == 0) return true;
    if (left == 1 && ++run < runs.size()) left = runs[run].extent;
    if (run >= runs.size() || left % extent != 0) return false;
    left /= extent;
  }
  return true;
}

WrittenAttribute listed(std::string name, std::vector<WrittenDim> values) {
  return {.name = std::move(name), .value = std::move(values)};
}

WrittenAttribute listed(std::string name, const std::vector<std::int64_t>& values) {
  return listed(std::move(name), std::vector<WrittenDim>(values.begin(), values.end()));
}

WrittenAttribute listed(std::string name, std::initializer_list<std::int64_t> values) {
  return listed(std::move(name), std::vector<std::int64_t>(values));
}

}  // namespace fusecalc
