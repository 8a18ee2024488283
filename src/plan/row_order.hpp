#pragma once

#include <optional>
#include <vector>

#include "plan/phases.hpp"
#include "plan/verdict.hpp"

namespace fusecalc {

// The rows of the value that an op takes for its own rows, whole or in part: from the number of an
// own row to that of the row whose elements it is made of, and nothing else. `rows` rows that
// follow each other in memory are told apart. Nothing where a row is made of several, or where rows
// are left out.
std::optional<StridedMap> rows_taken(const OpGraph& graph, OpId reader, const Outline::Input& input,
                                     std::uint64_t rows);

// The order in which each op of a kernel has the rows that the kernel reduces. What is known once
// rows are reduced may be transposed, as long as rows remain whole: a block then stores the rows
// that it holds where the transposition puts them. Each op has one order, and so has each value
// that is as large as the rows.
struct RowOrder {
  // Per op: from the number of its row to that of the kernel's. Empty where all are the same.
  std::vector<StridedMap> of;
  Verdict verdict{};  // why there is no such order

  bool same(std::size_t one, std::size_t other) const { return of.empty() || of[one] == of[other]; }
};

// Of a kernel whose ops take, of what reductions make, whole rows in some order or else what they
// would take without transpositions. All are the same where it contracts, or reduces several
// layouts of rows.
RowOrder row_order(const ResolvedKernel& resolved, const Kernel& kernel);

}  // namespace fusecalc
