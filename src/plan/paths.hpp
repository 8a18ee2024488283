#pragma once

#include <cstdint>
#include <vector>

#include "plan/kernel.hpp"

namespace fusecalc {

using KernelId = std::uint32_t;

// The kernel of every op; kNone for ops in none.
std::vector<KernelId> owners_of(const OpGraph& graph, const std::vector<Kernel>& kernels);

// Finds ways from one kernel to another through third ones: kernels that have such a way between
// them cannot be one.
//
// Keeps every kernel's place in an order in which they can run, so that a search never leaves the
// stretch between its two kernels. `kernels` must stand in such an order at first; whoever changes
// the partition afterwards says so, and keeps `owner` in step.
class PathFinder {
 public:
  PathFinder(const OpGraph& graph, const std::vector<Kernel>& kernels,
             const std::vector<KernelId>& owner)
      : graph_(graph), kernels_(kernels), owner_(owner) {}

  // Whether some third kernel must run after one of the two and before the other. Where the answer
  // is not found within a bounded number of steps it is yes; ways around are short in all but
  // random graphs.
  bool way_around(KernelId a, KernelId b);

  // Whether the two can be made one: there is no way around, and the order is soon mended.
  bool can_merge(KernelId a, KernelId b);
  // Kernel `from` has become part of `into`. Follows a can_merge() of the two that said yes, with
  // the partition as it was then.
  void merge(KernelId into, KernelId from);

  // The last kernel has just been taken out of `source`, which runs right before it (`after`) or
  // right after it. At most one such kernel exists at a time: merge it into another or drop it.
  void add_beside(KernelId source, bool after);
  void drop_last() { place_.pop_back(); }

 private:
  void place_first(std::size_t count);
  bool stays_second(KernelId first, KernelId second) const;
  // Adds to `found` all third kernels between the two that must run after (before) `start`.
  // Returns false where one of them leads to `goal`, or there are too many.
  bool collect(KernelId start, KernelId goal, const IdLists& order,
               std::vector<KernelId>& found);

  const OpGraph& graph_;
  const std::vector<Kernel>& kernels_;
  const std::vector<KernelId>& owner_;
  std::vector<std::uint64_t> place_;  // per kernel; distinct
  std::vector<std::uint32_t> seen_;
  std::uint32_t search_ = 0;
  std::vector<KernelId> later_;    // those that must run after the first of the two
  std::vector<KernelId> earlier_;  // those that must run before the second
};

}  // namespace fusecalc
