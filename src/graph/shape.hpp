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

// The input of a reduction as runs of adjacent axes that are all kept or all reduced, in memory
// order and without axes of extent 1. A row-wise reduction is {kept, reduced}.
struct RowLayout {
  struct Run {
    std::uint64_t extent = 1;
    bool reduced = false;
    bool operator==(const Run&) const = default;
  };
  std::vector<Run> runs;

  bool operator==(const RowLayout&) const = default;

  void append(std::uint64_t extent, bool reduced);
  bool empty() const { return runs.empty(); }
  // Whether the reduced elements of a row are contiguous in memory.
  bool reduces_innermost() const { return !runs.empty() && runs.back().reduced; }
  std::uint64_t rows() const;        // how many results
  std::uint64_t row_length() const;  // elements that make one result
};

// The layout of reducing `axes` (true: reduced) of `shape`.
RowLayout row_layout(const Shape& shape, const std::vector<bool>& reduced);

}  // namespace fusecalc
