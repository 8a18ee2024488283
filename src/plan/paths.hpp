#pragma once

#include <cstdint>
#include <vector>

#include "plan/kernel.hpp"

namespace fusecalc {

using KernelId = std::uint32_t;

// The kernel of every op; kNone for ops in none.
std::vector<KernelId> owners_of(const OpGraph& graph, const std::vector<Kernel>& kernels);

// Finds ways from one kernel to another through third ones: kernels that have such a way between
// them cannot be one. Looks at the partition as it is at each call.
class PathFinder {
 public:
  PathFinder(const OpGraph& graph, const std::vector<Kernel>& kernels,
             const std::vector<KernelId>& owner)
      : graph_(graph), kernels_(kernels), owner_(owner) {}

  // Whether some third kernel must run after one of the two and before the other. Where the answer
  // is not found within a bounded number of steps it is yes; ways around are short in all but
  // random graphs.
  bool way_around(KernelId a, KernelId b);

 private:
  bool enter_after(KernelId k, KernelId a, KernelId b);

  const OpGraph& graph_;
  const std::vector<Kernel>& kernels_;
  const std::vector<KernelId>& owner_;
  std::vector<std::uint32_t> seen_;
  std::uint32_t search_ = 0;
  OpId last_ = 0;
  std::vector<KernelId> open_;
};

}  // namespace fusecalc
