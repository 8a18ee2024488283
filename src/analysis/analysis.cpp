#include "analysis/analysis.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <functional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

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

// The first op of the kernel that no other one of those alike holds; kNone where they hold all.
OpId own_op(const Kernel& ops, const std::unordered_map<OpId, std::size_t>& holders) {
  const auto own = std::ranges::find_if(ops, [&](OpId op) { return holders.at(op) == 1; });
  return own == ops.end() ? kNone : *own;
}

void name_apart(const OpGraph& graph, const std::vector<KernelId>& alike,
                std::vector<KernelAnalysis>& kernels) {
  std::unordered_map<OpId, std::size_t> holders;
  for (const KernelId k : alike) {
    for (const OpId op : kernels[k].ops) ++holders[op];
  }
  for (const KernelId k : alike) {
    const OpId own = own_op(kernels[k].ops, holders);
    if (own != kNone) kernels[k].name += fmt::format(" (with {})", graph.ops[own].name);
  }
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

bool Analysis::lists_nothing() const {
  const auto is_view = [](const Tensor& tensor) { return tensor.view_of != kNone; };
  return operations == 0 && !(graph && std::ranges::any_of(graph->graph.tensors, is_view));
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

void name_kernels(const OpGraph& graph, std::vector<KernelAnalysis>& kernels) {
  std::unordered_map<std::string, std::vector<KernelId>> named;
  for (KernelId k = 0; k < kernels.size(); ++k) {
    kernels[k].name = kernel_name(graph, kernels[k].ops);
    named[kernels[k].name].push_back(k);
  }
  if (named.size() == kernels.size()) return;
  for (const auto& [name, alike] : named) {
    if (alike.size() > 1) name_apart(graph, alike, kernels);
  }
  // A name of the document may read like one with its addition.
  std::unordered_set<std::string> taken;
  for (const KernelAnalysis& kernel : kernels) taken.insert(kernel.name);
  std::unordered_set<std::string> given;
  for (KernelAnalysis& kernel : kernels) {
    if (given.insert(kernel.name).second) continue;
    std::string numbered;
    for (std::size_t number = 2; numbered.empty() || !taken.insert(numbered).second; ++number) {
      numbered = fmt::format("{} #{}", kernel.name, number);
    }
    kernel.name = numbered;
    given.insert(std::move(numbered));
  }
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
