#pragma once

#include <cstdint>
#include <vector>

#include "plan/legality.hpp"
#include "traffic/kernel_traffic.hpp"

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
// ops together. Every partition without a circle is an order of kernels, so the search walks over
// the sets of ops that can have run so far. The scope has at most kMostExactOps ops, in ascending
// order, and no way leads from one of them to another through ops outside.
std::vector<Kernel> search_exactly(TrafficCounter& counter, const Rules& rules,
                                   const Kernel& scope);

// For graphs of any size, starting from `kernels` (a legal partition of the graph, or of some ops
// between which no way leads through others, in an order in which they can run): merges the pair of
// kernels that saves most, again and again, then cuts kernels elsewhere while that saves bytes.
// Near-linear in the number of ops.
std::vector<Kernel> search_greedily(TrafficCounter& counter, const Rules& rules,
                                    std::vector<Kernel> kernels);

// One kernel per op, but for the attention patterns, which no merging of two kernels after another
// would find: scores and softmax alone need not be legal. In an order in which they can run.
std::vector<Kernel> seed_attention(TrafficCounter& counter, const Rules& rules);

// Bytes and kernels of a partition.
PlanCost cost_of(TrafficCounter& counter, const std::vector<Kernel>& kernels);

}  // namespace fusecalc
