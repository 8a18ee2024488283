#pragma once

#include <functional>
#include <span>
#include <vector>

#include "measure/graph_memory.hpp"
#include "measure/plan_runner.hpp"
#include "plan/kernel.hpp"

namespace fusecalc {

// A plan that is ready to run, the ops of its kernels, and the graph that these are of: the one
// that is measured, or that with copies of ops.
struct RunnablePlan {
  const PreparedPlan& plan;
  const OpGraph& graph;
  const std::vector<Kernel>& kernels;
};

// Runs both plans once on fresh inputs, `unfused` last, so that what lies between the kernels is
// there for every one of them, and fills in what was found about each. Where a plan lacks a kernel,
// or is too much work for the reference, its kernels are checked one by one.
void check_plans(GpuBackend& gpu, const OpGraph& graph, GraphMemory& memory,
                 const RunnablePlan& unfused, const RunnablePlan& fused,
                 std::span<PlanMeasurement> results, const Progress& progress);

// What the graph's kernels hand to the outside.
std::vector<TensorId> results_of(const OpGraph& graph);

}  // namespace fusecalc
