#pragma once

#include <vector>

#include "plan/legality.hpp"
#include "plan/random_graph.hpp"
#include "traffic/counter.hpp"

namespace fusecalc::testing {

// A plan of random groups that can run one after the other: of legal ones, or of any.
std::vector<Kernel> random_groups(PhaseFinder& phases, const Rules& rules, bool legal, Dice& dice);

// Kernels of every kind of plan: unfused, the compiler's, auto, random legal groups, and
// unchecked groups as in an explicit plan.
std::vector<std::vector<Kernel>> random_plans(TrafficCounter& counter, std::uint64_t seed);

}  // namespace fusecalc::testing
