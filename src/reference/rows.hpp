#pragma once

#include <cstdint>
#include <vector>

#include "graph/shape.hpp"
#include "reference/index_map.hpp"

namespace fusecalc {

// The rows of a tensor that are reduced one by one, numbered in memory order. A row's elements may
// lie anywhere; their order is that of the reduced axes.
class Rows {
 public:
  explicit Rows(const RowLayout& layout);

  std::uint64_t length() const { return length_; }
  std::uint64_t row_of(std::uint64_t element) const;
  std::vector<Run> runs_of_row(std::uint64_t row) const;
  // The element at a place in a row.
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
