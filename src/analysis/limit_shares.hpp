#pragma once

#include <cstdint>
#include <vector>

#include "analysis/analysis.hpp"

namespace fusecalc {

// Of each kernel's bytes, those that the limit moves, too: the graph's inputs where they are read
// first, and its outputs. A plan's kernels together have no more than the limit.
std::vector<std::uint64_t> limit_shares(const GraphAnalysis& analysis, const PlanAnalysis& plan);

}  // namespace fusecalc
