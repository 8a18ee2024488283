#include "plan/paths.hpp"

#include <algorithm>
#include <utility>

namespace fusecalc {
namespace {

// Orders between ops that one search looks at.
constexpr std::size_t kMostSteps = 128;
// Leaves room beside each kernel for the one that is being taken out of it.
constexpr std::uint64_t kSpacing = 4;

}  // namespace

std::vector<KernelId> owners_of(const OpGraph& graph, const std::vector<Kernel>& kernels) {
  std::vector<KernelId> owner(graph.ops.size(), kNone);
  for (KernelId k = 0; k < kernels.size(); ++k) {
    for (const OpId op : kernels[k]) owner[op] = k;
  }
  return owner;
}

bool PathFinder::collect(KernelId start, KernelId goal, const IdLists& order,
                         std::vector<KernelId>& found) {
  seen_.resize(kernels_.size(), 0);
  ++search_;
  found.clear();
  const auto [low, high] = std::minmax(place_[start], place_[goal]);
  std::size_t steps = 0;
  KernelId k = start;
  for (std::size_t next = 0;; ++next) {
    for (const OpId op : kernels_[k]) {
      for (const OpId other : order[op]) {
        if (++steps > kMostSteps) return false;
        const KernelId reached = owner_[other];
        if (reached == goal && k != start) return false;
        if (reached == kNone || reached == goal || reached == start) continue;
        if (seen_[reached] == search_ || place_[reached] < low || place_[reached] > high) continue;
        seen_[reached] = search_;
        found.push_back(reached);
      }
    }
    if (next == found.size()) return true;
    k = found[next];
  }
}

void PathFinder::place_first(std::size_t count) {
  while (place_.size() < count) place_.push_back(kSpacing * (place_.size() + 1));
}

bool PathFinder::way_around(KernelId a, KernelId b) {
  place_first(kernels_.size());
  if (place_[a] > place_[b]) std::swap(a, b);
  return !collect(a, b, graph_.after, later_);
}

// Whether the two as one can simply take the second one's place: nothing must run between them and
// after the first, and the place is a lasting one.
bool PathFinder::stays_second(KernelId first, KernelId second) const {
  return later_.empty() && std::max(place_[first], place_[second]) % kSpacing == 0;
}

bool PathFinder::can_merge(KernelId a, KernelId b) {
  if (way_around(a, b)) return false;
  if (place_[a] > place_[b]) std::swap(a, b);
  return stays_second(a, b) || collect(b, a, graph_.before, earlier_);
}

void PathFinder::merge(KernelId into, KernelId from) {
  if (stays_second(into, from)) {
    place_[into] = std::max(place_[into], place_[from]);
    return;
  }
  // The same places, given out anew: to what must run before, to the merged kernel, to the rest.
  std::vector<KernelId> order = earlier_;
  order.push_back(into);
  order.insert(order.end(), later_.begin(), later_.end());
  std::vector<std::uint64_t> places;
  for (const KernelId k : order) places.push_back(place_[k]);
  std::ranges::sort(places);
  const auto by_place = [&](KernelId a, KernelId b) { return place_[a] < place_[b]; };
  const auto merged = order.begin() + static_cast<std::ptrdiff_t>(earlier_.size());
  std::sort(order.begin(), merged, by_place);
  std::sort(merged + 1, order.end(), by_place);
  for (std::size_t i = 0; i < order.size(); ++i) place_[order[i]] = places[i];
}

void PathFinder::add_beside(KernelId source, bool after) {
  place_first(kernels_.size() - 1);
  const std::uint64_t place = place_[source];
  place_.push_back(after ? place + 1 : place - 1);
}

}  // namespace fusecalc
