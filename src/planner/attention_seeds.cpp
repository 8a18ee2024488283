#include <algorithm>
#include <cassert>
#include <vector>

#include "plan/paths.hpp"
#include "planner/search.hpp"

namespace fusecalc {
namespace {

// The most ops between the two contractions that are considered, and the most that are walked over
// to find them: those that make a mask are many, and are not part of it.
constexpr std::size_t kMostBetween = 24;
constexpr std::size_t kMostWalked = 256;

// The ops that compute the first operand of `weighted`, back to contractions; those nearest to it,
// if there are very many.
Kernel made_of(const OpGraph& graph, OpId weighted) {
  Kernel found = {weighted};
  for (std::size_t i = 0; i < found.size(); ++i) {
    const Op& op = graph.ops[found[i]];
    if (i > 0 && op.op_class == OpClass::kContract) continue;
    for (std::size_t o = 0; o < op.operands.size(); ++o) {
      if (op.operands[o].tensor == kNone || (i == 0 && o > 0)) continue;
      const OpId producer = graph.value_of(op.operands[o].tensor).producer;
      if (producer == kNone || std::ranges::find(found, producer) != found.end()) continue;
      if (found.size() == kMostWalked) return found;
      found.push_back(producer);
    }
  }
  return found;
}

// The ops among them that depend on `scores`.
Kernel between(const OpGraph& graph, OpId scores, Kernel ops) {
  std::ranges::sort(ops);
  Kernel found;
  for (const OpId id : ops) {
    const bool follows = std::ranges::any_of(graph.before[id], [&](OpId earlier) {
      return std::ranges::find(found, earlier) != found.end();
    });
    if (id == scores || follows) found.push_back(id);
  }
  return found;
}

}  // namespace

std::vector<Kernel> seed_attention(TrafficCounter& counter, const Rules& rules) {
  const OpGraph& graph = counter.graph();
  std::vector<Kernel> kernels;
  kernels.reserve(graph.ops.size());
  std::vector<bool> taken(graph.ops.size(), false);
  std::vector<OpId> ops(graph.ops.size());
  for (OpId op = 0; op < ops.size(); ++op) ops[graph.rank[op]] = op;
  for (const OpId weighted : ops) {
    if (!graph.outline[weighted].contracts()) continue;
    const Kernel source = made_of(graph, weighted);
    for (const OpId scores : source) {
      if (scores == weighted || graph.ops[scores].op_class != OpClass::kContract) continue;
      Kernel kernel = between(graph, scores, source);
      const bool free = std::ranges::none_of(kernel, [&](OpId op) { return taken[op]; });
      if (!free || kernel.size() < 3 || kernel.size() > kMostBetween + 2 ||
          !check_kernel(counter.phases(), kernel, rules).legal()) {
        continue;
      }
      for (const OpId op : kernel) taken[op] = true;
      kernels.push_back(std::move(kernel));
      break;
    }
  }
  for (OpId op = 0; op < graph.ops.size(); ++op) {
    if (!taken[op]) kernels.push_back({op});
  }
  if (!sort_canonically(graph, kernels)) {
    kernels = unfused_plan(graph).kernels;
    [[maybe_unused]] const bool sorted = sort_canonically(graph, kernels);
    assert(sorted);
  }
  return kernels;
}

}  // namespace fusecalc
