#include "plan/paths.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace fusecalc {
namespace {

// Orders between ops that one search looks at, and all searches together per op; then only what is
// next to a kernel. Ways around are short in all but random graphs.
constexpr std::size_t kMostSteps = 128;
constexpr std::size_t kMostStepsPerOp = 24;
constexpr std::size_t kFewSteps = 16;
// Leaves room beside each kernel for one that is taken out of it.
constexpr std::uint32_t kSpacing = 4;

}  // namespace

std::vector<KernelId> owners_of(const OpGraph& graph, const std::vector<Kernel>& kernels) {
  std::vector<KernelId> owner(graph.ops.size(), kNone);
  for (KernelId k = 0; k < kernels.size(); ++k) {
    for (const OpId op : kernels[k]) owner[op] = k;
  }
  return owner;
}

KernelOrder::KernelOrder(const OpGraph& graph, const std::vector<Kernel>& kernels,
                         const std::vector<KernelId>& owner)
    : graph_(graph),
      kernels_(kernels),
      owner_(owner),
      rank_(kernels.size()),
      seen_(kernels.size(), 0) {
  std::vector<Kernel> sorted = kernels;
  [[maybe_unused]] const bool runs = sort_kernels(graph, sorted);
  assert(runs);
  for (std::uint32_t rank = 0; rank < sorted.size(); ++rank) {
    rank_[owner[sorted[rank].front()]] = kSpacing * (rank + 1);
  }
}

bool KernelOrder::way_around(KernelId a, KernelId b) {
  if (rank_[a] > rank_[b]) std::swap(a, b);
  return !gather(a, b, &Op::after, followers_) || !gather(b, a, &Op::before, leaders_);
}

// Finds the kernels between the two that the ops of `start` lead to. Returns false where they lead
// to `end`, or where there are too many.
bool KernelOrder::gather(KernelId start, KernelId end, std::vector<OpId> Op::*direction,
                         std::vector<KernelId>& found) {
  const auto [low, high] = std::minmax(rank_[start], rank_[end]);
  ++search_;
  found.clear();
  const bool spent = steps_taken_ > kMostStepsPerOp * graph_.ops.size();
  const std::size_t most = spent ? kFewSteps : kMostSteps;
  std::size_t steps = 0;
  KernelId current = start;
  for (std::size_t next = 0;; current = found[next++]) {
    for (const OpId op : kernels_[current]) {
      for (const OpId neighbour : graph_.ops[op].*direction) {
        ++steps_taken_;
        if (++steps > most) return false;
        const KernelId k = owner_[neighbour];
        if (k == kNone || k == current) continue;
        if (k == end && current != start) return false;
        if (rank_[k] <= low || rank_[k] >= high || seen_[k] == search_) continue;
        seen_[k] = search_;
        found.push_back(k);
      }
    }
    if (next == found.size()) return true;
  }
}

void KernelOrder::merged(KernelId into) {
  // In the places of all that is involved, but for the kernel that is gone: leaders, then the
  // merged kernel, then followers.
  const auto by_rank = [&](KernelId k) { return rank_[k]; };
  std::ranges::sort(leaders_, {}, by_rank);
  std::ranges::sort(followers_, {}, by_rank);
  std::vector<std::uint32_t> places = {rank_[into]};
  for (const KernelId k : leaders_) places.push_back(rank_[k]);
  for (const KernelId k : followers_) places.push_back(rank_[k]);
  std::ranges::sort(places);
  std::size_t place = 0;
  for (const KernelId k : leaders_) rank_[k] = places[place++];
  rank_[into] = places[place++];
  for (const KernelId k : followers_) rank_[k] = places[place++];
}

void KernelOrder::split(KernelId source, bool after) {
  rank_.push_back(after ? rank_[source] + 1 : rank_[source] - 1);
  seen_.push_back(0);
}

void KernelOrder::drop_split() {
  rank_.pop_back();
  seen_.pop_back();
}

}  // namespace fusecalc
