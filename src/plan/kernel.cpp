#include "plan/kernel.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <queue>
#include <unordered_map>
#include <utility>

namespace fusecalc {
namespace {

// The kernel of each op of some kernels. These may be few of a large graph's: then nothing here
// takes more time the larger the graph is.
class Owners {
 public:
  Owners(const OpGraph& graph, const std::vector<Kernel>& kernels) {
    std::size_t ops = 0;
    for (const Kernel& kernel : kernels) ops += kernel.size();
    constexpr std::size_t kFew = 16;
    if (ops * kFew >= graph.ops.size()) {
      all_ = owners_of(graph, kernels);
      return;
    }
    few_.reserve(ops);
    for (KernelId k = 0; k < kernels.size(); ++k) {
      for (const OpId op : kernels[k]) few_.emplace(op, k);
    }
  }

  KernelId operator[](OpId op) const {
    if (!all_.empty()) return all_[op];
    const auto found = few_.find(op);
    return found == few_.end() ? kNone : found->second;
  }

 private:
  std::vector<KernelId> all_;
  std::unordered_map<OpId, KernelId> few_;
};

// Puts the kernels that must run before or after one into `found`, each once.
void find_neighbours(const IdLists& order, const Owners& owner, const Kernel& kernel,
                     std::vector<KernelId>& found) {
  found.clear();
  if (kernel.empty()) return;
  const KernelId own = owner[kernel.front()];
  for (const OpId op : kernel) {
    for (const OpId other : order[op]) {
      const KernelId of_other = owner[other];
      if (of_other != kNone && of_other != own) found.push_back(of_other);
    }
  }
  std::ranges::sort(found);
  found.erase(std::unique(found.begin(), found.end()), found.end());
}

// Whether they can run in the order given.
bool in_order(const IdLists& before, const Owners& owner, const std::vector<Kernel>& kernels) {
  for (KernelId k = 0; k < kernels.size(); ++k) {
    for (const OpId op : kernels[k]) {
      for (const OpId earlier : before[op]) {
        const KernelId of_earlier = owner[earlier];
        if (of_earlier != kNone && of_earlier > k) return false;
      }
    }
  }
  return true;
}

// Puts the kernels into an order in which each comes after those that it waits for, the first of
// them early. Where there is none, returns false; `waits_for` then tells how many each one waits
// for.
bool arrange(const IdLists& before, const IdLists& after, const Owners& owner,
             std::vector<Kernel>& kernels, std::vector<std::size_t>& waits_for) {
  waits_for.resize(kernels.size());
  std::vector<KernelId> neighbours;
  std::priority_queue<KernelId, std::vector<KernelId>, std::greater<>> ready;
  for (KernelId k = 0; k < kernels.size(); ++k) {
    find_neighbours(before, owner, kernels[k], neighbours);
    waits_for[k] = neighbours.size();
    if (waits_for[k] == 0) ready.push(k);
  }
  std::vector<KernelId> order;
  order.reserve(kernels.size());
  while (!ready.empty()) {
    const KernelId k = ready.top();
    ready.pop();
    order.push_back(k);
    find_neighbours(after, owner, kernels[k], neighbours);
    for (const KernelId later : neighbours) {
      if (--waits_for[later] == 0) ready.push(later);
    }
  }
  if (order.size() != kernels.size()) return false;
  std::vector<Kernel> sorted;
  sorted.reserve(kernels.size());
  for (const KernelId k : order) sorted.push_back(std::move(kernels[k]));
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
  const Owners owner(graph, kernels);
  if (in_order(graph.before, owner, kernels)) return true;
  std::vector<std::size_t> waits_for;
  if (arrange(graph.before, graph.after, owner, kernels, waits_for)) return true;
  // Walking back among those that still wait must find a cycle.
  auto k = static_cast<std::uint32_t>(
      std::ranges::find_if(waits_for, [](std::size_t n) { return n > 0; }) - waits_for.begin());
  std::vector<std::uint32_t> path;
  std::vector<KernelId> earlier;
  while (std::ranges::find(path, k) == path.end()) {
    path.push_back(k);
    find_neighbours(graph.before, owner, kernels[k], earlier);
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
  if (kernels.size() < 2) return true;
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
  const Owners owner(graph, kernels);
  std::vector<std::size_t> waits_for;
  const bool possible =
      in_order(before, owner, kernels) || arrange(before, after, owner, kernels, waits_for);
  if (!early) std::ranges::reverse(kernels);
  return possible;
}

}  // namespace fusecalc
