#include <algorithm>
#include <optional>
#include <queue>
#include <tuple>
#include <utility>

#include "plan/paths.hpp"
#include "strategy/search.hpp"

namespace fusecalc {
namespace {

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
    std::erase_if(kernels_, [](const Kernel& kernel) { return kernel.empty(); });
    std::ranges::sort(kernels_);
    return std::move(kernels_);
  }

 private:
  // Offers every pair of kernels that share a tensor: its maker with each reader, and each reader
  // with the next.
  void offer_all() {
    for (const Tensor& value : graph_.tensors) {
      OpId previous = value.producer;
      for (const OpId reader : value.readers) {
        offer(value.producer, reader);
        if (previous != value.producer) offer(previous, reader);
        previous = reader;
      }
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
      if (order_.way_around(a, b)) continue;
      merge(a, b);
      merged = true;
    }
    return merged;
  }

  // Bytes that two kernels save as one; nothing where they cannot be, or would move more.
  std::optional<std::uint64_t> saving_of(KernelId a, KernelId b) {
    if (kernels_[a].size() + kernels_[b].size() > kMostOpsInKernel) return std::nullopt;
    join(kernels_[a], kernels_[b]);
    work_ += both_.size();
    if (!check_kernel(counter_.phases(), both_, rules_).legal()) return std::nullopt;
    const std::uint64_t apart = bytes_[a] + bytes_[b];
    const std::uint64_t together = counter_.count_found(both_).bytes.total();
    if (together > apart) return std::nullopt;
    return apart - together;
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
    order_.merged(a, b);
  }

  TrafficCounter& counter_;
  const Rules& rules_;
  const OpGraph& graph_;
  std::vector<Kernel> kernels_;  // emptied when merged into another
  std::vector<KernelId> owner_;
  std::vector<std::uint64_t> bytes_;
  std::vector<std::uint32_t> version_;
  KernelOrder order_{graph_, kernels_, owner_};
  std::priority_queue<Candidate> queue_;
  Kernel both_;           // scratch
  std::size_t work_ = 0;  // ops looked at in candidates
};

}  // namespace

std::vector<Kernel> search_greedily(TrafficCounter& counter, const Rules& rules,
                                    std::vector<Kernel> kernels) {
  return GreedySearch(counter, rules, std::move(kernels)).run();
}

}  // namespace fusecalc
