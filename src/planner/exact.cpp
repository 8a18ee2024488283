#include <algorithm>
#include <bit>
#include <cassert>
#include <optional>

#include "planner/search.hpp"

namespace fusecalc {
namespace {

using Mask = std::uint32_t;  // a set of ops, by their position in the scope

class ExactSearch {
 public:
  ExactSearch(TrafficCounter& counter, const Rules& rules, const Kernel& scope)
      : counter_(counter), rules_(rules), scope_(scope), count_(scope.size()) {
    assert(count_ <= kMostExactOps);
  }

  std::vector<Kernel> run() {
    const Mask all = (Mask{1} << count_) - 1;
    find_prefixes(all);
    kernel_cost_.assign(std::size_t{all} + 1, std::nullopt);
    kernel_known_.assign(std::size_t{all} + 1, false);
    std::vector<std::optional<PlanCost>> best(std::size_t{all} + 1);
    std::vector<Mask> last_kernel(std::size_t{all} + 1, 0);
    best[0] = PlanCost{};
    // Ops are numbered in execution order, so a set comes after all its subsets.
    for (Mask done = 0; done < all; ++done) {
      if (!best[done]) continue;
      const Mask rest = all & ~done;
      for (Mask kernel = rest & (~rest + 1);; kernel = (kernel - rest) & rest) {
        if (kernel == 0) break;
        if (can_run_[done | kernel]) try_kernel(done, kernel, best, last_kernel);
      }
    }
    std::vector<Kernel> kernels;
    for (Mask done = all; done != 0; done &= ~last_kernel[done]) {
      kernels.push_back(ops_of(last_kernel[done]));
    }
    std::ranges::sort(kernels);
    return kernels;
  }

 private:
  // The sets of ops that contain the producers of all their members.
  void find_prefixes(Mask all) {
    std::vector<Mask> needs(count_, 0);
    for (std::size_t i = 0; i < count_; ++i) {
      for (const OpId earlier : counter_.graph().before[scope_[i]]) {
        const auto place = std::ranges::lower_bound(scope_, earlier);
        if (place == scope_.end() || *place != earlier) continue;
        needs[i] |= Mask{1} << (place - scope_.begin());
      }
    }
    can_run_.assign(std::size_t{all} + 1, false);
    can_run_[0] = true;
    for (Mask set = 1; set <= all; ++set) {
      // The last op of a set can be removed: no other op in it depends on it.
      const auto last = static_cast<std::size_t>(std::bit_width(set)) - 1;
      const Mask without = set & ~(Mask{1} << last);
      can_run_[set] = can_run_[without] && (needs[last] & ~without) == 0;
    }
  }

  void try_kernel(Mask done, Mask kernel, std::vector<std::optional<PlanCost>>& best,
                  std::vector<Mask>& last_kernel) {
    const std::optional<std::uint64_t>& bytes = cost(kernel);
    if (!bytes) return;
    PlanCost total = *best[done];
    total.bytes += *bytes;
    total.kernels += 1;
    std::optional<PlanCost>& known = best[done | kernel];
    if (known && *known <= total) return;
    known = total;
    last_kernel[done | kernel] = kernel;
  }

  // Bytes of a set of ops as one kernel; nothing if that kernel is not legal.
  const std::optional<std::uint64_t>& cost(Mask mask) {
    if (!kernel_known_[mask]) {
      kernel_known_[mask] = true;
      const Kernel kernel = ops_of(mask);
      if (check_kernel(counter_.phases(), kernel, rules_).legal()) {
        kernel_cost_[mask] = counter_.bytes(kernel).total();
      }
    }
    return kernel_cost_[mask];
  }

  Kernel ops_of(Mask mask) const {
    Kernel kernel;
    for (std::size_t i = 0; i < count_; ++i) {
      if ((mask >> i & 1U) != 0) kernel.push_back(scope_[i]);
    }
    return kernel;
  }

  TrafficCounter& counter_;
  const Rules& rules_;
  const Kernel& scope_;
  std::size_t count_;
  std::vector<bool> can_run_;
  std::vector<std::optional<std::uint64_t>> kernel_cost_;
  std::vector<bool> kernel_known_;
};

}  // namespace

std::vector<Kernel> search_exactly(TrafficCounter& counter, const Rules& rules,
                                   const Kernel& scope) {
  if (scope.empty()) return {};
  return ExactSearch(counter, rules, scope).run();
}

PlanCost cost_of(TrafficCounter& counter, const std::vector<Kernel>& kernels) {
  PlanCost cost{.bytes = 0, .kernels = kernels.size()};
  for (const Kernel& kernel : kernels) cost.bytes += counter.bytes(kernel).total();
  return cost;
}

}  // namespace fusecalc
