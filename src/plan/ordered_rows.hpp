#pragma once

#include <cstdint>

#include "graph/op_graph.hpp"

namespace fusecalc {

// What a scan or a sort works on: rows along the op's axis, the last one where it names none.
struct OrderedRows {
  std::uint64_t count = 0;
  std::uint64_t length = 1;
  std::uint64_t apart = 1;  // elements of a row lie so far from each other
};

OrderedRows ordered_rows(const OpGraph& graph, const Op& op);

// How a sort is spread over blocks (kernels/sorted_rows.cuh). A stretch is a row, or a part of one
// that is too long for a block or that several multiprocessors shall share.
struct SortTiling {
  std::uint64_t stretch = 2;    // elements, a power of two; the last of a row may have fewer
  std::uint64_t stretches = 1;  // of a row
  std::uint64_t kept = 1;       // results of a row
  std::uint64_t items = 1;      // of a thread
  bool wide = false;            // keys have 64 bits

  std::uint64_t threads() const { return stretch / items; }  // of a stretch
  // The first elements of a stretch that may be among the results.
  std::uint64_t stretch_kept() const { return kept < stretch ? kept : stretch; }
  std::uint64_t item_bytes() const { return wide ? 16 : 8; }
};

SortTiling sort_tiling(const OpGraph& graph, const Op& op, std::uint64_t multiprocessors);

}  // namespace fusecalc
