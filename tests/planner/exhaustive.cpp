#include "planner/exhaustive.hpp"

#include <algorithm>
#include <bit>
#include <cassert>

#include "plan/partition.hpp"

namespace fusecalc::testing {
namespace {

using Ops = std::uint32_t;  // a set
constexpr std::uint64_t kUnreached = ~std::uint64_t{0};

struct Fusion {
  Ops ops = 0;
  Ops needs = 0;
  std::uint64_t bytes = 0;
};

class Exhaustive {
 public:
  Exhaustive(TrafficCounter& counter, const Rules& rules)
      : counter_(counter),
        rules_(rules),
        count_(counter.graph().ops.size()),
        all_((Ops{1} << count_) - 1),
        before_(count_, 0) {
    assert(count_ > 0 && count_ <= kMostExhaustiveOps);
    for (const auto& [first, later] : orders_of(counter.graph())) before_[later] |= Ops{1} << first;
    // Ops are numbered in an order in which they can run.
    for (std::size_t i = 0; i < count_; ++i) {
      for (Ops rest = before_[i]; rest != 0; rest &= rest - 1) {
        before_[i] |= before_[static_cast<std::size_t>(std::countr_zero(rest))];
      }
    }
    find_fusions();
  }

  std::uint64_t fewest(std::uint64_t known) {
    std::vector<std::uint64_t> least(std::size_t{all_} + 1, kUnreached);
    least[0] = 0;
    for (Ops done = 0; done < all_; ++done) {
      if (least[done] >= known) continue;
      for (const Fusion& fusion : fusions_) {
        if ((fusion.ops & done) != 0 || (fusion.needs & ~done) != 0) continue;
        std::uint64_t& next = least[done | fusion.ops];
        next = std::min(next, least[done] + fusion.bytes);
      }
    }
    return std::min(known, least[all_]);
  }

 private:
  void find_fusions() {
    for (Ops ops = 1; ops <= all_; ++ops) {
      Ops needs = 0;
      for (Ops rest = ops; rest != 0; rest &= rest - 1) {
        needs |= before_[static_cast<std::size_t>(std::countr_zero(rest))];
      }
      needs &= ~ops;
      if (leads_back(ops, needs)) continue;
      Kernel kernel;
      for (OpId op = 0; op < count_; ++op) {
        if ((ops >> op & 1U) != 0) kernel.push_back(op);
      }
      if (!check_kernel(counter_.phases(), kernel, rules_).legal()) continue;
      fusions_.push_back({ops, needs, counter_.bytes(kernel).total()});
    }
  }

  // Whether one of the ops must run before something that must run before another.
  bool leads_back(Ops ops, Ops needs) const {
    for (Ops rest = needs; rest != 0; rest &= rest - 1) {
      if ((before_[static_cast<std::size_t>(std::countr_zero(rest))] & ops) != 0) return true;
    }
    return false;
  }

  TrafficCounter& counter_;
  const Rules& rules_;
  std::size_t count_;
  Ops all_;
  std::vector<Ops> before_;  // of each op, all that must run before it
  std::vector<Fusion> fusions_;
};

}  // namespace

std::uint64_t fewest_bytes(TrafficCounter& counter, const Rules& rules, std::uint64_t known) {
  return Exhaustive(counter, rules).fewest(known);
}

}  // namespace fusecalc::testing
