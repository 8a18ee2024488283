#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "plan/column_sums.hpp"
#include "plan/phases.hpp"
#include "plan/verdict.hpp"

namespace fusecalc {

// A kernel that sums the rows of a matrix and its columns in one pass: pointwise ops on elements,
// on rows and on columns, and sums. Elements may use the sums of their row, and sums of columns may
// add up such elements; no other sum waits for one.
struct RowsAndColumns {
  // What it reads, each once: as large as the matrix, one for each row, one for each column.
  std::vector<TensorId> elements;
  std::vector<TensorId> of_rows;
  std::vector<TensorId> of_columns;
  std::vector<OpId> row_sums;
  std::vector<OpId> column_sums;
  std::map<TensorId, OpId> column_sum_of;  // by value: the sum that it is or is made of
  ColumnTiling tiling;
};

// None where the kernel, whose phases are crossed, has other ops, or does not fit a block.
std::optional<RowsAndColumns> rows_and_columns(const ResolvedKernel& resolved, const Kernel& kernel,
                                               std::uint64_t on_chip_bytes);

// The reason, if so: kRows where a larger kernel cannot be one either.
Verdict check_rows_and_columns(const ResolvedKernel& resolved, const Kernel& kernel,
                               std::uint64_t on_chip_bytes);

}  // namespace fusecalc
