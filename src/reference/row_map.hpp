#pragma once

#include <cstdint>
#include <vector>

#include "graph/shape.hpp"
#include "reference/index_map.hpp"

namespace fusecalc {

// Maps the rows that an op reduces to elements of the tensor, and back. Rows are numbered in memory
// order; a row's elements, which need not be contiguous, are in the order of the reduced axes.
class RowMap {
 public:
  explicit RowMap(const RowLayout& layout);

  std::uint64_t length() const { return length_; }
  std::uint64_t row_of(std::uint64_t element) const;
  std::vector<StridedRange> ranges_of_row(std::uint64_t row) const;
  // The element at a position in a row.
  std::uint64_t element(std::uint64_t row, std::uint64_t place) const;

 private:
  struct Axis {
    std::uint64_t extent;
    std::uint64_t stride;  // in the tensor
    std::uint64_t rows;    // rows within one step; for kept axes only
  };
  std::vector<Axis> kept_;
  std::vector<Axis> reduced_;
  std::uint64_t length_ = 1;
};

}  // namespace fusecalc
