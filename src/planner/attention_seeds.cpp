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

// Finds the ops of attention that is written out, from its second contraction.
class Tracer {
 public:
  explicit Tracer(const OpGraph& graph) : graph_(graph), marks_(graph.ops.size(), 0) {}

  // The ops that compute the first operand of `weighted`, back to contractions; those nearest to
  // it, if there are very many.
  const Kernel& trace(OpId weighted) {
    ++mark_;
    found_.clear();
    add(weighted);
    const TensorId weights = graph_.ops[weighted].operands[0].tensor;
    if (weights == kNone || !add(graph_.value_of(weights).producer)) return found_;
    for (std::size_t i = 1; i < found_.size(); ++i) {
      if (graph_.outline[found_[i]].contracts()) continue;
      for (const Outline::Input& input : graph_.outline.inputs_of(found_[i])) {
        add(input.producer);
        if (found_.size() == kMostWalked) return found_;
      }
    }
    return found_;
  }

  // The ops among `ascending` that depend on `scores`; empty if they are too many.
  Kernel between(OpId scores, const Kernel& ascending) {
    ++mark_;
    Kernel found;
    for (auto at = std::ranges::lower_bound(ascending, scores); at != ascending.end(); ++at) {
      const OpId id = *at;
      const bool follows = std::ranges::any_of(
          graph_.before[id], [&](OpId earlier) { return marks_[earlier] == mark_; });
      if (id != scores && !follows) continue;
      if (found.size() == kMostBetween + 2) return {};
      marks_[id] = mark_;
      found.push_back(id);
    }
    return found;
  }

 private:
  // Returns whether that is an op that was not found before.
  bool add(OpId op) {
    if (op == kNone || marks_[op] == mark_) return false;
    marks_[op] = mark_;
    found_.push_back(op);
    return true;
  }

  const OpGraph& graph_;
  Kernel found_;
  std::uint32_t mark_ = 0;
  std::vector<std::uint32_t> marks_;  // of each op: the last search that found it
};

// Cheap to tell, of very many contractions.
bool may_be_scores(const OpGraph& graph, OpId scores, OpId weighted) {
  if (graph.ops[scores].row->family != OpFamily::kMatmul) return false;
  const MatrixShape& first = graph.ops[scores].matrix;
  const MatrixShape& second = graph.ops[weighted].matrix;
  return first.batch == second.batch && first.rows == second.rows && first.columns == second.depth;
}

}  // namespace

std::vector<Kernel> seed_attention(TrafficCounter& counter, const Rules& rules) {
  const OpGraph& graph = counter.graph();
  std::vector<Kernel> kernels;
  kernels.reserve(graph.ops.size());
  std::vector<bool> taken(graph.ops.size(), false);
  std::vector<OpId> ops(graph.ops.size());
  for (OpId op = 0; op < ops.size(); ++op) ops[graph.rank[op]] = op;
  Tracer tracer(graph);
  for (const OpId weighted : ops) {
    if (graph.ops[weighted].row->family != OpFamily::kMatmul) continue;
    const Kernel source = tracer.trace(weighted);
    Kernel ascending = source;
    std::ranges::sort(ascending);
    for (const OpId scores : source) {
      if (scores == weighted || taken[scores] || !may_be_scores(graph, scores, weighted)) continue;
      Kernel kernel = tracer.between(scores, ascending);
      const bool free = std::ranges::none_of(kernel, [&](OpId op) { return taken[op]; });
      if (!free || kernel.size() < 3 || !check_kernel(counter.phases(), kernel, rules).legal()) {
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
