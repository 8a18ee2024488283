#include "analysis/analysis.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <functional>

namespace fusecalc {
namespace {

// What all kernels of a plan move of a tensor.
struct Moved {
  std::uint64_t bytes = 0;
  bool at_all = false;
};

std::vector<Moved> moved_by_tensor(const OpGraph& graph, const PlanAnalysis& plan) {
  std::vector<Moved> moved(graph.tensors.size());
  for (const KernelAnalysis& kernel : plan.kernels) {
    for (const auto* entries : {&kernel.traffic.reads, &kernel.traffic.writes}) {
      for (const KernelTraffic::Entry& entry : *entries) {
        moved[entry.tensor].bytes += entry.bytes;
        moved[entry.tensor].at_all = true;
      }
    }
  }
  return moved;
}

}  // namespace

std::vector<Kernel> PlanAnalysis::planned_kernels() const {
  if (recomputed) return recomputed->kernels;
  std::vector<Kernel> planned;
  for (const KernelAnalysis& kernel : kernels) planned.push_back(kernel.ops);
  return planned;
}

const PlanAnalysis& GraphAnalysis::plan(PlanKind kind) const {
  const auto found = std::ranges::find(plans, kind, &PlanAnalysis::kind);
  assert(found != plans.end());
  return *found;
}

std::optional<double> Analysis::predicted_speedup() const {
  if (!graph) return std::nullopt;
  const double before = graph->plan(PlanKind::kUnfused).predicted.time_us;
  const double after = graph->plan(plan).predicted.time_us;
  return after > 0 ? std::optional(before / after) : std::nullopt;
}

std::string kernel_name(const OpGraph& graph, const Kernel& kernel) {
  constexpr std::size_t kShown = 3;
  std::string name;
  for (std::size_t i = 0; i < kernel.size() && i < kShown; ++i) {
    if (i > 0) name += '+';
    name += graph.ops[kernel[i]].name;
  }
  if (kernel.size() > kShown) name += fmt::format("+{} more", kernel.size() - kShown);
  return name;
}

std::vector<SavedTensor> saved_tensors(const GraphAnalysis& analysis, const PlanAnalysis& plan) {
  const std::vector<Moved> before =
      moved_by_tensor(analysis.graph, analysis.plan(PlanKind::kUnfused));
  const std::vector<Moved> after = moved_by_tensor(analysis.graph, plan);
  std::vector<SavedTensor> saved;
  for (TensorId tensor = 0; tensor < before.size(); ++tensor) {
    const std::uint64_t was = before[tensor].bytes;
    const std::uint64_t is = after[tensor].bytes;
    if (is == was) continue;
    saved.push_back({.tensor = tensor,
                     .bytes = std::max(was, is) - std::min(was, is),
                     .moved_more = is > was,
                     .never_in_memory = !after[tensor].at_all});
  }
  std::ranges::stable_sort(saved, std::greater<>(), &SavedTensor::bytes);
  return saved;
}

}  // namespace fusecalc
