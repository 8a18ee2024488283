#pragma once

#include <cstdint>

#include "analysis/analysis.hpp"

namespace fusecalc {

// The plans of which a report tells boundaries, from none to all.
enum class BoundaryScope : std::uint8_t { kNoPlan, kHeadline, kEveryPlan };

// Finds the boundaries of those plans that have none yet. It takes as long as making the plans, so
// that only what a report tells should be asked for.
void find_boundaries(Analysis& analysis, BoundaryScope scope);

}  // namespace fusecalc
