#pragma once

#include <cstdint>
#include <vector>

#include "plan/kernel.hpp"

namespace fusecalc {

using KernelId = std::uint32_t;

// The kernel of every op; kNone for ops in none.
std::vector<KernelId> owners_of(const OpGraph& graph, const std::vector<Kernel>& kernels);

// Keeps the kernels of a partition in an order in which they can run while pairs of them are
// merged. Two kernels can be one unless a third must run after the one and before the other. The
// order makes that cheap to see: only kernels that stand between the two need to be looked at
// (after Pearce and Kelly, A dynamic topological sort algorithm for directed acyclic graphs).
class KernelOrder {
 public:
  // The partition may change between calls, but only as merged() and split() are told. It has no
  // circle.
  KernelOrder(const OpGraph& graph, const std::vector<Kernel>& kernels,
              const std::vector<KernelId>& owner);

  // Whether some third kernel must run after one of the two and before the other. Where the answer
  // is not found within a bounded number of steps it is yes.
  bool way_around(KernelId a, KernelId b);

  // To be called after way_around() said no and all ops of one of the two went `into` the other.
  void merged(KernelId into);

  // A last kernel was added, of ops taken out of `source`, which must run right before it (`after`)
  // or right after it. It is merged into another or dropped before the next one comes.
  void split(KernelId source, bool after);
  void drop_split();

 private:
  bool gather(KernelId start, KernelId end, std::vector<OpId> Op::*direction,
              std::vector<KernelId>& found);

  const OpGraph& graph_;
  const std::vector<Kernel>& kernels_;
  const std::vector<KernelId>& owner_;
  std::vector<std::uint32_t> rank_;  // distinct; a kernel runs before all of higher rank
  std::vector<std::uint32_t> seen_;
  std::uint32_t search_ = 0;
  std::size_t steps_taken_ = 0;
  // Of the last way_around: what stands between and must follow the first, or precede the second.
  std::vector<KernelId> followers_;
  std::vector<KernelId> leaders_;
};

}  // namespace fusecalc
