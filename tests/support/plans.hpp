#pragma once

#include "planner/plans.hpp"

namespace fusecalc::testing {

// Any plan that is a partition, by its name.
inline FusionPlan make_plan(TrafficCounter& counter, PlanKind kind) {
  if (kind == PlanKind::kUnfused) return unfused_plan(counter.graph());
  if (kind == PlanKind::kExplicit) return explicit_plan(counter.graph());
  FusionPlan compiler = compiler_plan(counter);
  return kind == PlanKind::kAuto ? auto_plan(counter, compiler) : compiler;
}

}  // namespace fusecalc::testing
