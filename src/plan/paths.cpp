#include "plan/paths.hpp"

#include <algorithm>

namespace fusecalc {
namespace {

constexpr std::size_t kMostSteps = 2000;

}  // namespace

std::vector<KernelId> owners_of(const OpGraph& graph, const std::vector<Kernel>& kernels) {
  std::vector<KernelId> owner(graph.ops.size(), kNone);
  for (KernelId k = 0; k < kernels.size(); ++k) {
    for (const OpId op : kernels[k]) owner[op] = k;
  }
  return owner;
}

bool PathFinder::way_around(KernelId a, KernelId b) {
  seen_.resize(kernels_.size(), 0);
  ++search_;
  last_ = std::max(kernels_[a].back(), kernels_[b].back());
  open_.clear();
  enter_after(a, a, b);
  enter_after(b, a, b);
  for (std::size_t steps = 0; !open_.empty(); ++steps) {
    const KernelId k = open_.back();
    open_.pop_back();
    if (steps == kMostSteps || enter_after(k, a, b)) return true;
  }
  return false;
}

// Opens the kernels that run after k. Returns whether k is a third one that leads back to the two.
bool PathFinder::enter_after(KernelId k, KernelId a, KernelId b) {
  for (const OpId op : kernels_[k]) {
    for (const OpId later : graph_.ops[op].after) {
      const KernelId next = owner_[later];
      if (next == a || next == b) {
        if (k != a && k != b) return true;
        continue;
      }
      if (next == kNone) continue;
      // Only a kernel with an op before the last of the two can lead back to them.
      if (seen_[next] == search_ || kernels_[next].front() > last_) continue;
      seen_[next] = search_;
      open_.push_back(next);
    }
  }
  return false;
}

}  // namespace fusecalc
