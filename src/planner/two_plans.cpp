#include "planner/two_plans.hpp"

#include <algorithm>
#include <iterator>
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
  struct Member {
    OpId set = kNone;
    bool second = false;  // a kernel of the second plan
    KernelId kernel = 0;

    auto operator<=>(const Member&) const = default;
  };
  std::vector<Member> members;
  members.reserve(first.size() + second.size());
  for (KernelId k = 0; k < first.size(); ++k)
    members.push_back({sets.of(first[k].front()), false, k});
  for (KernelId k = 0; k < second.size(); ++k)
    members.push_back({sets.of(second[k].front()), true, k});
  std::ranges::sort(members);
  std::vector<Kernel> result;
  for (auto member = members.begin(); member != members.end();) {
    std::vector<Kernel> of_first;
    std::vector<Kernel> of_second;
    const OpId set = member->set;
    for (; member != members.end() && member->set == set; ++member) {
      if (member->second) {
        of_second.push_back(second[member->kernel]);
      } else {
        of_first.push_back(first[member->kernel]);
      }
    }
    // The same single kernel needs no comparison.
    const bool differ = of_first.size() > 1 || of_second.size() > 1;
    std::vector<Kernel>& taken = differ && prefers(of_first, of_second) ? of_second : of_first;
    std::ranges::move(taken, std::back_inserter(result));
  }
  // Parts of two plans may wait for each other.
  return sort_kernels(graph, result) ? result : first;
}

}  // namespace fusecalc
