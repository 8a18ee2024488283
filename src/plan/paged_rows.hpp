#pragma once

#include <cstdint>
#include <optional>

#include "graph/op_graph.hpp"

namespace fusecalc {

// The keys or values of an attention op where a gather makes them of whole pages that a table
// lists: where their rows lie in the pages' own memory. Distances are in elements.
struct PagedRows {
  OpId gather = kNone;
  TensorId pool = kNone;  // the value that holds the pages
  TensorId table = kNone;
  std::uint64_t rows = 1;    // of a page
  std::uint64_t page = 0;    // from one to the next
  std::uint64_t offset = 0;  // of the first row, from the first page's row on
  std::uint64_t row = 0;
  std::uint64_t head = 0;
  std::uint64_t entry = 0;  // the table's first
  std::uint64_t batch = 0;  // entries of one batch
};

// Nothing if the operand is no such gather's result, or a view of it in which rows do not lie in
// pages as wholes.
std::optional<PagedRows> paged_rows(const OpGraph& graph, const Op& attention, std::size_t operand);

// Whether an attention op of tensor cores' types has so few rows (tiling.hpp) that each page is
// fetched once, by the block that needs it.
bool takes_pages(const OpGraph& graph, const Op& attention);

// Whether that block has room on chip for the tiles of such an op.
bool holds_pages(const OpGraph& graph, const Op& attention, std::uint64_t on_chip_bytes);

}  // namespace fusecalc
