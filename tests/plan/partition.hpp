#pragma once

#include <cstdint>
#include <vector>

#include "plan/kernel.hpp"

namespace fusecalc::testing {

// Pairs (first, later) of ops of which one must run before the other, found from what they read
// and write and not from the graph's own lists: producers before readers, and readers of a value
// before the op that overwrites it in place.
std::vector<std::pair<OpId, OpId>> orders_of(const OpGraph& graph);

// Whether the kernels hold every op exactly once.
bool is_partition(const OpGraph& graph, const std::vector<Kernel>& kernels);

// Whether the kernels can run one after the other (Kahn's algorithm).
bool can_run(const std::vector<std::pair<OpId, OpId>>& orders, const std::vector<Kernel>& kernels);

}  // namespace fusecalc::testing
