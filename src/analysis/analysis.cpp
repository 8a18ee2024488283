#include "analysis/analysis.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <functional>
#include <map>

namespace fusecalc {
namespace {

// Bytes of each tensor over all kernels of a plan.
std::map<TensorId, std::uint64_t> bytes_by_tensor(const PlanAnalysis& plan) {
  std::map<TensorId, std::uint64_t> bytes;
  for (const KernelAnalysis& kernel : plan.kernels) {
    for (const auto* entries : {&kernel.traffic.reads, &kernel.traffic.writes}) {
      for (const KernelTraffic::Entry& entry : *entries) bytes[entry.tensor] += entry.bytes;
    }
  }
  return bytes;
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
  const std::map<TensorId, std::uint64_t> after = bytes_by_tensor(plan);
  std::vector<SavedTensor> saved;
  for (const auto& [tensor, before] : bytes_by_tensor(analysis.plan(PlanKind::kUnfused))) {
    const auto kept = after.find(tensor);
    const std::uint64_t now = kept == after.end() ? 0 : kept->second;
    if (now >= before) continue;
    saved.push_back(
        {.tensor = tensor, .bytes = before - now, .never_in_memory = kept == after.end()});
  }
  std::ranges::stable_sort(saved, std::greater<>(), &SavedTensor::bytes);
  return saved;
}

}  // namespace fusecalc
