#include "plan/kernel.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <queue>
#include <utility>

namespace fusecalc {
namespace {

// The kernels that must run before or after one, each once.
std::vector<std::uint32_t> neighbours(const IdLists& order, const std::vector<std::uint32_t>& owner,
                                      const Kernel& kernel) {
  std::vector<std::uint32_t> found;
  for (const OpId op : kernel) {
    for (const OpId other : order[op]) {
      if (owner[other] != kNone && owner[other] != owner[op]) found.push_back(owner[other]);
    }
  }
  std::ranges::sort(found);
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

// Whether they can run in the order given.
bool in_order(const IdLists& before, const std::vector<KernelId>& owner) {
  for (OpId op = 0; op < owner.size(); ++op) {
    if (owner[op] == kNone) continue;
    for (const OpId earlier : before[op]) {
      if (owner[earlier] != kNone && owner[earlier] > owner[op]) return false;
    }
  }
  return true;
}

// Puts the kernels into an order in which each comes after those that it waits for, the first of
// them early. Where there is none, returns false; `waits_for` then tells how many each one waits
// for.
bool arrange(const IdLists& before, const IdLists& after, const std::vector<KernelId>& owner,
             std::vector<Kernel>& kernels, std::vector<std::size_t>& waits_for) {
  waits_for.resize(kernels.size());
  std::priority_queue<KernelId, std::vector<KernelId>, std::greater<>> ready;
  for (KernelId k = 0; k < kernels.size(); ++k) {
    waits_for[k] = neighbours(before, owner, kernels[k]).size();
    if (waits_for[k] == 0) ready.push(k);
  }
  std::vector<Kernel> sorted;
  sorted.reserve(kernels.size());
  while (!ready.empty()) {
    const KernelId k = ready.top();
    ready.pop();
    sorted.push_back(kernels[k]);
    for (const KernelId later : neighbours(after, owner, kernels[k])) {
      if (--waits_for[later] == 0) ready.push(later);
    }
  }
  if (sorted.size() != kernels.size()) return false;
  kernels = std::move(sorted);
  return true;
}

}  // namespace

std::vector<KernelId> owners_of(const OpGraph& graph, const std::vector<Kernel>& kernels) {
  std::vector<KernelId> owner(graph.ops.size(), kNone);
  for (KernelId k = 0; k < kernels.size(); ++k) {
    for (const OpId op : kernels[k]) owner[op] = k;
  }
  return owner;
}

FusionPlan unfused_plan(const OpGraph& graph) {
  FusionPlan plan;
  for (OpId op = 0; op < graph.ops.size(); ++op) plan.kernels.push_back({op});
  return plan;
}

bool sort_kernels(const OpGraph& graph, std::vector<Kernel>& kernels) {
  std::ranges::sort(kernels);
  const std::vector<std::uint32_t> owner = owners_of(graph, kernels);
  if (in_order(graph.before, owner)) return true;
  std::vector<std::size_t> waits_for;
  if (arrange(graph.before, graph.after, owner, kernels, waits_for)) return true;
  // Walking back among those that still wait must find a cycle.
  auto k = static_cast<std::uint32_t>(
      std::ranges::find_if(waits_for, [](std::size_t n) { return n > 0; }) - waits_for.begin());
  std::vector<std::uint32_t> path;
  while (std::ranges::find(path, k) == path.end()) {
    path.push_back(k);
    const std::vector<std::uint32_t> earlier = neighbours(graph.before, owner, kernels[k]);
    k = *std::ranges::find_if(earlier, [&](std::uint32_t other) { return waits_for[other] > 0; });
  }
  path.erase(path.begin(), std::ranges::find(path, k));
  std::ranges::reverse(path);
  std::rotate(path.begin(), std::ranges::min_element(path), path.end());
  std::vector<Kernel> cycle;
  for (const std::uint32_t member : path) cycle.push_back(kernels[member]);
  kernels = std::move(cycle);
  return false;
}

bool sort_canonically(const OpGraph& graph, std::vector<Kernel>& kernels, RunOrder order) {
  const bool early = order == RunOrder::kEarly;
  std::vector<std::pair<std::uint32_t, std::size_t>> ranked;
  ranked.reserve(kernels.size());
  for (const Kernel& kernel : kernels) {
    std::uint32_t rank = kNone;
    for (const OpId op : kernel) rank = std::min(rank, early ? graph.rank[op] : ~graph.rank[op]);
    ranked.emplace_back(rank, ranked.size());
  }
  std::ranges::sort(ranked);
  std::vector<Kernel> sorted;
  sorted.reserve(kernels.size());
  for (const auto& [rank, k] : ranked) sorted.push_back(std::move(kernels[k]));
  kernels = std::move(sorted);
  // The late order is an early one backwards.
  const IdLists& before = early ? graph.before : graph.after;
  const IdLists& after = early ? graph.after : graph.before;
  const std::vector<KernelId> owner = owners_of(graph, kernels);
  std::vector<std::size_t> waits_for;
  const bool possible =
      in_order(before, owner) || arrange(before, after, owner, kernels, waits_for);
  if (!early) std::ranges::reverse(kernels);
  return possible;
}

}  // namespace fusecalc
