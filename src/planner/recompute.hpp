#pragma once

#include <vector>

#include "plan/kernel.hpp"
#include "plan/legality.hpp"

namespace fusecalc {

// The plan of groups of ops, in their order, some of which share ops that may be recomputed. What
// others need of an op is stored by the first of its groups; the groups that read it themselves
// compute it again. A group that does neither loses the op, and may be left without any.
FusionPlan shared_plan(const OpGraph& graph, const std::vector<Kernel>& groups);

// The plan with kernels merged while that moves fewer bytes: those that recomputing leaves read and
// store other tensors than before. As it is where the graph is very large.
FusionPlan merged(const OpGraph& graph, const Device& device, FusionPlan plan, const Rules& rules);

}  // namespace fusecalc
