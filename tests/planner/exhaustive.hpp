#pragma once

#include <cstdint>
#include <vector>

#include "plan/legality.hpp"
#include "traffic/counter.hpp"

namespace fusecalc::testing {

inline constexpr std::size_t kMostExhaustiveOps = 20;

// The fewest bytes of any legal plan of a graph of up to kMostExhaustiveOps ops, if those are fewer
// than `known`, else `known`. Tries every set of ops as a kernel, and goes through all sets of ops
// that can have run so far; takes as long as it takes.
std::uint64_t fewest_bytes(TrafficCounter& counter, const Rules& rules, std::uint64_t known);

}  // namespace fusecalc::testing
