#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "measure/measurement.hpp"

namespace fusecalc {

// One note for each kernel, and for the plan back to back, whose measured bytes differ from the
// analytic ones by more than 2 %: the cause if it is known, "unexplained" otherwise.
// `largest_intermediate` is the largest tensor that one of the plan's kernels writes and another
// reads.
std::vector<std::string> gap_notes(const PlanMeasurement& plan, std::uint64_t largest_intermediate,
                                   const Device& device);

}  // namespace fusecalc
