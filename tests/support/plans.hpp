#pragma once

#include "planner/plans.hpp"

namespace fusecalc::testing {

// Any plan but the limit, with each op in one kernel, by its name.
inline FusionPlan make_plan(TrafficCounter& counter, PlanKind kind) {
  PlanMaker maker(counter.graph(), counter.device());
  if (kind == PlanKind::kAuto) return maker.auto_partition();
  return kind == PlanKind::kCompiler ? maker.compiler_partition() : *maker.plan(kind);
}

}  // namespace fusecalc::testing
