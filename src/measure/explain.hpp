#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "measure/measurement.hpp"

namespace fusecalc {

// One sentence for every part of a plan whose measured bytes are more than 2 % off the analytic
// ones: the cause where it is known, "unexplained" otherwise. `largest_intermediate` is the largest
// tensor that passes between two of the plan's kernels.
std::vector<std::string> explain_gaps(const PlanMeasurement& plan,
                                      std::uint64_t largest_intermediate, const DeviceInfo& device);

}  // namespace fusecalc
