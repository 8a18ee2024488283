#pragma once

#include <optional>

#include "plan/kernel.hpp"
#include "plan/legality.hpp"

namespace fusecalc {

// The plan with kernels merged while that moves fewer bytes, or as many in fewer kernels: those
// that recomputing leaves read and store other tensors than before. As it is where the graph is
// very large.
FusionPlan merged(const OpGraph& graph, const Device& device, FusionPlan plan, const Rules& rules);

// A plan made of ops that each of their readers computes again, where that may be; a kernel that
// holds several of these readers computes an op once. To recompute an op may save nothing by
// itself, while it lets a kernel be merged or cut elsewhere. Nothing where there is no such op, the
// rules do not allow the plan, or the graph is large.
std::optional<FusionPlan> planned_with_copies(const OpGraph& graph, const Device& device,
                                              const Rules& rules);

}  // namespace fusecalc
