#pragma once

#include <cstdint>
#include <vector>

#include "plan/kernel.hpp"

namespace fusecalc {

// Finds paths from one kernel to another through third kernels: two kernels with such a path
// between them cannot be merged.
//
// Keeps all kernels in an order in which they can run, so that a search only visits kernels between
// its two. `kernels` must be in such an order at first. The caller reports every later change of
// the partition through merge(), add_beside() and drop_last(), and updates `owner` itself.
class PathFinder {
 public:
  PathFinder(const OpGraph& graph, const std::vector<Kernel>& kernels,
             const std::vector<KernelId>& owner);

  // Whether some third kernel must run after one of the two and before the other. Yes if a bounded
  // number of steps does not answer it; indirect paths are short in all but random graphs.
  bool has_indirect_path(KernelId a, KernelId b);

  // Kernel `from` has become part of `into`. The last call must have been a has_indirect_path() of
  // the two that said no, on the same partition.
  void merge(KernelId into, KernelId from);

  // The last kernel has just been taken out of `source`, which runs right before it (`after`) or
  // right after it. At most one such kernel exists at a time: merge it into another or drop it.
  void add_beside(KernelId source, bool after);
  void drop_last();

 private:
  // A kernel in the order: a list in which labels rise. What searches read is stored apart from
  // what only changes need, because they visit kernels all over the graph.
  struct Place {
    std::uint64_t label = 0;
    std::uint64_t seen = 0;  // by which search
  };
  struct Links {
    KernelId before = kNone;
    KernelId after = kNone;
  };

  // What one side of a search has found: all kernels between the two that must run after the first,
  // or before the second.
  struct Cone {
    std::vector<KernelId> kernels;  // the one it starts from, then what it found
    std::size_t expanded = 0;
    std::size_t steps = 0;

    bool exhausted() const { return expanded == kernels.size(); }
  };

  class OwnersOfNext;

  void start(Cone& cone, KernelId kernel, std::uint64_t mark);
  bool expand(Cone& cone, const IdLists& order, KernelId goal, std::uint64_t mark,
              std::uint64_t other_mark);
  void unlink(KernelId k);
  void insert_after(KernelId left, const std::vector<KernelId>& kernels);
  std::uint64_t room_after(KernelId left) const;
  void respace();

  const OpGraph& graph_;
  const std::vector<Kernel>& kernels_;
  const std::vector<KernelId>& owner_;
  std::vector<Place> places_;
  std::vector<Links> links_;  // parallel
  KernelId head_ = kNone;
  std::uint64_t search_ = 0;
  // Of the last search.
  KernelId first_ = kNone;
  KernelId second_ = kNone;
  Cone later_;
  Cone earlier_;
};

}  // namespace fusecalc
