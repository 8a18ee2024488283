#include "plan/paths.hpp"

#include <algorithm>
#include <array>
#include <span>

namespace fusecalc {
namespace {

// The most dependences between ops that one side of a search follows.
constexpr std::size_t kMostSteps = 32;
constexpr std::uint64_t kLastLabel = std::uint64_t{1} << 62;

}  // namespace

// The kernels of what must run right before or after the ops of one, for each such dependence.
// Those of a large graph come from memory: for some dependences at a time, rather than one by one.
class PathFinder::OwnersOfNext {
 public:
  OwnersOfNext(const IdLists& order, const Kernel& ops, const std::vector<KernelId>& owner,
               const std::vector<Place>& places)
      : order_(order), ops_(ops), owner_(owner), places_(places) {}

  // The next ones; empty at the end.
  std::span<const KernelId> some() {
    std::size_t count = 0;
    for (; op_ < ops_.size() && count < found_.size(); ++op_, taken_ = 0) {
      const std::span<const OpId> others = order_[ops_[op_]];
      for (; taken_ < others.size() && count < found_.size(); ++taken_) {
        found_[count++] = others[taken_];
      }
      if (taken_ < others.size()) break;
    }
    const std::span<KernelId> some = std::span(found_).first(count);
    for (const OpId op : some) __builtin_prefetch(owner_.data() + op);
    for (KernelId& id : some) {
      id = owner_[id];
      if (id != kNone) __builtin_prefetch(places_.data() + id);
    }
    return some;
  }

 private:
  const IdLists& order_;
  const Kernel& ops_;
  const std::vector<KernelId>& owner_;
  const std::vector<Place>& places_;
  std::size_t op_ = 0;
  std::size_t taken_ = 0;  // dependences of that op
  std::array<KernelId, kMostSteps> found_{};
};

PathFinder::PathFinder(const OpGraph& graph, const std::vector<Kernel>& kernels,
                       const std::vector<KernelId>& owner)
    : graph_(graph),
      kernels_(kernels),
      owner_(owner),
      places_(kernels.size()),
      links_(kernels.size()) {
  if (kernels.empty()) return;
  head_ = 0;
  for (KernelId k = 0; k < kernels.size(); ++k) {
    links_[k].before = k == 0 ? kNone : k - 1;
    links_[k].after = k + 1 == kernels.size() ? kNone : k + 1;
  }
  respace();
}

void PathFinder::start(Cone& cone, KernelId kernel, std::uint64_t mark) {
  cone.kernels.assign(1, kernel);
  cone.expanded = cone.steps = 0;
  places_[kernel].seen = mark;
}

// Adds the direct neighbours of the cone's next kernel. Returns whether one of them completes a
// path from one end to the other. Stops where the cone has taken all of its steps and kernels are
// left: from then on only the other cone is expanded, and finds any path that this one would.
bool PathFinder::expand(Cone& cone, const IdLists& order, KernelId goal, std::uint64_t mark,
                        std::uint64_t other_mark) {
  const std::uint64_t low = places_[first_].label;
  const std::uint64_t high = places_[second_].label;
  const KernelId k = cone.kernels[cone.expanded++];
  const bool at_start = cone.expanded == 1;
  const std::size_t known = cone.kernels.size();
  OwnersOfNext next(order, kernels_[k], owner_, places_);
  for (std::span<const KernelId> some = next.some(); !some.empty(); some = next.some()) {
    for (const KernelId reached : some) {
      if (++cone.steps > kMostSteps && !cone.exhausted()) return false;
      if (reached == kNone || reached == k) continue;
      if (reached == goal) {
        if (at_start) continue;
        return true;
      }
      Place& place = places_[reached];
      if (place.seen == mark || place.label < low || place.label > high) continue;
      if (place.seen == other_mark) return true;
      place.seen = mark;
      cone.kernels.push_back(reached);
    }
  }
  // What a search of bounded length finds must not depend on the order in which the document has
  // independent ops.
  std::sort(cone.kernels.begin() + static_cast<std::ptrdiff_t>(known), cone.kernels.end(),
            [&](KernelId a, KernelId b) { return places_[a].label < places_[b].label; });
  return false;
}

// Searches from both ends, alternating, until one side has no kernel left to expand.
bool PathFinder::has_indirect_path(KernelId a, KernelId b) {
  const bool in_order = places_[a].label < places_[b].label;
  first_ = in_order ? a : b;
  second_ = in_order ? b : a;
  search_ += 2;
  start(later_, first_, search_);
  start(earlier_, second_, search_ + 1);
  while (true) {
    if (std::min(later_.steps, earlier_.steps) > kMostSteps) return true;
    const bool forward = later_.steps <= earlier_.steps;
    const bool closed = forward ? expand(later_, graph_.after, second_, search_, search_ + 1)
                                : expand(earlier_, graph_.before, first_, search_ + 1, search_);
    if (closed) return true;
    if (later_.exhausted() || earlier_.exhausted()) return false;
  }
}

void PathFinder::merge(KernelId into, KernelId from) {
  // The merged kernel takes the place of the kernel whose side of the search was exhausted; the
  // kernels found on that side move past it.
  const bool at_second = later_.exhausted();
  std::vector<KernelId>& moved = at_second ? later_.kernels : earlier_.kernels;
  const KernelId stays = at_second ? second_ : first_;
  moved.erase(moved.begin());
  std::ranges::sort(moved, {}, [&](KernelId k) { return places_[k].label; });
  for (const KernelId k : moved) unlink(k);
  if (stays != into) {
    unlink(into);
    insert_after(stays, {into});
  }
  unlink(from);
  insert_after(at_second ? into : links_[into].before, moved);
}

void PathFinder::add_beside(KernelId source, bool after) {
  const auto added = static_cast<KernelId>(places_.size());
  places_.emplace_back();
  links_.emplace_back();
  insert_after(after ? source : links_[source].before, {added});
}

void PathFinder::drop_last() {
  const auto last = static_cast<KernelId>(places_.size() - 1);
  if (places_[last].label != 0) unlink(last);
  places_.pop_back();
  links_.pop_back();
}

void PathFinder::unlink(KernelId k) {
  const Links links = links_[k];
  if (links.before == kNone) {
    head_ = links.after;
  } else {
    links_[links.before].after = links.after;
  }
  if (links.after != kNone) links_[links.after].before = links.before;
  links_[k] = {};
  places_[k] = {};
}

std::uint64_t PathFinder::room_after(KernelId left) const {
  const KernelId right = left == kNone ? head_ : links_[left].after;
  return (right == kNone ? kLastLabel : places_[right].label) -
         (left == kNone ? 0 : places_[left].label);
}

// Inserts kernels that have no place in the order after `left`, or at the front if that is kNone.
void PathFinder::insert_after(KernelId left, const std::vector<KernelId>& kernels) {
  if (room_after(left) <= kernels.size()) respace();
  const std::uint64_t step = room_after(left) / (kernels.size() + 1);
  for (const KernelId k : kernels) {
    const KernelId right = left == kNone ? head_ : links_[left].after;
    links_[k] = {.before = left, .after = right};
    places_[k].label = (left == kNone ? 0 : places_[left].label) + step;
    (left == kNone ? head_ : links_[left].after) = k;
    if (right != kNone) links_[right].before = k;
    left = k;
  }
}

// Assigns new labels, evenly spaced.
void PathFinder::respace() {
  const std::uint64_t step = kLastLabel / (places_.size() + 1);
  std::uint64_t label = 0;
  for (KernelId k = head_; k != kNone; k = links_[k].after) places_[k].label = label += step;
}

}  // namespace fusecalc
