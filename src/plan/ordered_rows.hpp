#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "device/device.hpp"
#include "graph/op_graph.hpp"

namespace fusecalc {

// What a scan or a sort works on: rows along the op's axis, the last one where it names none.
struct OrderedRows {
  std::uint64_t count = 0;
  std::uint64_t length = 1;
  std::uint64_t apart = 1;  // elements of a row lie so far from each other
};

OrderedRows ordered_rows(const OpGraph& graph, const Op& op);

// Of each row, sorted runs of so many elements, of which the first few are kept.
struct SortedRuns {
  std::uint64_t span = 1;
  std::uint64_t runs = 1;  // of a row; the last one may have fewer elements
  std::uint64_t kept = 1;
};

// How a sort is spread over blocks (kernels/sorted_rows.cuh).
struct SortTiling {
  std::uint64_t kept = 1;   // results of a row
  std::uint64_t items = 1;  // of a thread
  bool wide = false;        // keys have 64 bits
  // What blocks sort first: rows, or stretches of those that are too long or too few. Then what is
  // merged of kRunsMerged runs each, until one is left.
  static constexpr std::uint64_t kRunsMerged = 4;
  std::vector<SortedRuns> runs{};

  std::uint64_t stretch() const { return runs.front().span; }  // a power of two
  std::uint64_t threads() const { return stretch() / items; }  // of a stretch
  std::uint64_t together() const;                              // stretches of a block
  std::uint64_t item_bytes() const { return wide ? 16 : 8; }
  std::uint64_t shared_bytes() const;  // of a block
  // Whether a block finds the first few of its stretch without sorting all.
  bool picks() const;
  // Runs lie in one of two buffers in turn: the bytes of each.
  std::array<std::uint64_t, 2> buffers(std::uint64_t rows) const;
};

SortTiling sort_tiling(const OpGraph& graph, const Op& op, const Device& device);

}  // namespace fusecalc
