#include <algorithm>
#include <bit>
#include <cassert>
#include <unordered_map>

#include "core/checked.hpp"
#include "planner/legal_kernels.hpp"
#include "planner/search.hpp"
#include "planner/shares.hpp"

namespace fusecalc {
namespace {

// Costs as one number: bytes first, then kernels.
constexpr unsigned kKernelBits = 7;
constexpr std::uint64_t kMostBytes = kMaxCount >> kKernelBits;

// Branch and bound over the partitions of a region. Each partition is built in one order: the
// kernel of the first op that is not done yet comes next, but before it those that it waits for,
// each found in the same way.
class ExactSearch {
 public:
  ExactSearch(const Region& region, const std::vector<LegalKernel>& kernels, std::uint64_t start,
              std::size_t& work)
      : region_(region), work_(work), best_cost_(start) {
    for (const LegalKernel& kernel : kernels) {
      if (kernel.bytes >= kMostBytes) continue;
      const std::uint64_t cost = (kernel.bytes << kKernelBits) + 1;
      if (cost < start) choices_.push_back({kernel.ops, kernel.needs, cost, cost});
    }
  }

  // The best partition that costs less than the start; empty where there is none, or none was found
  // before all work was spent.
  std::vector<OpSet> run() {
    const bool possible = share_out(
        choices_, region_.size(), bound_, [](Choice & choice) -> auto& { return choice.above; },
        [&](const Choice& choice) { return bound_ + choice.above < best_cost_; });
    if (!possible) return {};
    by_op_.resize(region_.size());
    std::ranges::sort(choices_, [](const Choice& a, const Choice& b) {
      return a.above != b.above ? a.above < b.above : a.ops < b.ops;
    });
    for (const Choice& choice : choices_) {
      for (OpSet ops = choice.ops; ops != 0; ops &= ops - 1) {
        by_op_[static_cast<std::size_t>(std::countr_zero(ops))].push_back(&choice);
      }
    }
    extend(0, 0, 0, bound_);
    return best_;
  }

 private:
  struct Choice {
    OpSet ops = 0;
    OpSet needs = 0;
    std::uint64_t cost = 0;
    std::uint64_t above = 0;  // the cost less the shares of its ops
  };

  // Continues a partition. `done` are the ops of kernels that can run, `chosen` those and the ops
  // of the kernels that wait; `rest` is the least that all others cost.
  void extend(OpSet done, OpSet chosen, std::uint64_t cost, std::uint64_t rest) {
    if (work_ == 0) return;
    --work_;
    [[maybe_unused]] const std::size_t waiting = waiting_.size();
    std::vector<const Choice*> started;
    while (!waiting_.empty() && (waiting_.back()->needs & ~done) == 0) {
      done |= waiting_.back()->ops;
      started.push_back(waiting_.back());
      waiting_.pop_back();
    }
    if (done == region_.all()) {
      best_cost_ = cost;
      best_ = chosen_;
    } else if (!waiting_.empty()) {
      branch(waiting_.back()->needs & ~done, done, chosen, cost, rest);
    } else {
      const auto [known, added] = least_.try_emplace(done, cost);
      if (added || cost < known->second) {
        known->second = cost;
        branch(region_.all() & ~done, done, chosen, cost, rest);
      }
    }
    for (; !started.empty(); started.pop_back()) waiting_.push_back(started.back());
    assert(waiting_.size() == waiting);
  }

  // Chooses the kernel of the first of these ops.
  void branch(OpSet open, OpSet done, OpSet chosen, std::uint64_t cost, std::uint64_t rest) {
    const auto op = static_cast<std::size_t>(std::countr_zero(open));
    // It is in a kernel that waits: a cycle.
    if ((chosen >> op & 1U) != 0) return;
    for (const Choice* choice : by_op_[op]) {
      if (cost + rest + choice->above >= best_cost_) return;
      if ((choice->ops & chosen) != 0) continue;
      waiting_.push_back(choice);
      chosen_.push_back(choice->ops);
      extend(done, chosen | choice->ops, cost + choice->cost,
             rest - (choice->cost - choice->above));
      chosen_.pop_back();
      waiting_.pop_back();
    }
  }

  const Region& region_;
  std::size_t& work_;
  std::uint64_t best_cost_;
  std::vector<OpSet> best_;
  std::vector<Choice> choices_;
  std::vector<std::vector<const Choice*>> by_op_;  // the best first
  std::uint64_t bound_ = 0;                        // the sum of all shares
  std::vector<const Choice*> waiting_;
  std::vector<OpSet> chosen_;
  std::unordered_map<OpSet, std::uint64_t> least_;  // for each set of ops, its least cost so far
};

}  // namespace

Replanned replan_exactly(CheckedKernels& checked, const std::vector<Kernel>& kernels,
                         std::size_t& work) {
  TrafficCounter& counter = checked.counter();
  std::vector<OpId> ops;
  for (const Kernel& kernel : kernels) ops.insert(ops.end(), kernel.begin(), kernel.end());
  const Region region(counter.graph(), std::move(ops));
  const std::optional<std::vector<LegalKernel>> legal = legal_kernels(checked, region, work);
  const PlanCost cost = cost_of(counter, kernels);
  if (!legal || cost.bytes >= kMostBytes) return {};
  const std::uint64_t start = (cost.bytes << kKernelBits) + cost.kernels;
  Replanned replanned;
  for (const OpSet set : ExactSearch(region, *legal, start, work).run()) {
    replanned.kernels.push_back(region.kernel(set));
  }
  replanned.is_best = work > 0;
  return replanned;
}

PlanCost cost_of(TrafficCounter& counter, const std::vector<Kernel>& kernels) {
  PlanCost cost{.bytes = 0, .kernels = kernels.size()};
  for (const Kernel& kernel : kernels) cost.bytes += counter.bytes(kernel).total();
  return cost;
}

}  // namespace fusecalc
