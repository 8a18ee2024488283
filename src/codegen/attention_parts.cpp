// Finds the operands of an attention kernel among its ops, and writes what is applied to scores
// and weights.

#include "codegen/attention_parts.hpp"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "codegen/elements.hpp"
#include "codegen/indices.hpp"

namespace fusecalc {
namespace {

// Neighbouring scores: as many as the building block asks for, one or two.
CodeBlock score_group() { return {.width = 2, .width_text = "kCount"}; }

bool is_factor(const Op& op, std::size_t i) { return ((op.row->factors >> i) & 1U) != 0; }

class AttentionFinder {
 public:
  AttentionFinder(KernelCode& code, OpId first, OpId last, ComputeType type)
      : code_(code),
        kernel_(code.view()),
        graph_(kernel_.graph()),
        first_(first),
        op_(kernel_.op(last)),
        type_(type) {}

  AttentionParts find(bool products) {
    if (products) {
      take_products();
    } else {
      take_op();
    }
    // The blocks of scores and weights compute one element at a time, without results of rows.
    const auto by_rows = [](const std::optional<CodeBlock>& block) {
      return block && !block->row_results.empty();
    };
    if (by_rows(parts_.scores) || by_rows(parts_.weights)) {
      cannot_generate(op_, "more than one softmax reduces its scores");
    }
    return std::move(parts_);
  }

 private:
  const Shape& shape_of(const Op& op, std::size_t operand) const {
    return graph_.tensors[op.operands[operand].tensor].type.shape;
  }
  OpId producer_inside(TensorId tensor) const;
  void take_sizes();
  void take_op();
  void take_products();
  void find_softmax();
  bool is_scale(TensorId scores, TensorId input);
  Loop loop_over_scores() const;
  void write_variant(std::optional<CodeBlock>& written, TensorId from, TensorId to);
  void write_scores(TensorId scores, TensorId input);
  void write_weights(TensorId weights);
  bool in_proportion(TensorId made, TensorId weights) const;
  void write_mask();

  KernelCode& code_;
  const KernelView& kernel_;
  const OpGraph& graph_;
  OpId first_;
  const Op& op_;
  ComputeType type_;
  AttentionParts parts_;
};

OpId AttentionFinder::producer_inside(TensorId tensor) const {
  if (tensor == kNone) return kNone;
  const OpId producer = graph_.value_of(tensor).producer;
  return producer != kNone && kernel_.contains(producer) ? producer : kNone;
}

void AttentionFinder::take_sizes() {
  parts_.queries = parts_.operands[0].lines;
  parts_.size = parts_.operands[0].columns;
  parts_.keys = parts_.operands[1].lines;
  parts_.value_size = parts_.operands[2].columns;
}

void AttentionFinder::take_op() {
  for (std::size_t i = 0; i < parts_.operands.size(); ++i) {
    const Shape& shape = shape_of(op_, i);
    const std::vector<std::uint64_t> strides = strides_of(shape);
    parts_.operands[i] = {.tensor = op_.operands[i].tensor,
                          .batch = {shape.begin(), shape.end() - 2},
                          .order = {.line = strides[strides.size() - 2],
                                    .depth = 1,
                                    .batch = {strides.begin(), strides.end() - 2}},
                          .lines = shape[shape.size() - 2],
                          .columns = shape.back()};
  }
  const Shape& q = shape_of(op_, 0);
  take_sizes();
  parts_.heads = q[q.size() - 3];
  parts_.key_heads = parts_.operands[1].batch.back();
  parts_.batches = elements_between(q, 0, q.size() - 3);
  parts_.scale = op_.attributes->scale.value_or(1 / std::sqrt(static_cast<double>(q.back())));
  parts_.causal = op_.attributes->causal;
  parts_.window = parts_.keys;
  if (const auto window = op_.attributes->window) {
    parts_.window = std::min(parts_.keys, static_cast<std::uint64_t>(*window));
  }
  if (op_.operands.size() > 3) write_mask();
}

void AttentionFinder::take_products() {
  const Op& scores = kernel_.op(first_);
  const Shape batch = batch_axes(graph_, scores);
  // The same number of matrices, however views arrange their axes.
  const Shape batch_of_values = batch_axes(graph_, op_);
  parts_.apart = batch != batch_of_values;
  if (op_.matrix.batch != scores.matrix.batch) cannot_generate(op_, "scores are used repeatedly");
  parts_.heads = parts_.key_heads = batch.empty() ? 1 : batch.back();
  parts_.batches = batch.empty() ? 1 : elements_between(batch, 0, batch.size() - 1);
  const MatrixShape& matrix = scores.matrix;
  parts_.operands[0] = {scores.operands[0].tensor, batch, operand_order(graph_, scores, 0),
                        matrix.rows, matrix.depth};
  parts_.operands[1] = {scores.operands[1].tensor, batch, operand_order(graph_, scores, 1),
                        matrix.columns, matrix.depth};
  parts_.operands[2] = {op_.operands[1].tensor, batch_of_values, operand_order(graph_, op_, 1),
                        matrix.columns, op_.matrix.columns};
  std::swap(parts_.operands[2].order.line, parts_.operands[2].order.depth);  // its lines are keys
  take_sizes();
  find_softmax();
}

// The softmax between the products, whole or as exp(x - max) / sum.
void AttentionFinder::find_softmax() {
  const auto maker = [&](OpId id, std::size_t operand, SoftmaxPart part) {
    const OpId producer = producer_inside(kernel_.op(id).operands[operand].tensor);
    return producer != kNone && kernel_.op(producer).row->softmax == part ? producer : kNone;
  };
  for (const OpId id : kernel_.ops()) {
    const Op& op = kernel_.op(id);
    TensorId input = kNone;
    if (op.row->softmax == SoftmaxPart::kWhole) {
      input = op.operands[0].tensor;
    } else if (op.row->softmax == SoftmaxPart::kQuotient &&
               maker(id, 1, SoftmaxPart::kSum) != kNone) {
      const OpId exponential = maker(id, 0, SoftmaxPart::kExponential);
      const OpId sub =
          exponential != kNone ? maker(exponential, 0, SoftmaxPart::kDifference) : kNone;
      if (sub != kNone) input = kernel_.op(sub).operands[0].tensor;
    }
    if (input == kNone) continue;
    write_scores(kernel_.op(first_).outputs[0], input);
    write_weights(op.outputs[0]);
    return;
  }
  cannot_generate(op_, "there is no softmax between its two products");
}

// The building block itself multiplies scores by a positive number.
bool AttentionFinder::is_scale(TensorId scores, TensorId input) {
  if (graph_.tensors[input].value == scores) return true;
  const OpId id = producer_inside(input);
  if (id == kNone) return false;
  const Op& op = kernel_.op(id);
  if (op.row->factors == 0 || op.operands.size() != 2 || op.operands[0].tensor != scores ||
      op.operands[1].tensor != kNone || op.operands[1].number <= 0) {
    return false;
  }
  const bool divides = !is_factor(op, 1);
  parts_.scale = divides ? 1 / op.operands[1].number : op.operands[1].number;
  return true;
}

// Rows and keys apart, so that a row's part of an index is computed once.
Loop AttentionFinder::loop_over_scores() const {
  const Index element{.name = "i", .pattern = LanePattern::kUnit, .aligned = false};
  return {.element = element,
          .matrix = MatrixLoop{.type = type_,
                               .rows = parts_.batches * parts_.heads * parts_.queries,
                               .columns = parts_.keys,
                               .whole = true}};
}

// Writes code from elements of one tensor, which the block is given, to the same of another.
void AttentionFinder::write_variant(std::optional<CodeBlock>& written, TensorId from, TensorId to) {
  CodeBlock& block = written.emplace(score_group());
  const Loop loop = loop_over_scores();
  block.values[{from, loop.element.name}] = {.text = "v[j]", .type = type_};
  const Value value = converted(element({code_, loop, block}, to, loop.element), type_);
  block.lanes += fmt::format("v[j] = {};\n", value.text);
}

void AttentionFinder::write_scores(TensorId scores, TensorId input) {
  if (is_scale(scores, input)) return;
  write_variant(parts_.scores, scores, input);
}

// Whether what is computed from a weight is proportional to it.
bool AttentionFinder::in_proportion(TensorId made, TensorId weights) const {
  if (graph_.tensors[made].value == weights) return true;
  const OpId id = producer_inside(made);
  if (id == kNone) return false;
  const Op& op = kernel_.op(id);
  const auto follows = [&](std::size_t i) {
    const TensorId tensor = op.operands[i].tensor;
    return tensor != kNone && in_proportion(tensor, weights);
  };
  const auto is_apart = [&](std::size_t i) {
    return producer_inside(op.operands[i].tensor) == kNone;
  };
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    if (!is_factor(op, i) || !follows(i)) continue;
    if (op.operands.size() == 1 || is_apart(1 - i)) return true;
  }
  return false;
}

void AttentionFinder::write_weights(TensorId weights) {
  const TensorId used = op_.operands[0].tensor;
  if (graph_.tensors[used].value == weights) return;
  parts_.in_proportion = in_proportion(used, weights);
  write_variant(parts_.weights, weights, used);
}

// A bool mask keeps scores where it is true, any other is added to them.
void AttentionFinder::write_mask() {
  CodeBlock& block = parts_.scores.emplace(score_group());
  const TensorId mask = op_.operands[3].tensor;
  Shape scores = shape_of(op_, 0);
  scores.back() = parts_.keys;
  const Loop loop = loop_over_scores();
  const Scope scope{code_, loop, block};
  const Value value =
      element(scope, mask, mapped(scope, loop.element, broadcast_map(shape_of(op_, 3), scores)));
  block.lanes += value.type == ComputeType::kBool
                     ? fmt::format("v[j] = {} ? v[j] : lowest();\n", value.text)
                     : fmt::format("v[j] += {};\n", converted(value, type_).text);
}

}  // namespace

AttentionParts attention_parts(KernelCode& code, OpId first, OpId last, ComputeType type) {
  return AttentionFinder(code, first, last, type).find(first != last);
}

}  // namespace fusecalc
