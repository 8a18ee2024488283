#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "graph/op_graph.hpp"
#include "plan/kernel.hpp"

namespace fusecalc {

using Groups = std::span<const KernelId>;  // in ascending order

// In which of its groups each op is computed: those that read its results, and its first one if
// these have to be stored; or its home, where it has one.
class Sharing {
 public:
  // `homes` is empty, or names a group of each op.
  Sharing(const OpGraph& graph, const std::vector<Kernel>& groups,
          const std::vector<KernelId>& homes = {});

  // Never empty.
  Groups groups_of(OpId op) const { return {groups_.data() + first_[op], count_[op]}; }

  // The one of these that stores the results, if any does.
  KernelId storing(OpId op) const { return storing_[op]; }

  // The ops of a group that are computed in it.
  Kernel computed_in(KernelId g, const Kernel& group) const;

  // Whether a result of an op that is computed in group `g` is needed outside of it; nothing where
  // that follows from the graph.
  std::optional<bool> needed_outside(KernelId g, const Outline::Result& result) const;

 private:
  void settle(OpId op);

  const OpGraph& graph_;
  std::vector<KernelId> groups_;      // of one op after the other
  std::vector<std::uint32_t> first_;  // of each op, and the end: where its groups were at first
  std::vector<std::uint32_t> count_;  // of each op
  std::vector<KernelId> storing_;     // of each op
};

// The plan of groups of ops, in their order, some of which share ops that may be recomputed. What
// others need of an op is stored by the first of its groups, or by its home; the groups that read
// it themselves compute it again. A group that does neither loses the op, and may be left without
// any.
FusionPlan shared_plan(const OpGraph& graph, const std::vector<Kernel>& groups,
                       const std::vector<KernelId>& homes = {});

}  // namespace fusecalc
