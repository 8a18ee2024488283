#pragma once

#include <cstdint>
#include <vector>

#include "plan/legality.hpp"
#include "traffic/counter.hpp"

namespace fusecalc {

// What a search minimises: bytes first, then kernels.
struct PlanCost {
  std::uint64_t bytes = 0;
  std::uint64_t kernels = 0;

  auto operator<=>(const PlanCost&) const = default;
};

// The most ops that the exact search takes.
inline constexpr std::size_t kMostExactOps = 12;

// The legal partition of `scope` with the fewest bytes, then the fewest kernels, then the earliest
// ops together. Every acyclic partition corresponds to an order of kernels, so the search goes
// over the sets of ops that can have run so far. The scope has at most kMostExactOps ops, in
// ascending order, and no path leads from one of them to another through other ops.
std::vector<Kernel> search_exactly(TrafficCounter& counter, const Rules& rules,
                                   const Kernel& scope);

// For graphs of any size, starting from `kernels` (a legal partition of the graph, or of some ops
// with no path between them through other ops, in execution order): merges the pair of
// kernels that saves most until none is left, then moves cuts while that saves bytes.
// Near-linear in the number of ops.
std::vector<Kernel> search_greedily(TrafficCounter& counter, const Rules& rules,
                                    std::vector<Kernel> kernels);

// One kernel per op, except for attention patterns, which pairwise merging would not find, as
// scores and softmax alone need not be legal. In execution order.
std::vector<Kernel> seed_attention(TrafficCounter& counter, const Rules& rules);

// Bytes and kernels of a partition.
PlanCost cost_of(TrafficCounter& counter, const std::vector<Kernel>& kernels);

}  // namespace fusecalc
