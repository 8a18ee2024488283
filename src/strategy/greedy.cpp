#include <algorithm>
#include <queue>
#include <tuple>

#include "plan/paths.hpp"
#include "strategy/search.hpp"

namespace fusecalc {
namespace {

// Readers of one tensor that are considered next to each other.
constexpr std::size_t kSiblingReach = 1;

// Two kernels that might be one. The larger saving goes first, then the earlier ops.
struct Candidate {
  std::uint64_t saving = 0;
  KernelId a = 0;
  KernelId b = 0;
  std::uint32_t version_a = 0;
  std::uint32_t version_b = 0;

  bool operator<(const Candidate& other) const {
    return std::tuple(saving, other.a, other.b) < std::tuple(other.saving, a, b);
  }
};

class GreedySearch {
 public:
  GreedySearch(TrafficCounter& counter, const Rules& rules, std::vector<Kernel> kernels)
      : counter_(counter),
        rules_(rules),
        graph_(counter.graph()),
        kernels_(std::move(kernels)),
        owner_(owners_of(graph_, kernels_)) {
    for (const Kernel& kernel : kernels_) bytes_.push_back(counter_.bytes(kernel).total());
    version_.assign(kernels_.size(), 0);
  }

  std::vector<Kernel> run() {
    for (KernelId k = 0; k < kernels_.size(); ++k) offer_pairs_of(k, true);
    while (!queue_.empty()) {
      const Candidate best = queue_.top();
      queue_.pop();
      const bool current = version_[best.a] == best.version_a &&
                           version_[best.b] == best.version_b && !kernels_[best.a].empty() &&
                           !kernels_[best.b].empty();
      if (!current || paths_.way_around(best.a, best.b)) continue;
      merge(best.a, best.b);
      offer_pairs_of(best.a, false);
    }
    while (move_ops()) {
    }
    std::erase_if(kernels_, [](const Kernel& kernel) { return kernel.empty(); });
    std::ranges::sort(kernels_);
    return std::move(kernels_);
  }

 private:
  static Kernel joined(const Kernel& a, const Kernel& b) {
    Kernel both;
    both.reserve(a.size() + b.size());
    std::ranges::merge(a, b, std::back_inserter(both));
    return both;
  }

  // The kernels that share a tensor with this one: makers and readers of what it touches, and the
  // next readers of the same tensor.
  std::vector<KernelId> partners(KernelId k) const {
    std::vector<KernelId> found;
    const auto add = [&](OpId op) {
      if (op != kNone && owner_[op] != kNone && owner_[op] != k) found.push_back(owner_[op]);
    };
    const auto add_siblings = [&](const Tensor& value, OpId op) {
      const auto self = std::ranges::lower_bound(value.readers, op);
      const auto place = self - value.readers.begin();
      const auto count = static_cast<std::ptrdiff_t>(value.readers.size());
      constexpr auto kReach = static_cast<std::ptrdiff_t>(kSiblingReach);
      for (std::ptrdiff_t i = std::max<std::ptrdiff_t>(0, place - kReach);
           i < std::min(count, place + kReach + 1); ++i) {
        add(value.readers[static_cast<std::size_t>(i)]);
      }
    };
    for (const OpId id : kernels_[k]) {
      for (const Operand& operand : graph_.ops[id].operands) {
        if (operand.tensor == kNone) continue;
        const Tensor& value = graph_.value_of(operand.tensor);
        add(value.producer);
        add_siblings(value, id);
      }
      for (const TensorId output : graph_.ops[id].outputs) {
        constexpr std::size_t kMostReaders = 16;
        const std::vector<OpId>& readers = graph_.tensors[output].readers;
        for (std::size_t i = 0; i < std::min(readers.size(), kMostReaders); ++i) add(readers[i]);
      }
    }
    std::ranges::sort(found);
    const auto [first, last] = std::ranges::unique(found);
    found.erase(first, last);
    return found;
  }

  void offer_pairs_of(KernelId k, bool later_only) {
    for (const KernelId partner : partners(k)) {
      if (later_only && partner < k) continue;
      offer(std::min(k, partner), std::max(k, partner));
    }
  }

  void offer(KernelId a, KernelId b) {
    const Kernel both = joined(kernels_[a], kernels_[b]);
    if (!check_kernel(counter_.phases(), both, rules_).legal()) return;
    const std::uint64_t apart = bytes_[a] + bytes_[b];
    const std::uint64_t together = counter_.bytes(both).total();
    if (together > apart) return;
    queue_.push({.saving = apart - together,
                 .a = a,
                 .b = b,
                 .version_a = version_[a],
                 .version_b = version_[b]});
  }

  void merge(KernelId a, KernelId b) {
    kernels_[a] = joined(kernels_[a], kernels_[b]);
    kernels_[b].clear();
    for (const OpId op : kernels_[a]) owner_[op] = a;
    bytes_[a] = counter_.bytes(kernels_[a]).total();
    ++version_[a];
    ++version_[b];
  }

  // Takes single ops over to a neighbour where that saves bytes. Returns whether any moved.
  bool move_ops() {
    bool moved = false;
    for (OpId op = 0; op < graph_.ops.size(); ++op) {
      if (owner_[op] == kNone || kernels_[owner_[op]].size() < 2) continue;
      for (const KernelId target : neighbours(op)) moved = move(op, target) || moved;
    }
    return moved;
  }

  std::vector<KernelId> neighbours(OpId op) const {
    std::vector<KernelId> found;
    for (const auto* direction : {&graph_.ops[op].before, &graph_.ops[op].after}) {
      constexpr std::size_t kMost = 4;
      for (std::size_t i = 0; i < std::min(direction->size(), kMost); ++i) {
        const KernelId k = owner_[(*direction)[i]];
        if (k != kNone && k != owner_[op]) found.push_back(k);
      }
    }
    return found;
  }

  bool move(OpId op, KernelId target) {
    const KernelId source = owner_[op];
    if (source == target || kernels_[source].size() < 2) return false;
    Kernel left = kernels_[source];
    std::erase(left, op);
    const Kernel grown = joined(kernels_[target], {op});
    if (!check_kernel(counter_.phases(), left, rules_).legal()) return false;
    if (!check_kernel(counter_.phases(), grown, rules_).legal()) return false;
    const std::uint64_t left_bytes = counter_.bytes(left).total();
    const std::uint64_t grown_bytes = counter_.bytes(grown).total();
    if (left_bytes + grown_bytes >= bytes_[source] + bytes_[target]) return false;
    // As if the op had been alone and were merged.
    const auto alone = static_cast<KernelId>(kernels_.size());
    kernels_.push_back({op});
    bytes_.push_back(0);
    version_.push_back(0);
    std::swap(kernels_[source], left);
    owner_[op] = alone;
    if (paths_.way_around(alone, target)) {
      std::swap(kernels_[source], left);
      owner_[op] = source;
      drop_last();
      return false;
    }
    merge(target, alone);
    drop_last();
    bytes_[source] = left_bytes;
    return true;
  }

  void drop_last() {
    kernels_.pop_back();
    bytes_.pop_back();
    version_.pop_back();
  }

  TrafficCounter& counter_;
  const Rules& rules_;
  const OpGraph& graph_;
  std::vector<Kernel> kernels_;  // emptied when merged into another
  std::vector<KernelId> owner_;
  std::vector<std::uint64_t> bytes_;
  std::vector<std::uint32_t> version_;
  PathFinder paths_{graph_, kernels_, owner_};
  std::priority_queue<Candidate> queue_;
};

}  // namespace

std::vector<Kernel> search_greedily(TrafficCounter& counter, const Rules& rules,
                                    std::vector<Kernel> kernels) {
  return GreedySearch(counter, rules, std::move(kernels)).run();
}

}  // namespace fusecalc
