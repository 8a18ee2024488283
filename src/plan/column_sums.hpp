#pragma once

#include <cstdint>
#include <optional>

namespace fusecalc {

// What a kernel does that reduces rows and adds up their columns in one pass.
struct ColumnWork {
  std::uint64_t rows = 1;
  std::uint64_t length = 1;        // of a row
  std::uint64_t widest_bytes = 1;  // of an element of what is as large as the rows
  // Whether those begin at multiples of 16 bytes, and are copied as they are stored: then groups
  // may begin anywhere in a row.
  bool shifts = false;
  std::uint64_t element_bytes = 0;  // on chip, of all operands as large as the rows
  std::uint64_t column_bytes = 0;   // in registers, of operands that have one element a column
  std::uint64_t sums = 0;           // of columns
  std::uint64_t row_sums = 0;
  std::uint64_t number_bytes = 4;  // of the type that is computed in
};

// How kernels/column_sums.cuh spreads rows over threads: a team of threads takes one row after
// another, and each of its threads keeps the sums of its columns in registers.
struct ColumnTiling {
  std::uint64_t rows = 1;
  std::uint64_t length = 1;  // of a row
  unsigned width = 1;        // elements that a thread takes together
  std::uint64_t groups = 1;  // of so many, in a row
  // Elements of a row ahead of its first group and behind the last: none where rows are whole
  // groups, which then begin where a row does.
  std::uint64_t ends = 0;
  unsigned rounds = 1;  // how often a thread takes a group of a row
  unsigned team = 1;    // threads of a row: a part of a warp that divides it, or whole warps
  unsigned teams = 1;   // of a block
  unsigned stages = 1;  // rows that a team has on chip: one that it works on, others on the way
  std::uint64_t shared_bytes = 0;

  unsigned threads() const { return team * teams; }
  // As many as run at once, or fewer: all rows of a team begin at the same place in a group.
  std::uint64_t blocks(unsigned multiprocessors) const;
};

// None where a block has not enough registers or shared memory for a row.
std::optional<ColumnTiling> column_tiling(const ColumnWork& work, std::uint64_t on_chip_bytes);

}  // namespace fusecalc
