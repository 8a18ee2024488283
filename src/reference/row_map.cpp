#include "reference/row_map.hpp"

#include <algorithm>

namespace fusecalc {

RowMap::RowMap(const RowLayout& layout) : length_(layout.row_length()) {
  std::uint64_t stride = 1;
  std::uint64_t rows = 1;
  for (std::size_t i = layout.axes.size(); i > 0; --i) {
    const RowLayout::MergedAxis& axis = layout.axes[i - 1];
    (axis.reduced ? reduced_ : kept_).push_back({axis.extent, stride, rows});
    stride *= axis.extent;
    if (!axis.reduced) rows *= axis.extent;
  }
  // Outermost first.
  std::reverse(kept_.begin(), kept_.end());
  std::reverse(reduced_.begin(), reduced_.end());
}

std::uint64_t RowMap::row_of(std::uint64_t element) const {
  std::uint64_t row = 0;
  for (const Axis& axis : kept_) row += element / axis.stride % axis.extent * axis.rows;
  return row;
}

std::uint64_t RowMap::element(std::uint64_t row, std::uint64_t place) const {
  std::uint64_t element = 0;
  for (const Axis& axis : kept_) element += row / axis.rows % axis.extent * axis.stride;
  for (std::size_t i = reduced_.size(); i > 0; --i) {
    const Axis& axis = reduced_[i - 1];
    element += place % axis.extent * axis.stride;
    place /= axis.extent;
  }
  return element;
}

std::vector<StridedRange> RowMap::ranges_of_row(std::uint64_t row) const {
  if (length_ == 0) return {};
  std::vector<StridedRange> ranges = {{.first = element(row, 0)}};
  for (std::size_t i = 0; i < reduced_.size(); ++i) {
    const Axis& axis = reduced_[i];
    if (i + 1 == reduced_.size()) {
      for (StridedRange& range : ranges) range = {range.first, axis.stride, axis.extent};
      break;
    }
    std::vector<StridedRange> starts;
    for (const StridedRange& range : ranges) {
      for (std::uint64_t k = 0; k < axis.extent; ++k) {
        starts.push_back({.first = range.first + k * axis.stride});
      }
    }
    ranges = std::move(starts);
  }
  return ranges;
}

}  // namespace fusecalc
