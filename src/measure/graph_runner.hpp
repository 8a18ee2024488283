#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "measure/plan_runner.hpp"
#include "plan/kernel.hpp"
#include "traffic/kernel_traffic.hpp"

namespace fusecalc {

// A plan to run, with what its kernels are called.
struct NamedPlan {
  std::string key;
  std::vector<Kernel> kernels;
  std::vector<std::string> names;
};

// Measures a graph with kernels generated for it: all of `unfused`, then all of `fused`. A kernel
// that has no code is left out, with the reason; the rest is measured all the same. Where `sources`
// names a folder, what was compiled is written there.
Measurement measure_graph(GpuBackend& gpu, TrafficCounter& counter, const NamedPlan& unfused,
                          const NamedPlan& fused, const MeasureOptions& options,
                          const std::optional<std::string>& sources, const Progress& progress);

}  // namespace fusecalc
