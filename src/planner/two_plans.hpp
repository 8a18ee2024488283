#pragma once

#include <functional>
#include <vector>

#include "plan/kernel.hpp"
#include "plan/legality.hpp"
#include "traffic/counter.hpp"

namespace fusecalc {

// The kernels, except that those that our runner cannot launch are split into single ops.
std::vector<Kernel> launchable_parts(TrafficCounter& counter, const Rules& rules,
                                     const std::vector<Kernel>& kernels);

// Whether the second kernels are better than the first, which hold the same ops.
using Prefers =
    std::function<bool(const std::vector<Kernel>& first, const std::vector<Kernel>& second)>;

// The better parts of two partitions of a graph: for each smallest set of ops that both cover with
// whole kernels, the kernels of `first`, or those of `second` where `prefers` says so.
std::vector<Kernel> better_parts(const OpGraph& graph, const std::vector<Kernel>& first,
                                 const std::vector<Kernel>& second, const Prefers& prefers);

}  // namespace fusecalc
