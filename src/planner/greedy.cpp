#include <algorithm>
#include <bit>
#include <iterator>
#include <optional>
#include <queue>
#include <utility>

#include "plan/paths.hpp"
#include "plan/siblings.hpp"
#include "planner/fusion_candidates.hpp"
#include "planner/region.hpp"
#include "planner/search.hpp"

namespace fusecalc {
namespace {

// The largest kernel that is split to find a better cut, and the limit on the work that one search
// spends on cuts, in ops visited.
constexpr std::size_t kMostCutOps = 24;
constexpr std::size_t kMostCutWork = 2'000'000;

// Two kernels that might be fused. The larger saving goes first, then what is no prologue of a
// contraction (an epilogue computes each element once), then the smaller kernel (so that long
// chains grow evenly), then the earlier ops.
struct Candidate {
  std::uint64_t saving = 0;  // estimated from the bytes of shared values, until it is counted
  KernelId by = 0;           // the kernel that made the offer
  KernelId to = 0;
  std::uint32_t version_by = 0;
  std::uint32_t version_to = 0;
  std::uint16_t size = 0;
  bool counted = false;
  bool prologue = false;

  bool operator<(const Candidate& other) const {
    if (saving != other.saving) return saving < other.saving;
    if (prologue != other.prologue) return prologue;
    if (size != other.size) return size > other.size;
    return std::minmax(by, to) > std::minmax(other.by, other.to);
  }
};

class GreedySearch {
 public:
  GreedySearch(TrafficCounter& counter, const Rules& rules, std::vector<Kernel> kernels)
      : counter_(counter),
        rules_(rules),
        graph_(counter.graph()),
        outline_(graph_.outline),
        kernels_(std::move(kernels)),
        owner_(owners_of(graph_, kernels_)) {
    for (const Kernel& kernel : kernels_) {
      facts_.push_back({.bytes = counter_.bytes(kernel).total(),
                        .size = static_cast<std::uint16_t>(kernel.size()),
                        .contractions = contractions_in(kernel)});
    }
    offers_.resize(kernels_.size());
  }

  std::vector<Kernel> run() {
    for (KernelId k = 0; k < kernels_.size(); ++k) offer_pairs_of(k, true);
    merge_offered();
    improve();
    std::erase_if(kernels_, [](const Kernel& kernel) { return kernel.empty(); });
    return std::move(kernels_);
  }

 private:
  void merge_offered() {
    while (!queue_.empty()) {
      Candidate best = queue_.top();
      queue_.pop();
      if (facts_[best.by].version != best.version_by) continue;
      if (!best.counted) offer_next(best.by);
      if (facts_[best.to].version != best.version_to) continue;
      const auto [a, b] = std::minmax(best.by, best.to);
      if (paths_.has_indirect_path(a, b)) continue;
      if (!best.counted) {
        if (!count_saving(best)) continue;
        if (!queue_.empty() && best < queue_.top()) {
          queue_.push(best);
          continue;
        }
      }
      merge(a, b, facts_[a].bytes + facts_[b].bytes - best.saving);
      offer_pairs_of(a, false);
    }
  }

  // Returns false if fusing the two is not legal or would move more bytes.
  bool count_saving(Candidate& pair) {
    const std::optional<std::uint64_t> together =
        bytes_if_legal(joined(kernels_[pair.by], kernels_[pair.to]));
    const std::uint64_t apart = facts_[pair.by].bytes + facts_[pair.to].bytes;
    if (!together || *together > apart) return false;
    pair.saving = apart - *together;
    pair.counted = true;
    return true;
  }

  // A queued candidate; the rest of its data is in the facts of its kernels.
  struct Offer {
    std::uint64_t saving = 0;
    KernelId to = 0;
    std::uint32_t version_to = 0;
    bool prologue = false;
  };

  struct Facts {
    std::uint64_t bytes = 0;
    std::uint32_t version = 0;  // incremented whenever the kernel changes
    std::uint16_t size = 0;
    std::uint16_t contractions = 0;
  };

  // Queues the most promising candidate of a kernel; the others are kept in `offers_`.
  void offer_pairs_of(KernelId k, bool later_only) {
    pairs_.clear();
    for (const FusionCandidate& candidate : candidates_.of(k)) {
      if (later_only && candidate.kernel < k) continue;
      const Facts& other = facts_[candidate.kernel];
      const auto size = static_cast<std::uint16_t>(facts_[k].size + other.size);
      const std::size_t contractions = std::size_t{facts_[k].contractions} + other.contractions;
      if (size > kMostOps || !may_be_one(candidate, contractions)) continue;
      pairs_.push_back({.saving = candidate.saving,
                        .by = k,
                        .to = candidate.kernel,
                        .version_by = facts_[k].version,
                        .version_to = other.version,
                        .size = size,
                        .prologue = candidate.prologue});
    }
    std::sort(pairs_.begin(), pairs_.end());
    offers_[k].clear();
    offers_[k].reserve(pairs_.size());
    for (const Candidate& pair : pairs_) {
      offers_[k].push_back({pair.saving, pair.to, pair.version_to, pair.prologue});
    }
    offer_next(k);
  }

  // Offers always belong to the current version of kernel k: a change recomputes them.
  void offer_next(KernelId k) {
    std::vector<Offer>& offers = offers_[k];
    while (!offers.empty() && facts_[offers.back().to].version != offers.back().version_to) {
      offers.pop_back();
    }
    if (offers.empty()) return;
    const Offer& offer = offers.back();
    queue_.push({.saving = offer.saving,
                 .by = k,
                 .to = offer.to,
                 .version_by = facts_[k].version,
                 .version_to = offer.version_to,
                 .size = static_cast<std::uint16_t>(facts_[k].size + facts_[offer.to].size),
                 .prologue = offer.prologue});
    offers.pop_back();
  }

  std::uint16_t contractions_in(const Kernel& kernel) const {
    return static_cast<std::uint16_t>(std::ranges::count(
        kernel, OpClass::kContract, [&](OpId op) { return outline_[op].op_class; }));
  }

  // Whether a kernel with this many contractions may be legal; saves checking those that never are.
  // A contraction reads its operands from memory, and all other ops of its kernel work on its
  // result. Some of one input may be side by side.
  bool may_be_one(const FusionCandidate& candidate, std::size_t contractions) const {
    if (contractions == 0) return true;
    if (contractions == 1) return rules_.epilogues && candidate.feeds && !candidate.contracts;
    if (rules_.epilogues) return contractions <= kMostSiblings;
    return contractions == 2 && candidate.feeds;
  }

  std::optional<std::uint64_t> bytes_if_legal(const Kernel& kernel) {
    if (!check_kernel(counter_.phases(), kernel, rules_).legal()) return std::nullopt;
    return counter_.bytes(kernel).total();
  }

  static Kernel joined(const Kernel& a, const Kernel& b) {
    Kernel both;
    both.reserve(a.size() + b.size());
    std::ranges::merge(a, b, std::back_inserter(both));
    return both;
  }

  void merge(KernelId a, KernelId b, std::uint64_t bytes) {
    paths_.merge(a, b);
    kernels_[a] = joined(kernels_[a], kernels_[b]);
    for (const OpId op : kernels_[b]) owner_[op] = a;
    kernels_[b].clear();
    facts_[a].bytes = bytes;
    note(a, facts_[a].contractions + facts_[b].contractions);
    note(b, 0);
  }

  // The kernel's ops have changed.
  void note(KernelId k, int contractions) {
    Facts& facts = facts_[k];
    ++facts.version;
    facts.size = static_cast<std::uint16_t>(kernels_[k].size());
    facts.contractions = static_cast<std::uint16_t>(contractions);
  }

  // A set of ops that can be split off a kernel: all that must run after (or before) one of its
  // ops, or the complement of such a set.
  struct Part {
    OpSet ops = 0;
    bool last = false;  // runs after the remaining ops
    std::size_t contractions = 0;
    // Bytes of the remaining ops, once asked for; nothing inside where they are no kernel.
    std::optional<std::optional<std::uint64_t>> left_bytes{};
  };

  std::vector<Part> parts_of(const Region& whole) const {
    std::vector<Part> parts;
    for (std::size_t i = 0; i < whole.size(); ++i) {
      const OpSet after = whole.after(i) | set_of(i);
      const OpSet before = whole.before(i) | set_of(i);
      parts.push_back({after, true});
      parts.push_back({whole.all() & ~after, false});
      parts.push_back({before, false});
      parts.push_back({whole.all() & ~before, true});
    }
    std::erase_if(parts,
                  [&](const Part& part) { return part.ops == 0 || part.ops == whole.all(); });
    for (Part& part : parts) part.contractions = contractions_in(whole.kernel(part.ops));
    return parts;
  }

  // Ops of a region that have something to do with a kernel.
  struct Touching {
    OpSet feeds = 0;   // read what it makes, or make what it reads
    OpSet shares = 0;  // those, and what reads memory that it reads
  };

  Touching touching(const Region& whole, KernelId source, KernelId target) {
    Touching found;
    read_.clear();
    for (const OpId op : kernels_[target]) {
      for (const Outline::Input& input : outline_.inputs_of(op)) {
        read_.push_back(input.storage);
        const bool made = input.producer != kNone && owner_[input.producer] == source;
        if (made) found.feeds |= whole.only(input.producer);
      }
    }
    std::ranges::sort(read_);
    for (const OpId op : kernels_[source]) {
      for (const Outline::Input& input : outline_.inputs_of(op)) {
        const bool made = input.producer != kNone && owner_[input.producer] == target;
        if (made) found.feeds |= whole.only(op);
        if (std::ranges::binary_search(read_, input.storage)) found.shares |= whole.only(op);
      }
    }
    found.shares |= found.feeds;
    return found;
  }

  // Whether each op of a part shares a tensor with those of `touching`, directly or by others: no
  // kernel has ops that have nothing in common.
  static bool is_connected(const Region& whole, OpSet part, OpSet touching) {
    OpSet reached = part & touching;
    for (OpSet open = reached; open != 0;) {
      const auto place = static_cast<std::size_t>(std::countr_zero(open));
      const OpSet more = whole.neighbours(place) & part & ~reached;
      reached |= more;
      open = (open & (open - 1)) | more;
    }
    return reached == part;
  }

  // Moves parts of kernels to neighbouring kernels while that saves bytes.
  void improve() {
    std::vector<bool> waiting(kernels_.size(), true);
    std::queue<KernelId> open;
    for (KernelId k = 0; k < kernels_.size(); ++k) open.push(k);
    while (!open.empty() && cut_work_ < kMostCutWork) {
      const KernelId k = open.front();
      open.pop();
      waiting[k] = false;
      if (kernels_[k].size() < 2 || kernels_[k].size() > kMostCutOps) continue;
      const Region whole(graph_, kernels_[k]);
      std::vector<Part> parts = parts_of(whole);
      for (const FusionCandidate& candidate : candidates_.of(k)) {
        const KernelId target = candidate.kernel;
        if (!cut(whole, parts, k, target)) continue;
        offer_pairs_of(k, false);
        offer_pairs_of(target, false);
        merge_offered();
        for (const KernelId changed : {k, target}) {
          if (!waiting[changed] && !kernels_[changed].empty()) open.push(changed);
          waiting[changed] = true;
        }
        break;
      }
    }
  }

  // Moves the part of `source` to `target` that saves most. Returns whether there was one.
  bool cut(const Region& whole, std::vector<Part>& parts, KernelId source, KernelId target) {
    const std::uint64_t before = facts_[source].bytes + facts_[target].bytes;
    const Touching touched = touching(whole, source, target);
    struct Cut {
      const Part* part = nullptr;
      std::uint64_t left = 0;
      std::uint64_t grown = 0;
    };
    std::optional<Cut> best;
    for (Part& part : parts) {
      const auto moved = static_cast<std::size_t>(std::popcount(part.ops));
      if (moved + kernels_[target].size() > kMostOps) continue;
      cut_work_ += whole.size() + kernels_[target].size();
      const std::size_t contractions = part.contractions + facts_[target].contractions;
      const bool feeds = (part.ops & touched.feeds) != 0;
      if (!may_be_one({.feeds = feeds}, contractions) ||
          !is_connected(whole, part.ops, touched.shares)) {
        continue;
      }
      const auto grown = bytes_if_legal(joined(kernels_[target], whole.kernel(part.ops)));
      if (!grown || *grown >= before) continue;
      if (!part.left_bytes) {
        part.left_bytes = bytes_if_legal(whole.kernel(whole.all() & ~part.ops));
      }
      const std::optional<std::uint64_t>& rest = *part.left_bytes;
      if (!rest || *grown + *rest >= before) continue;
      if (best && best->left + best->grown <= *grown + *rest) continue;
      if (move(whole, source, target, part, *rest, *grown, false)) best = Cut{&part, *rest, *grown};
    }
    return best && move(whole, source, target, *best->part, best->left, best->grown, true);
  }

  // Returns whether the move creates no cycle; if so and `really` is set, makes it.
  bool move(const Region& whole, KernelId source, KernelId target, const Part& part,
            std::uint64_t left_bytes, std::uint64_t grown_bytes, bool really) {
    Kernel moved = whole.kernel(part.ops);
    // The part becomes a temporary kernel that is then merged.
    const auto alone = static_cast<KernelId>(kernels_.size());
    for (const OpId op : moved) owner_[op] = alone;
    kernels_[source] = whole.kernel(whole.all() & ~part.ops);
    const std::uint16_t moved_contractions = contractions_in(moved);
    facts_.push_back({.contractions = moved_contractions});
    kernels_.push_back(std::move(moved));
    paths_.add_beside(source, part.last);
    const bool possible = !paths_.has_indirect_path(alone, target);
    if (possible && really) {
      merge(target, alone, grown_bytes);
      facts_[source].bytes = left_bytes;
      note(source, facts_[source].contractions - moved_contractions);
    } else {
      kernels_[source] = whole.kernel(whole.all());
      for (const OpId op : kernels_[source]) owner_[op] = source;
    }
    kernels_.pop_back();
    facts_.pop_back();
    paths_.drop_last();
    return possible;
  }

  TrafficCounter& counter_;
  const Rules& rules_;
  const OpGraph& graph_;
  const Outline& outline_;
  std::vector<Kernel> kernels_;  // emptied when merged into another
  std::vector<KernelId> owner_;
  std::vector<Facts> facts_;  // parallel
  PathFinder paths_{graph_, kernels_, owner_};
  CandidateFinder candidates_{graph_, kernels_, owner_};
  std::vector<std::vector<Offer>> offers_;  // of each kernel, those not yet queued, the best last
  std::vector<Candidate> pairs_;            // scratch space of offer_pairs_of
  std::vector<TensorId> read_;              // scratch space of touching
  std::priority_queue<Candidate> queue_;
  std::size_t cut_work_ = 0;
};

}  // namespace

std::vector<Kernel> merge_greedily(TrafficCounter& counter, const Rules& rules,
                                   std::vector<Kernel> kernels) {
  return GreedySearch(counter, rules, std::move(kernels)).run();
}

}  // namespace fusecalc
