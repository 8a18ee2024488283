#pragma once

#include "planner/plans.hpp"

namespace fusecalc::testing {

// Any plan that is a partition, by its name.
inline FusionPlan make_plan(TrafficCounter& counter, PlanKind kind) {
  return *PlanMaker(counter).plan(kind);
}

}  // namespace fusecalc::testing
