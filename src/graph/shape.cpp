#include "graph/shape.hpp"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/checked.hpp"

namespace fusecalc {

std::optional<std::uint64_t> checked_elements(const Shape& shape) {
  if (std::ranges::find(shape, 0U) != shape.end()) return 0;
  std::uint64_t product = 1;
  for (const std::uint64_t extent : shape) {
    if (!checked_multiply(product, extent)) return std::nullopt;
  }
  return product;
}

std::uint64_t elements_between(const Shape& shape, std::size_t first, std::size_t last) {
  std::uint64_t product = 1;
  for (std::size_t i = first; i < last; ++i) product *= shape[i];
  return product;
}

std::optional<Shape> broadcast(const Shape& a, const Shape& b) {
  Shape result = a.size() >= b.size() ? a : b;
  const Shape& other = a.size() >= b.size() ? b : a;
  const std::size_t offset = result.size() - other.size();
  for (std::size_t i = 0; i < other.size(); ++i) {
    std::uint64_t& extent = result[offset + i];
    if (extent == 1) {
      extent = other[i];
    } else if (other[i] != 1 && other[i] != extent) {
      return std::nullopt;
    }
  }
  return result;
}

std::vector<std::uint64_t> strides_of(const Shape& shape) {
  std::vector<std::uint64_t> strides(shape.size());
  std::uint64_t stride = 1;
  for (std::size_t i = shape.size(); i > 0; --i) {
    strides[i - 1] = stride;
    stride *= shape[i - 1];
  }
  return strides;
}

std::string to_string(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

void RowLayout::append(std::uint64_t extent, bool reduced) {
  if (extent == 1) return;
  if (!axes.empty() && axes.back().reduced == reduced) {
    axes.back().extent *= extent;
  } else {
    axes.push_back({extent, reduced});
  }
}

std::uint64_t RowLayout::rows() const {
  std::uint64_t count = 1;
  for (const MergedAxis& axis : axes) count *= axis.reduced ? 1 : axis.extent;
  return count;
}

std::uint64_t RowLayout::row_length() const {
  std::uint64_t count = 1;
  for (const MergedAxis& axis : axes) count *= axis.reduced ? axis.extent : 1;
  return count;
}

bool crosses(const RowLayout& rows, const RowLayout& columns) {
  return rows.axes.size() == 2 && columns.axes.size() == 2 && rows.axes[1].reduced &&
         columns.axes[0].reduced && rows.axes[0].extent == columns.axes[0].extent &&
         rows.axes[1].extent == columns.axes[1].extent;
}

RowLayout row_layout(const Shape& shape, const std::vector<bool>& reduced) {
  RowLayout layout;
  for (std::size_t i = 0; i < shape.size(); ++i) layout.append(shape[i], reduced[i]);
  return layout;
}

}  // namespace fusecalc
