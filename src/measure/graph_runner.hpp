#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analysis/analysis.hpp"
#include "measure/plan_runner.hpp"
#include "plan/kernel.hpp"
#include "traffic/counter.hpp"

namespace fusecalc {

// A plan to run, with the names of its kernels.
struct NamedPlan {
  std::string key;
  // What the kernels are of, where ops stand in several of them; else the graph that is measured.
  const OpGraph* graph = nullptr;
  std::vector<Kernel> kernels;
  std::vector<std::string> names;
};

NamedPlan named_plan(const PlanAnalysis& plan);

// Measures a graph with kernels generated for it: all of `unfused`, then all of `fused`. A kernel
// without code is skipped, with the reason; the rest is still measured. If `sources` names a
// folder, the generated sources are written there.
Measurement measure_graph(GpuBackend& gpu, TrafficCounter& counter, const NamedPlan& unfused,
                          const NamedPlan& fused, const MeasureOptions& options,
                          const std::optional<std::string>& sources, const Progress& progress);

}  // namespace fusecalc
