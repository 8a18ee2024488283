// Exact search by predicted time. What one kernel leaves in the L2 makes the next ones faster, so a
// partition's time is no sum over its kernels: each partition that may be the best one is predicted
// as a whole. Of each kernel a least time is known, which sums up to a bound.

#include <algorithm>
#include <bit>
#include <cassert>
#include <optional>
#include <utility>

#include "planner/legal_kernels.hpp"
#include "planner/search.hpp"
#include "planner/shares.hpp"
#include "predict/plan_model.hpp"

namespace fusecalc {
namespace {

// A share by which sums of the same numbers differ if these are added in another order.
constexpr double kSumRounding = 1e-9;

// Whether another kernel may have put what this one reads of a tensor into the L2.
bool touched_outside(const OpGraph& graph, TensorId tensor, const Kernel& kernel) {
  const Tensor& value = graph.value_of(tensor);
  if (value.producer != kNone || value.overwritten_by != kNone || value.patched_by != kNone) {
    return true;
  }
  return std::ranges::any_of(graph.readers[value.value], [&](OpId reader) {
    return !std::ranges::binary_search(kernel, reader);
  });
}

// The least time that the kernel may take in a plan: the L2 serves all that another kernel touches.
double least_time(const OpGraph& graph, const Device& device, const Kernel& kernel,
                  const CountedKernel& counted) {
  const auto bytes = static_cast<double>(counted.traffic.bytes.total());
  const double miss = streaming_l2(device.l2_bytes).mean_miss(0, bytes);
  KernelWork work = counted.work;
  double served = 0;
  for (const KernelTraffic::Entry& entry : counted.traffic.reads) {
    if (!touched_outside(graph, entry.tensor, kernel)) continue;
    served += static_cast<double>(entry.bytes) / std::max(1U, entry.passes);
  }
  served = std::min(served * (1 - miss), work.dram_read);
  work.dram_read -= served;
  work.l2_bytes += served;
  return predict(work, device, true).time_us;
}

// Bytes and microseconds.
struct BytesAndTime {
  double bytes = 0;
  double time = 0;

  BytesAndTime operator+(const BytesAndTime& other) const {
    return {bytes + other.bytes, time + other.time};
  }
  BytesAndTime operator-(const BytesAndTime& other) const {
    return {bytes - other.bytes, time - other.time};
  }
};

// Branch and bound over the partitions of a region: the kernel of the first op that has none yet
// comes next.
class TimedSearch {
 public:
  TimedSearch(TrafficCounter& counter, KernelModel& model, Aim aim, const Region& region,
              std::size_t& work)
      : counter_(counter), model_(model), aim_(aim), region_(region), work_(work) {}

  // The best partition into legal kernels; empty where none is better than `start`.
  std::vector<OpSet> run(const std::vector<LegalKernel>& legal, const std::vector<Kernel>& start) {
    for (const LegalKernel& kernel : legal) {
      choices_.push_back({.ops = kernel.ops, .needs = kernel.needs, .bytes = kernel.bytes});
      choices_.back().cost.bytes = static_cast<double>(kernel.bytes);
    }
    best_bytes_ = cost_of(counter_, start).bytes;
    best_time_ = predicted_time(counter_, model_, start);
    // Kernels that cost too many bytes need not be timed.
    if (aim_ == Aim::kFewestBytes && !spread(&BytesAndTime::bytes)) return {};
    if (!time_choices() || !spread(&BytesAndTime::time)) return {};
    by_first_.resize(region_.size());
    std::ranges::sort(choices_, [](const Choice& a, const Choice& b) {
      return a.above.time != b.above.time ? a.above.time < b.above.time : a.ops < b.ops;
    });
    for (const Choice& choice : choices_) {
      by_first_[static_cast<std::size_t>(std::countr_zero(choice.ops))].push_back(&choice);
    }
    extend(0, {}, bound_);
    return best_;
  }

 private:
  struct Choice {
    OpSet ops = 0;
    OpSet needs = 0;
    std::uint64_t bytes = 0;
    BytesAndTime cost{};   // bytes and the least time
    BytesAndTime above{};  // the cost less the shares of its ops
    CountedKernel counted{};
  };

  // Whether a partition that costs at least this much may be better than the best one so far.
  bool may_win(const BytesAndTime& least) const {
    const bool faster = least.time < best_time_ * (1 - kSumRounding);
    if (aim_ == Aim::kLeastTime) return faster;
    const auto most = static_cast<double>(best_bytes_);
    return least.bytes < most * (1 - kSumRounding) ||
           (least.bytes <= most * (1 + kSumRounding) && faster);
  }

  // Shares out one part of the costs. Returns false if no partition may win.
  bool spread(double BytesAndTime::*part) {
    for (Choice& choice : choices_) choice.above.*part = choice.cost.*part;
    return share_out(
        choices_, region_.size(),
        bound_.*part, [part](Choice & choice) -> auto& { return choice.above.*part; },
        [&](const Choice& choice) { return may_win(bound_ + choice.above); });
  }

  // Returns false if that is too much work.
  bool time_choices() {
    for (Choice& choice : choices_) {
      if (work_ < kTimingWork) return false;
      work_ -= kTimingWork;
      const Kernel kernel = region_.kernel(choice.ops);
      choice.counted = model_.count(kernel);
      choice.cost.time = least_time(region_.graph(), counter_.device(), kernel, choice.counted);
    }
    return true;
  }

  void extend(OpSet covered, const BytesAndTime& cost, const BytesAndTime& rest) {
    if (work_ == 0) return;
    --work_;
    if (covered == region_.all()) {
      compare();
      return;
    }
    for (const Choice* choice : by_first_[static_cast<std::size_t>(std::countr_one(covered))]) {
      if ((choice->ops & covered) != 0 || !may_win(cost + rest + choice->above)) continue;
      chosen_.push_back(choice);
      extend(covered | choice->ops, cost + choice->cost, rest - (choice->cost - choice->above));
      chosen_.pop_back();
    }
  }

  // The chosen kernels are ordered by their first ops: the first one that can run is the next one
  // of the canonical order.
  void compare() {
    work_ -= std::min(work_, chosen_.size());
    std::uint64_t bytes = 0;
    for (const Choice* choice : chosen_) bytes += choice->bytes;
    const bool fewer = aim_ == Aim::kFewestBytes && bytes < best_bytes_;
    if (aim_ == Aim::kFewestBytes && bytes > best_bytes_) return;
    PlanModel plan(region_.graph(), counter_.device(), chosen_.size());
    for (OpSet done = 0; done != region_.all();) {
      const auto next = std::ranges::find_if(chosen_, [&](const Choice* choice) {
        return (choice->ops & done) == 0 && (choice->needs & ~done) == 0;
      });
      if (next == chosen_.end()) return;  // a cycle
      plan.add((*next)->counted.traffic, (*next)->counted.work);
      if (!fewer && plan.time_us() >= best_time_ * (1 - kSumRounding)) return;
      done |= (*next)->ops;
    }
    best_bytes_ = bytes;
    best_time_ = plan.time_us();
    best_.clear();
    for (const Choice* choice : chosen_) best_.push_back(choice->ops);
  }

  static constexpr std::size_t kTimingWork = 4;  // steps that timing a kernel is worth

  TrafficCounter& counter_;
  KernelModel& model_;
  Aim aim_;
  const Region& region_;
  std::size_t& work_;
  std::uint64_t best_bytes_ = 0;
  double best_time_ = 0;
  std::vector<OpSet> best_;
  std::vector<Choice> choices_;
  std::vector<std::vector<const Choice*>> by_first_;  // by their first op, the best first
  BytesAndTime bound_;                                // the sum of all shares
  std::vector<const Choice*> chosen_;
};

}  // namespace

double predicted_time(const TrafficCounter& counter, KernelModel& model,
                      std::vector<Kernel> kernels, double limit) {
  [[maybe_unused]] const bool possible = sort_canonically(counter.graph(), kernels);
  assert(possible);
  PlanModel plan(counter.graph(), counter.device(), kernels.size());
  for (const Kernel& kernel : kernels) {
    const CountedKernel& counted = model.count(kernel);
    plan.add(counted.traffic, counted.work);
    if (plan.time_us() >= limit) break;
  }
  return plan.time_us();
}

Replanned replan_by_time(CheckedKernels& checked, KernelModel& model, Aim aim,
                         const std::vector<Kernel>& kernels, std::size_t& work) {
  TrafficCounter& counter = checked.counter();
  std::vector<OpId> ops;
  for (const Kernel& kernel : kernels) ops.insert(ops.end(), kernel.begin(), kernel.end());
  const Region region(counter.graph(), std::move(ops));
  const std::optional<std::vector<LegalKernel>> legal = legal_kernels(checked, region, work);
  if (!legal) return {};
  Replanned replanned;
  for (const OpSet set : TimedSearch(counter, model, aim, region, work).run(*legal, kernels)) {
    replanned.kernels.push_back(region.kernel(set));
  }
  replanned.is_best = work > 0;
  return replanned;
}

}  // namespace fusecalc
