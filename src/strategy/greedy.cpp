#include <algorithm>
#include <optional>
#include <queue>
#include <tuple>
#include <utility>

#include "plan/paths.hpp"
#include "strategy/search.hpp"

namespace fusecalc {
namespace {

// Readers of a tensor that are considered with each other.
constexpr std::size_t kSiblingReach = 3;
// Kernels that are cut to find a better place for their parts, and the work that goes into that:
// ops looked at, per op of the graph and together.
constexpr std::size_t kMostCutOps = 24;
constexpr std::size_t kMostCutWorkPerOp = 500;
constexpr std::size_t kMostCutWork = 1'000'000;

// Two ops whose kernels share a tensor and might be one. The larger saving goes first, then the
// earlier ops.
struct Candidate {
  std::uint64_t saving = 0;
  OpId a = kNone;
  OpId b = kNone;
  // Of both kernels when the saving was worked out; it holds as long as they are the same.
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
        owner_(owners_of(graph_, kernels_)),
        version_(kernels_.size(), 0) {
    for (const Kernel& kernel : kernels_) bytes_.push_back(counter_.bytes(kernel).total());
  }

  std::vector<Kernel> run() {
    offer_all();
    const bool merged = merge_best_first();
    // A pair that could not be merged at its turn may be mergeable once others were: look again,
    // unless the graph is so tangled that this would take long.
    constexpr std::size_t kMostWorkPerOp = 30;
    if (merged && work_ < kMostWorkPerOp * graph_.ops.size()) {
      offer_all();
      merge_best_first();
    }
    improve();
    std::erase_if(kernels_, [](const Kernel& kernel) { return kernel.empty(); });
    std::ranges::sort(kernels_);
    return std::move(kernels_);
  }

 private:
  // Offers every pair of kernels that share a tensor: its maker with each reader, and each reader
  // with the next ones.
  void offer_all() {
    for (const Tensor& value : graph_.tensors) {
      for (std::size_t i = 0; i < value.readers.size(); ++i) {
        offer(value.producer, value.readers[i]);
        offer_siblings(value, i, i + 1);
      }
    }
  }

  void offer_siblings(const Tensor& value, std::size_t i, std::size_t first) {
    const std::size_t last = std::min(i + kSiblingReach + 1, value.readers.size());
    for (std::size_t j = first; j < last; ++j) {
      if (j != i) offer(value.readers[i], value.readers[j]);
    }
  }

  void offer(OpId a, OpId b) {
    if (a == kNone || b == kNone || owner_[a] == kNone || owner_[b] == kNone) return;
    if (owner_[a] == owner_[b]) return;
    const std::optional<std::uint64_t> saving = saving_of(owner_[a], owner_[b]);
    if (saving) queue_.push(candidate(*saving, a, b));
  }

  Candidate candidate(std::uint64_t saving, OpId a, OpId b) const {
    return {.saving = saving,
            .a = a,
            .b = b,
            .version_a = version_[owner_[a]],
            .version_b = version_[owner_[b]]};
  }

  // Returns whether anything was merged.
  bool merge_best_first() {
    bool merged = false;
    while (!queue_.empty()) {
      const Candidate best = queue_.top();
      queue_.pop();
      const KernelId a = std::min(owner_[best.a], owner_[best.b]);
      const KernelId b = std::max(owner_[best.a], owner_[best.b]);
      if (a == b) continue;
      const bool current =
          version_[owner_[best.a]] == best.version_a && version_[owner_[best.b]] == best.version_b;
      if (!current) {
        // One of the two has grown since: what they save now may be less than others do.
        const std::optional<std::uint64_t> saving = saving_of(a, b);
        if (!saving) continue;
        if (!queue_.empty() && *saving < queue_.top().saving) {
          queue_.push(candidate(*saving, best.a, best.b));
          continue;
        }
      }
      if (!paths_.can_merge(a, b)) continue;
      merge(a, b);
      merged = true;
    }
    return merged;
  }

  // Bytes that two kernels save as one; nothing where they cannot be, or would move more.
  std::optional<std::uint64_t> saving_of(KernelId a, KernelId b) {
    if (kernels_[a].size() + kernels_[b].size() > kMostOps) return std::nullopt;
    join(kernels_[a], kernels_[b]);
    work_ += both_.size();
    const std::uint64_t apart = bytes_[a] + bytes_[b];
    const std::optional<std::uint64_t> together = bytes_if_legal(both_);
    if (!together || *together > apart) return std::nullopt;
    return apart - *together;
  }

  std::optional<std::uint64_t> bytes_if_legal(const Kernel& kernel) {
    if (!check_kernel(counter_.phases(), kernel, rules_).legal()) return std::nullopt;
    return counter_.bytes(kernel).total();
  }

  void join(const Kernel& a, const Kernel& b) {
    both_.clear();
    std::ranges::merge(a, b, std::back_inserter(both_));
  }

  void merge(KernelId a, KernelId b) {
    join(kernels_[a], kernels_[b]);
    for (const OpId op : kernels_[b]) owner_[op] = a;
    kernels_[a] = both_;
    kernels_[b].clear();
    bytes_[a] = counter_.bytes(kernels_[a]).total();
    ++version_[a];
    paths_.merge(a, b);
  }

  // Moves parts of kernels over to their neighbours while that saves bytes: merging alone never
  // takes back what it did.
  void improve() {
    const std::size_t most = std::min(kMostCutWork, kMostCutWorkPerOp * graph_.ops.size());
    std::vector<bool> waiting(kernels_.size(), true);
    std::queue<KernelId> open;
    for (KernelId k = 0; k < kernels_.size(); ++k) open.push(k);
    while (!open.empty() && cut_work_ < most) {
      const KernelId k = open.front();
      open.pop();
      waiting[k] = false;
      if (kernels_[k].size() < 2 || kernels_[k].size() > kMostCutOps) continue;
      for (const KernelId target : neighbours(k)) {
        if (!cut(k, target)) continue;
        for (const KernelId changed : {k, target}) offer_all_of(changed);
        merge_best_first();
        for (const KernelId changed : {k, target}) {
          if (!waiting[changed] && !kernels_[changed].empty()) open.push(changed);
          waiting[changed] = true;
        }
        break;
      }
    }
  }

  void offer_all_of(KernelId k) {
    for (const OpId id : kernels_[k]) {
      for_each_neighbour(id, [&](OpId other) { offer(id, other); });
    }
  }

  // The makers and some readers of what an op touches.
  template <typename Visit>
  void for_each_neighbour(OpId id, Visit visit) const {
    constexpr std::size_t kMostReaders = 16;
    for (const Operand& operand : graph_.ops[id].operands) {
      if (operand.tensor == kNone) continue;
      const Tensor& value = graph_.value_of(operand.tensor);
      if (value.producer != kNone) visit(value.producer);
      const auto self = std::ranges::lower_bound(value.readers, id);
      const auto place = static_cast<std::size_t>(self - value.readers.begin());
      const std::size_t first = place - std::min(place, kSiblingReach);
      const std::size_t last = std::min(place + kSiblingReach + 1, value.readers.size());
      for (std::size_t i = first; i < last; ++i) visit(value.readers[i]);
    }
    for (const TensorId output : graph_.ops[id].outputs) {
      const std::vector<OpId>& readers = graph_.tensors[output].readers;
      for (std::size_t i = 0; i < std::min(readers.size(), kMostReaders); ++i) visit(readers[i]);
    }
  }

  std::vector<KernelId> neighbours(KernelId k) const {
    std::vector<KernelId> found;
    for (const OpId id : kernels_[k]) {
      for_each_neighbour(id, [&](OpId other) {
        if (owner_[other] != kNone && owner_[other] != k) found.push_back(owner_[other]);
      });
    }
    std::ranges::sort(found);
    const auto [first, last] = std::ranges::unique(found);
    found.erase(first, last);
    return found;
  }

  // What of a kernel may be cut off: all that must run after, or before, one of its ops, and what
  // that leaves. Bits are places in the kernel.
  struct Part {
    std::uint32_t mask = 0;
    bool last = false;  // runs after what it leaves
  };

  std::vector<Part> parts_of(const Kernel& kernel) const {
    const std::size_t count = kernel.size();
    std::vector<std::uint32_t> needs(count, 0);
    std::vector<std::uint32_t> needed_by(count, 0);
    for (std::size_t i = 0; i < count; ++i) {
      needs[i] = std::uint32_t{1} << i;
      for (std::size_t j = 0; j < i; ++j) {
        const std::vector<OpId>& before = graph_.ops[kernel[i]].before;
        if (std::ranges::binary_search(before, kernel[j])) needs[i] |= needs[j];
      }
      for (std::size_t j = 0; j <= i; ++j) {
        if ((needs[i] >> j & 1U) != 0) needed_by[j] |= std::uint32_t{1} << i;
      }
    }
    const std::uint32_t all = (std::uint32_t{1} << count) - 1;
    std::vector<Part> parts;
    for (std::size_t i = 0; i < count; ++i) {
      parts.push_back({needed_by[i], true});
      parts.push_back({all & ~needed_by[i], false});
      parts.push_back({needs[i], false});
      parts.push_back({all & ~needs[i], true});
    }
    std::erase_if(parts, [&](const Part& part) { return part.mask == 0 || part.mask == all; });
    return parts;
  }

  struct Cut {
    Part part;
    Kernel moved;
    Kernel left;
    std::uint64_t left_bytes = 0;
    std::uint64_t grown_bytes = 0;

    std::uint64_t bytes() const { return left_bytes + grown_bytes; }
  };

  // Moves the part of `source` to `target` that saves most. Returns whether there was one.
  bool cut(KernelId source, KernelId target) {
    std::optional<Cut> best;
    for (const Part& part : parts_of(kernels_[source])) {
      std::optional<Cut> cut = price(source, target, part);
      if (!cut || (best && best->bytes() <= cut->bytes())) continue;
      if (move(source, target, *cut, false)) best = std::move(cut);
    }
    return best && move(source, target, *best, true);
  }

  // Nothing where the move would not be legal or save nothing.
  std::optional<Cut> price(KernelId source, KernelId target, const Part& part) {
    Cut cut{.part = part, .moved = {}, .left = {}};
    const Kernel& whole = kernels_[source];
    for (std::size_t i = 0; i < whole.size(); ++i) {
      ((part.mask >> i & 1U) != 0 ? cut.moved : cut.left).push_back(whole[i]);
    }
    if (cut.moved.size() + kernels_[target].size() > kMostOps) return std::nullopt;
    cut_work_ += whole.size() + kernels_[target].size();
    const std::uint64_t before = bytes_[source] + bytes_[target];
    join(kernels_[target], cut.moved);
    const std::optional<std::uint64_t> grown = bytes_if_legal(both_);
    if (!grown || *grown >= before) return std::nullopt;
    const std::optional<std::uint64_t> left = bytes_if_legal(cut.left);
    if (!left || *grown + *left >= before) return std::nullopt;
    cut.left_bytes = *left;
    cut.grown_bytes = *grown;
    return cut;
  }

  // Does the move, or only says whether it closes no circle: as if the part had been a kernel of
  // its own and were merged.
  bool move(KernelId source, KernelId target, const Cut& cut, bool really) {
    const auto alone = static_cast<KernelId>(kernels_.size());
    Kernel whole = std::exchange(kernels_[source], cut.left);
    kernels_.push_back(cut.moved);
    for (const OpId op : cut.moved) owner_[op] = alone;
    paths_.add_beside(source, cut.part.last);
    const bool possible = paths_.can_merge(alone, target);
    if (possible && really) {
      join(kernels_[target], cut.moved);
      kernels_[target] = both_;
      for (const OpId op : cut.moved) owner_[op] = target;
      paths_.merge(target, alone);
      bytes_[target] = cut.grown_bytes;
      bytes_[source] = cut.left_bytes;
      ++version_[source];
      ++version_[target];
    } else {
      for (const OpId op : cut.moved) owner_[op] = source;
      kernels_[source] = std::move(whole);
    }
    kernels_.pop_back();
    paths_.drop_last();
    return possible;
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
  Kernel both_;           // scratch
  std::size_t work_ = 0;  // ops looked at in candidates
  std::size_t cut_work_ = 0;
};

}  // namespace

std::vector<Kernel> search_greedily(TrafficCounter& counter, const Rules& rules,
                                    std::vector<Kernel> kernels) {
  return GreedySearch(counter, rules, std::move(kernels)).run();
}

}  // namespace fusecalc
