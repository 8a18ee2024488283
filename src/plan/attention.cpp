#include "plan/attention.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "plan/reordering.hpp"

namespace fusecalc {
namespace {

class AttentionMatch {
 public:
  AttentionMatch(const ResolvedKernel& resolved, const Kernel& kernel, OpId scores, OpId weighted)
      : resolved_(resolved),
        graph_(resolved.graph()),
        kernel_(kernel),
        scores_(scores),
        weighted_(weighted) {}

  Verdict run() {
    const Verdict two{Obstacle::kSecondContraction, scores_, weighted_};
    if (graph_.ops[weighted_].row->family == OpFamily::kAttention) return before_attention();
    if (!is_matmul(scores_) || !is_matmul(weighted_)) return two;
    const Op& second = graph_.ops[weighted_];
    if (second.attributes->transpose_a || producer_of(weighted_, 0) == kNone ||
        second.matrix.batch != graph_.ops[scores_].matrix.batch) {
      return two;
    }
    for (const auto& [product, operand] : {std::pair{scores_, 0}, {scores_, 1}, {weighted_, 1}}) {
      const OpId before = producer_of(product, static_cast<std::size_t>(operand));
      if (before == kNone) continue;
      if (!has_softmax()) return two;
      const bool queries = product == scores_ && operand == 0;
      return {queries ? Obstacle::kAttentionOperand : Obstacle::kAttentionKeys, before, product,
              product == scores_ ? weighted_ : scores_};
    }
    find_between();
    std::size_t whole = 0;
    std::size_t written_out = 0;
    std::size_t reductions = 0;
    bool scores_needed = needed_outside(graph_.ops[scores_]);
    for (const OpId id : kernel_) {
      if (id == scores_ || id == weighted_) continue;
      const Op& op = graph_.ops[id];
      const bool between = between_[resolved_.index_of(id)];
      scores_needed = scores_needed || (between && needed_outside(op));
      const bool in_order = op.row->access == Access::kSame && !rearranges_operands(id);
      if (!in_order && (between || !stores_reordered(resolved_, id))) {
        return between || !has_softmax() ? two : reordered_after(id);
      }
      if (op.op_class == OpClass::kPointwise || op.op_class == OpClass::kMovement) {
        // All that is stored has the shape of the result.
        const bool other = !between && needed_outside(op) && op.work != result_elements();
        if (other) return {Obstacle::kSpaces, weighted_, id};
        continue;
      }
      if (!between && has_softmax()) return {Obstacle::kEpilogueRows, weighted_, id};
      if (!between || !over_keys(op)) return two;
      if (op.op_class == OpClass::kNormalise && op.row->softmax != SoftmaxPart::kWhole) return two;
      if (op.op_class == OpClass::kReduce) ++reductions;
      if (is(id, SoftmaxPart::kWhole)) ++whole;
      if (is_softmax_sum(id)) ++written_out;
    }
    // Written out, it has a maximum and a sum; there is no other reduction of the rows.
    const bool one = whole + written_out == 1 && reductions == 2 * written_out;
    if (!one) return two;
    return scores_needed ? Verdict{Obstacle::kScoresNeeded, scores_, weighted_} : Verdict{};
  }

 private:
  bool is_matmul(OpId id) const { return graph_.ops[id].row->family == OpFamily::kMatmul; }

  OpId producer_of(OpId id, std::size_t operand) const {
    const TensorId tensor = graph_.ops[id].operands[operand].tensor;
    if (tensor == kNone) return kNone;
    const OpId producer = graph_.value_of(tensor).producer;
    return producer != kNone && resolved_.contains(producer) ? producer : kNone;
  }

  // Why an attention op is not in the kernel of what makes its operands.
  Verdict before_attention() const {
    for (const std::size_t keys : {std::size_t{1}, std::size_t{2}}) {
      if (depends(keys)) return {Obstacle::kAttentionKeys, scores_, weighted_};
    }
    return {Obstacle::kAttentionOperand, scores_, weighted_};
  }

  // Whether this operand of the second contraction is made of the first one's result.
  bool depends(std::size_t operand) const {
    std::vector<bool> needed(kernel_.size());
    const OpId maker = producer_of(weighted_, operand);
    if (maker == kNone) return false;
    needed[resolved_.index_of(maker)] = true;
    for (std::size_t i = kernel_.size(); i-- > 0;) {
      if (!needed[i]) continue;
      for (const ResolvedKernel::Edge& edge : resolved_.edges_of(i)) {
        if (edge.inside()) needed[edge.maker] = true;
      }
    }
    return needed[resolved_.index_of(scores_)];
  }

  // An op that works on the result of the attention, not in its order.
  Verdict reordered_after(OpId id) const {
    const bool reads = graph_.ops[id].row->access == Access::kSame;
    return {reads ? Obstacle::kEpilogueOrder : Obstacle::kEpilogueMovement, weighted_, id};
  }

  bool needed_outside(const Op& op) const {
    return std::ranges::any_of(op.outputs,
                               [&](TensorId output) { return resolved_.needed_outside(output); });
  }

  std::uint64_t result_elements() const {
    return graph_.tensors[graph_.ops[weighted_].outputs[0]].elements;
  }

  // The ops on whose results the second product depends.
  void find_between() {
    between_.assign(kernel_.size(), false);
    std::vector<OpId> open = {weighted_};
    while (!open.empty()) {
      const OpId id = open.back();
      open.pop_back();
      for (std::size_t i = 0; i < graph_.ops[id].operands.size(); ++i) {
        const OpId producer = producer_of(id, i);
        if (producer == kNone || between_[resolved_.index_of(producer)]) continue;
        between_[resolved_.index_of(producer)] = true;
        open.push_back(producer);
      }
    }
  }

  bool rearranges_operands(OpId id) const {
    const auto edges = resolved_.edges_of(resolved_.index_of(id));
    return std::ranges::any_of(edges, [](const ResolvedKernel::Edge& edge) {
      const Access view = edge.input->view;
      return view == Access::kPermute || (view != Access::kSame && edge.inside());
    });
  }

  // A reduction of score rows.
  bool over_keys(const Op& op) const {
    const MatrixShape& matrix = graph_.ops[scores_].matrix;
    return op.rows.reduces_innermost() && op.rows.row_length() == matrix.columns &&
           op.rows.rows() == matrix.batch * matrix.rows;
  }

  bool is(OpId id, SoftmaxPart part) const {
    return id != kNone && graph_.ops[id].row->softmax == part;
  }

  bool has_softmax() const {
    return std::ranges::any_of(kernel_, [&](OpId id) {
      return (is(id, SoftmaxPart::kWhole) || is(id, SoftmaxPart::kSum)) &&
             over_keys(graph_.ops[id]);
    });
  }

  // The sum at the heart of exp(x - max(x)) / sum(exp(x - max(x))).
  bool is_softmax_sum(OpId id) const {
    const Op& op = graph_.ops[id];
    if (!is(id, SoftmaxPart::kSum)) return false;
    const OpId exponential = producer_of(id, 0);
    if (!is(exponential, SoftmaxPart::kExponential)) return false;
    const OpId difference = producer_of(exponential, 0);
    if (!is(difference, SoftmaxPart::kDifference)) return false;
    const OpId maximum = producer_of(difference, 1);
    if (!is(maximum, SoftmaxPart::kMaximum)) return false;
    const bool same_scores = graph_.ops[maximum].operands[0].tensor != kNone &&
                             graph_.tensors[graph_.ops[maximum].operands[0].tensor].value ==
                                 graph_.tensors[graph_.ops[difference].operands[0].tensor].value;
    const std::span<const OpId> readers = graph_.readers[op.outputs[0]];
    const bool divides = readers.size() == 1 && is(readers[0], SoftmaxPart::kQuotient) &&
                         resolved_.contains(readers[0]) &&
                         producer_of(readers[0], 0) == exponential &&
                         producer_of(readers[0], 1) == id;
    return same_scores && divides;
  }

  const ResolvedKernel& resolved_;
  const OpGraph& graph_;
  const Kernel& kernel_;
  OpId scores_;
  OpId weighted_;
  std::vector<bool> between_;
};

}  // namespace

bool stores_reordered(const ResolvedKernel& resolved, OpId id) {
  const std::size_t place = resolved.index_of(id);
  const auto edges = resolved.edges_of(place);
  return edges.size() == 1 && edges[0].inside() && !resolved.feeds_inside(place) &&
         reordering_of(resolved.graph(), resolved.graph().ops[id]).has_value();
}

Verdict check_attention(const ResolvedKernel& resolved, const Kernel& kernel, OpId scores,
                        OpId weighted) {
  return AttentionMatch(resolved, kernel, scores, weighted).run();
}

}  // namespace fusecalc
