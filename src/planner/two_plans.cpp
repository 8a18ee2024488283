#include "planner/two_plans.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace fusecalc {
namespace {

// Sets of ops, merged step by step; the smallest op stands for its set.
class OpSets {
 public:
  explicit OpSets(std::size_t ops) : parents_(ops) {
    std::iota(parents_.begin(), parents_.end(), 0);
  }

  OpId of(OpId op) {
    while (parents_[op] != op) op = parents_[op] = parents_[parents_[op]];
    return op;
  }
  void merge(const Kernel& kernel) {
    for (const OpId op : kernel) {
      const OpId a = of(kernel.front());
      const OpId b = of(op);
      parents_[std::max(a, b)] = std::min(a, b);
    }
  }

 private:
  std::vector<OpId> parents_;
};

}  // namespace

std::vector<Kernel> launchable_parts(TrafficCounter& counter, const Rules& rules,
                                     const std::vector<Kernel>& kernels) {
  std::vector<Kernel> parts;
  for (const Kernel& kernel : kernels) {
    if (check_kernel(counter.phases(), kernel, rules).legal()) {
      parts.push_back(kernel);
    } else {
      for (const OpId op : kernel) parts.push_back({op});
    }
  }
  return parts;
}

std::vector<Kernel> better_parts(const OpGraph& graph, const std::vector<Kernel>& first,
                                 const std::vector<Kernel>& second, const Prefers& prefers) {
  OpSets sets(graph.ops.size());
  for (const std::vector<Kernel>* plan : {&first, &second}) {
    for (const Kernel& kernel : *plan) sets.merge(kernel);
  }
  struct Pair {
    std::vector<Kernel> first;
    std::vector<Kernel> second;
  };
  std::vector<Pair> pairs(graph.ops.size());
  for (const Kernel& kernel : first) pairs[sets.of(kernel.front())].first.push_back(kernel);
  for (const Kernel& kernel : second) pairs[sets.of(kernel.front())].second.push_back(kernel);
  std::vector<Kernel> result;
  for (Pair& pair : pairs) {
    // The same single kernel needs no comparison.
    const bool differ = pair.first.size() > 1 || pair.second.size() > 1;
    const bool take_second = differ && prefers(pair.first, pair.second);
    for (Kernel& kernel : take_second ? pair.second : pair.first) {
      result.push_back(std::move(kernel));
    }
  }
  // Parts of two plans may wait for each other.
  return sort_kernels(graph, result) ? result : first;
}

}  // namespace fusecalc
