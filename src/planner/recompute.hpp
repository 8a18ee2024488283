#pragma once

#include <vector>

#include "plan/kernel.hpp"
#include "plan/legality.hpp"

namespace fusecalc {

// The plan with kernels merged while that moves fewer bytes, or as many in fewer kernels: those
// that recomputing leaves read and store other tensors than before. As it is where the graph is
// very large.
FusionPlan merged(const OpGraph& graph, const Device& device, FusionPlan plan, const Rules& rules);

}  // namespace fusecalc
