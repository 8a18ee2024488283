#pragma once

#include <vector>

#include "plan/kernel.hpp"

namespace fusecalc {

// The plan of groups of ops, in their order, some of which share ops that may be recomputed. What
// others need of an op is stored by the first of its groups; the groups that read it themselves
// compute it again. A group that does neither loses the op, and may be left without any.
FusionPlan shared_plan(const OpGraph& graph, const std::vector<Kernel>& groups);

}  // namespace fusecalc
