#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fusecalc {

// Extents, outermost first. A scalar has none.
using Shape = std::vector<std::uint64_t>;

// The product of the extents, or nothing past kMaxCount. (A zero anywhere makes it 0.)
std::optional<std::uint64_t> checked_elements(const Shape& shape);
// The product of extents [first, last), for shapes that were checked when their tensor was made.
std::uint64_t elements_between(const Shape& shape, std::size_t first, std::size_t last);

// NumPy's rule: aligned at the last axis, equal or 1. Nothing if they do not broadcast.
std::optional<Shape> broadcast(const Shape& a, const Shape& b);

// The strides of a contiguous tensor.
std::vector<std::uint64_t> strides_of(const Shape& shape);

// "[8, 2048, 4096]".
std::string to_string(const Shape& shape);

// The axes of a reduction's input in memory order, without those of extent 1; adjacent axes that
// are all kept or all reduced are merged into one. A row-wise reduction is {kept, reduced}.
struct RowLayout {
  struct MergedAxis {
    std::uint64_t extent = 1;
    bool reduced = false;
    bool operator==(const MergedAxis&) const = default;
  };
  std::vector<MergedAxis> axes;

  bool operator==(const RowLayout&) const = default;

  void append(std::uint64_t extent, bool reduced);
  bool empty() const { return axes.empty(); }
  // Whether the reduced elements of a row are contiguous in memory.
  bool reduces_innermost() const { return !axes.empty() && axes.back().reduced; }
  // Whether each row is one stretch of memory, and the next row follows it.
  bool whole_rows() const { return reduces_innermost() && axes.size() <= 2; }
  std::uint64_t rows() const;        // how many results
  std::uint64_t row_length() const;  // elements that make one result
};

// Whether the one has rows of a matrix, along memory, and the other its columns.
bool crosses(const RowLayout& rows, const RowLayout& columns);

// The layout of reducing `axes` (true: reduced) of `shape`.
RowLayout row_layout(const Shape& shape, const std::vector<bool>& reduced);

}  // namespace fusecalc
