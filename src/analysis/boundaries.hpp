#pragma once

#include <cstdint>

#include "analysis/analysis.hpp"

namespace fusecalc {

// The plans whose boundaries a report shows, from none to all.
enum class BoundaryScope : std::uint8_t { kNoPlan, kHeadline, kEveryPlan };

// Finds the boundaries of those plans that have none yet. It takes as long as planning, so ask only
// for what a report shows.
void find_boundaries(Analysis& analysis, BoundaryScope scope);

}  // namespace fusecalc
