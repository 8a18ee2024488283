// Plans whose groups share ops: which of them computes what, and the copies that this takes.

#include "planner/sharing.hpp"

#include <algorithm>
#include <iterator>
#include <memory>
#include <numeric>
#include <set>
#include <utility>

#include "graph/recompute.hpp"

namespace fusecalc {

Sharing::Sharing(const OpGraph& graph, const std::vector<Kernel>& groups,
                 const std::vector<KernelId>& homes)
    : graph_(graph), first_(graph.ops.size() + 1, 0), count_(graph.ops.size(), 0), storing_(homes) {
  for (const Kernel& group : groups) {
    for (const OpId op : group) ++count_[op];
  }
  std::partial_sum(count_.begin(), count_.end(), first_.begin() + 1);
  groups_.resize(first_.back());
  std::ranges::fill(count_, 0);
  for (KernelId g = 0; g < groups.size(); ++g) {
    for (const OpId op : groups[g]) groups_[first_[op] + count_[op]++] = g;
  }
  if (homes.empty()) {
    for (OpId op = 0; op < graph.ops.size(); ++op) storing_.push_back(groups_of(op).front());
  }
  // Readers come later than what they read.
  for (auto op = static_cast<OpId>(graph.ops.size()); op-- > 0;) {
    if (count_[op] > 1) settle(op);
  }
}

void Sharing::settle(OpId op) {
  const Groups groups = groups_of(op);
  std::set<KernelId> needing;
  for (const TensorId output : graph_.ops[op].outputs) {
    if (graph_.tensors[output].output) needing.insert(storing_[op]);
    for (const OpId reader : graph_.readers[output]) {
      for (const KernelId group : groups_of(reader)) {
        const bool inside = std::ranges::binary_search(groups, group);
        needing.insert(inside ? group : storing_[op]);
      }
    }
  }
  count_[op] = static_cast<std::uint32_t>(needing.size());
  std::ranges::copy(needing, groups_.begin() + first_[op]);
  if (!needing.contains(storing_[op])) storing_[op] = *needing.begin();  // nobody stores it
}

Kernel Sharing::computed_in(KernelId g, const Kernel& group) const {
  Kernel ops;
  std::ranges::copy_if(group, std::back_inserter(ops),
                       [&](OpId op) { return std::ranges::binary_search(groups_of(op), g); });
  return ops;
}

std::optional<bool> Sharing::needed_outside(KernelId g, const Outline::Result& result) const {
  const OpId producer = graph_.tensors[result.tensor].producer;
  if (storing(producer) != g) return false;  // a copy
  const Groups groups = groups_of(producer);
  const std::span<const OpId> readers = graph_.readers[result.tensor];
  const auto in_several = [&](OpId op) { return count_[op] > 1; };
  if (groups.size() == 1 && std::ranges::none_of(readers, in_several)) return std::nullopt;
  return result.always_needed || std::ranges::any_of(readers, [&](OpId reader) {
           return std::ranges::any_of(groups_of(reader), [&](KernelId group) {
             return !std::ranges::binary_search(groups, group);
           });
         });
}

FusionPlan shared_plan(const OpGraph& graph, const std::vector<Kernel>& groups,
                       const std::vector<KernelId>& homes) {
  const Sharing sharing(graph, groups, homes);
  // Of each group: its own ops, and those of other groups that it computes again.
  std::vector<Kernel> own(groups.size());
  std::vector<Copies> copied(groups.size());
  bool any = false;
  for (OpId op = 0; op < graph.ops.size(); ++op) {
    for (const KernelId g : sharing.groups_of(op)) {
      const bool is_copy = g != sharing.storing(op);
      (is_copy ? copied[g].ops : own[g]).push_back(op);
      any = any || is_copy;
    }
  }
  if (!any) return {.kernels = std::move(own)};
  std::vector<Copies> asked;
  for (KernelId g = 0; g < groups.size(); ++g) {
    if (copied[g].ops.empty()) continue;
    copied[g].readers = own[g];
    asked.push_back(copied[g]);
  }
  auto recomputation = std::make_shared<const Recomputation>(with_copies(graph, asked));
  FusionPlan plan;
  auto copies = recomputation->copies.begin();
  for (KernelId g = 0; g < groups.size(); ++g) {
    Kernel& kernel = plan.kernels.emplace_back();
    for (const OpId op : own[g]) kernel.push_back(recomputation->id_of[op]);
    if (!copied[g].ops.empty()) {
      kernel.insert(kernel.end(), copies->begin(), copies->end());
      ++copies;
    }
    std::ranges::sort(kernel);
  }
  plan.recomputation = std::move(recomputation);
  return plan;
}

}  // namespace fusecalc
