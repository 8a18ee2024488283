#include "profile/op_order.hpp"

#include <algorithm>
#include <numeric>

namespace fusecalc {

bool is_heavy(const Op& op) {
  return op.op_class == OpClass::kContract || op.row->family == OpFamily::kAttention;
}

OpOrder written_order(const OpGraph& graph) {
  OpOrder order(graph.ops.size());
  std::iota(order.begin(), order.end(), OpId{0});
  return order;
}

OpOrder order_of_use(const OpGraph& graph) {
  OpOrder order = written_order(graph);
  OpOrder use = order;  // per op: the op that it runs right before, or itself
  std::vector<bool> is_used(use.size());
  for (auto op = static_cast<OpId>(use.size()); op-- > 0;) {
    for (const OpId other : graph.before[op]) {
      if (is_heavy(graph.ops[other])) continue;
      use[other] = is_used[other] ? std::min(use[other], use[op]) : use[op];
      is_used[other] = true;
    }
  }
  std::ranges::stable_sort(order, {}, [&](OpId op) { return use[op]; });
  return order;
}

}  // namespace fusecalc
