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

class AttentionFinder {
 public:
  AttentionFinder(KernelCode& code, OpId first, OpId last, ComputeType type)
      : code_(code),
        kernel_(code.view()),
        graph_(kernel_.graph()),
        first_(first),
        last_(last),
        op_(kernel_.op(last)),
        type_(type) {}

  AttentionParts find(bool products) {
    parts_.operands = attention_operands(graph_, first_, last_);
    take_sizes();
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
  void write_mask();

  KernelCode& code_;
  const KernelView& kernel_;
  const OpGraph& graph_;
  OpId first_;
  OpId last_;
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
  const Shape& q = shape_of(op_, 0);
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
  if (op_.matrix.batch != scores.matrix.batch) cannot_generate(op_, "scores are used repeatedly");
  const Shape& batch = parts_.operands[0].batch;
  parts_.heads = parts_.key_heads = batch.empty() ? 1 : batch.back();
  parts_.batches = batch.empty() ? 1 : elements_between(batch, 0, batch.size() - 1);
  find_softmax();
}

void AttentionFinder::find_softmax() {
  const std::optional<AttentionSoftmax> softmax = attention_softmax(graph_, kernel_.ops());
  if (!softmax) cannot_generate(op_, "there is no softmax between its two products");
  write_scores(kernel_.op(first_).outputs[0], softmax->scores);
  write_weights(softmax->weights);
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
  const bool divides = (op.row->factors >> 1 & 1U) == 0;
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

void AttentionFinder::write_weights(TensorId weights) {
  const TensorId used = op_.operands[0].tensor;
  if (graph_.tensors[used].value == weights) return;
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
