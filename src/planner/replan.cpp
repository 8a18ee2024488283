#include <algorithm>
#include <cassert>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "planner/legal_kernels.hpp"
#include "planner/region.hpp"
#include "planner/search.hpp"

namespace fusecalc {
namespace {

// The most steps of one exact search, and of all together. They are shared evenly: in a graph of
// very many ops nothing of use would be left for each stretch, and none is replanned.
struct Work {
  std::size_t most_of_one = 20'000;
  std::size_t least_of_one = 500;
  std::size_t most = 200'000;
  bool splits = false;  // whether kernels by themselves are stretches, too
};
constexpr Work kTimedWork = {.most = 60'000, .splits = true};
constexpr int kMostPasses = 6;

// Finds a better partition of the ops of a stretch, and takes away from `work` what that needed.
using ReplansOne = std::function<Replanned(const std::vector<Kernel>& stretch, std::size_t& work)>;

// Any stretch of kernels that run one after the other can be replanned by itself: nothing leads out
// of it and back. Passes over two orders bring different kernels together.
class Replanning {
 public:
  Replanning(const OpGraph& graph, const Work& work, ReplansOne replans_one,
             std::vector<Kernel> kernels)
      : graph_(graph),
        work_(work),
        replans_one_(std::move(replans_one)),
        kernels_(std::move(kernels)) {}

  std::vector<Kernel> run() {
    std::size_t ops = 0;
    for (const Kernel& kernel : kernels_) ops += kernel.size();
    share_ =
        std::min(work_.most_of_one, work_.most * kMostRegionOps / std::max<std::size_t>(1, ops));
    int unchanged = 0;
    for (int pass = 0; pass < kMostPasses && unchanged < 2; ++pass) {
      if (std::min(share_, left_) < work_.least_of_one) break;
      const RunOrder order = pass % 2 == 0 ? RunOrder::kEarly : RunOrder::kLate;
      [[maybe_unused]] const bool sorted = sort_canonically(graph_, kernels_, order);
      assert(sorted);
      unchanged = run_pass() ? 0 : unchanged + 1;
    }
    return std::move(kernels_);
  }

 private:
  // Returns whether that changed anything.
  bool run_pass() {
    bool changed = false;
    std::vector<Kernel> passed;
    std::vector<Kernel> ahead(std::make_move_iterator(kernels_.rbegin()),
                              std::make_move_iterator(kernels_.rend()));
    std::vector<Kernel> stretch;
    while (true) {
      fill(stretch, ahead);
      // Half of it at a time until that is little enough work.
      while (may_replan(stretch)) {
        const std::optional<bool> better = replan_stretch(stretch);
        changed = changed || better.value_or(false);
        if (better || stretch.size() == 1) break;
        for (std::size_t half = (stretch.size() + 1) / 2; stretch.size() > half;) {
          ahead.push_back(std::move(stretch.back()));
          stretch.pop_back();
        }
      }
      // The next one takes up the second half of this one.
      const std::size_t left = ahead.empty() ? 0 : stretch.size() / 2;
      const auto end = stretch.end() - static_cast<std::ptrdiff_t>(left);
      std::move(stretch.begin(), end, std::back_inserter(passed));
      stretch.erase(stretch.begin(), end);
      if (ahead.empty()) break;
    }
    kernels_ = std::move(passed);
    return changed;
  }

  bool may_replan(const std::vector<Kernel>& stretch) const {
    if (stretch.size() != 1) return stretch.size() > 1;
    return work_.splits && stretch[0].size() > 1 && stretch[0].size() <= kMostRegionOps;
  }

  // Takes the next kernels as long as there is room, but at least one.
  static void fill(std::vector<Kernel>& stretch, std::vector<Kernel>& ahead) {
    std::size_t ops = 0;
    for (const Kernel& kernel : stretch) ops += kernel.size();
    while (!ahead.empty() && (stretch.empty() || ops + ahead.back().size() <= kMostRegionOps)) {
      ops += ahead.back().size();
      stretch.push_back(std::move(ahead.back()));
      ahead.pop_back();
    }
  }

  // Returns whether the stretch got better; nothing if that was too much work to tell.
  std::optional<bool> replan_stretch(std::vector<Kernel>& stretch) {
    if (left_ < work_.least_of_one) return std::nullopt;
    Kernel ops;
    for (const Kernel& kernel : stretch) ops.insert(ops.end(), kernel.begin(), kernel.end());
    std::ranges::sort(ops);
    const auto known = best_.find(ops);
    if (known != best_.end() && known->second == ordered(stretch)) return false;
    const auto holds = [&](const Kernel& few) { return std::ranges::includes(ops, few); };
    if (std::ranges::any_of(too_much_, holds)) return std::nullopt;
    const std::size_t share = std::min(left_, share_);
    std::size_t work = share;
    Replanned replanned = replans_one_(stretch, work);
    left_ -= share - work;
    const bool better = !replanned.kernels.empty();
    if (better) {
      stretch = std::move(replanned.kernels);
      [[maybe_unused]] const bool sorted = sort_canonically(graph_, stretch);
      assert(sorted);
    }
    if (!replanned.is_best) {
      if (better) return true;
      too_much_.push_back(std::move(ops));
      return std::nullopt;
    }
    best_[std::move(ops)] = ordered(stretch);
    return better;
  }

  static std::vector<Kernel> ordered(std::vector<Kernel> kernels) {
    std::ranges::sort(kernels);
    return kernels;
  }

  const OpGraph& graph_;
  Work work_;
  ReplansOne replans_one_;
  std::vector<Kernel> kernels_;
  std::size_t share_ = 0;  // of the work, for one stretch
  std::size_t left_ = work_.most;
  std::map<Kernel, std::vector<Kernel>> best_;  // of the ops of stretches
  // Ops of stretches that took more than their share, which never grows: more ops take more.
  std::vector<Kernel> too_much_;
};

}  // namespace

std::vector<Kernel> replan(TrafficCounter& counter, const Rules& rules,
                           std::vector<Kernel> kernels) {
  CheckedKernels checked(counter, rules);
  const auto replans_one = [&](const std::vector<Kernel>& stretch, std::size_t& work) {
    return replan_exactly(checked, stretch, work);
  };
  return Replanning(counter.graph(), Work{}, replans_one, std::move(kernels)).run();
}

std::vector<Kernel> replan_by_time(TrafficCounter& counter, KernelModel& model, const Rules& rules,
                                   Aim aim, std::vector<Kernel> kernels) {
  CheckedKernels checked(counter, rules);
  const auto replans_one = [&](const std::vector<Kernel>& stretch, std::size_t& work) {
    return replan_by_time(checked, model, aim, stretch, work);
  };
  // Models of 100 to 600 ops gained less than 1 % by this in stretches, and took two to three times
  // as long to plan.
  if (counter.graph().ops.size() > kMostRegionOps) return kernels;
  return Replanning(counter.graph(), kTimedWork, replans_one, std::move(kernels)).run();
}

}  // namespace fusecalc
