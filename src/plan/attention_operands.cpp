#include "plan/attention_operands.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/ceil_div.hpp"
#include "plan/attention_tiling.hpp"
#include "plan/view_steps.hpp"

namespace fusecalc {
namespace {

OpId producer_inside(const OpGraph& graph, const Kernel& kernel, TensorId tensor) {
  if (tensor == kNone) return kNone;
  const OpId producer = graph.value_of(tensor).producer;
  return producer != kNone && std::ranges::binary_search(kernel, producer) ? producer : kNone;
}

// Whether a tensor is a multiple of the weights, by a number for each element.
bool follows_weights(const OpGraph& graph, const Kernel& kernel, TensorId made, TensorId weights) {
  if (graph.tensors[made].value == weights) return true;
  const OpId id = producer_inside(graph, kernel, made);
  if (id == kNone) return false;
  const Op& op = graph.ops[id];
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    const bool factor = (op.row->factors >> i & 1U) != 0;
    const TensorId tensor = op.operands[i].tensor;
    if (!factor || tensor == kNone || !follows_weights(graph, kernel, tensor, weights)) continue;
    if (op.operands.size() == 1) return true;
    if (producer_inside(graph, kernel, op.operands[1 - i].tensor) == kNone) return true;
  }
  return false;
}

// Nothing if views or broadcasts leave no contiguous rows at a constant stride. Heads that a view
// repeats, each for some of the queries' heads, count once.
std::optional<OperandStrides> strides_of_rows(const OpGraph& graph, const Matrices& operand) {
  const TensorId tensor = operand.tensor;
  const auto row = distance(graph, tensor, operand.lines, operand.order.line);
  const auto along = distance(graph, tensor, operand.columns, operand.order.depth);
  const auto offset = offset_of(graph, tensor);
  if (!row || !along || !offset || (operand.columns > 1 && *along != 1)) return std::nullopt;
  if (operand.lines > 1 && *row == 0) return std::nullopt;
  OperandStrides strides{.tensor = graph.tensors[tensor].value, .offset = *offset, .row = *row};
  std::uint64_t extent = 1;  // of the axes before it that are one
  for (std::size_t i = 0; i < operand.batch.size(); ++i) {
    auto apart = distance(graph, tensor, operand.batch[i], operand.order.batch[i]);
    if (i + 1 == operand.batch.size()) {
      strides.heads = operand.batch[i];
      const auto heads = digits_of(graph, tensor, operand.batch[i], operand.order.batch[i]);
      const bool repeats = heads && heads->size() == 2 && heads->back().stride == 0;
      if (repeats) {
        strides.heads = heads->front().extent;
        apart = heads->front().stride;
      }
      if (!apart) return std::nullopt;
      strides.head = *apart;
    } else if (!apart) {
      return std::nullopt;
    } else if (operand.batch[i] > 1) {
      if (extent > 1 && strides.batch != *apart * operand.batch[i]) return std::nullopt;
      strides.batch = *apart;
      extent *= operand.batch[i];
    }
  }
  return strides;
}

// Of keys or values that the kernel itself gathers.
std::optional<OperandStrides> strides_in_pages(const OpGraph& graph, const Op& attention,
                                               std::size_t which, const Matrices& operand) {
  if (attention.row->family != OpFamily::kAttention) return std::nullopt;
  const std::optional<PagedRows> pages = paged_rows(graph, attention, which);
  if (!pages) return std::nullopt;
  return OperandStrides{.tensor = pages->pool,
                        .heads = operand.batch.back(),
                        .offset = pages->offset,
                        .row = pages->row,
                        .head = pages->head,
                        .pages = pages};
}

bool is_attention(const OpGraph& graph, OpId first, OpId last) {
  const Op& one = graph.ops[first];
  const Op& other = graph.ops[last];
  if (first == last) return one.row->family == OpFamily::kAttention;
  return one.row->family == OpFamily::kMatmul && other.row->family == OpFamily::kMatmul &&
         one.matrix.batch == other.matrix.batch;
}

bool takes_types(const OpGraph& graph, const std::array<OperandStrides, 3>& operands,
                 TensorId result) {
  const DType type = graph.tensors[operands[0].tensor].type.dtype;
  const DType made = graph.tensors[result].type.dtype;
  const bool alike = std::ranges::all_of(operands, [&](const OperandStrides& operand) {
    return graph.tensors[operand.tensor].type.dtype == type;
  });
  return alike && attends_on_tensor_cores(type) && is_float(made) && made != DType::kF64;
}

}  // namespace

std::array<Matrices, 3> attention_operands(const OpGraph& graph, OpId first, OpId last) {
  const Op& op = graph.ops[last];
  std::array<Matrices, 3> operands;
  if (first == last) {
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const Shape& shape = graph.tensors[op.operands[i].tensor].type.shape;
      const std::vector<std::uint64_t> strides = strides_of(shape);
      operands[i] = {.tensor = op.operands[i].tensor,
                     .batch = {shape.begin(), shape.end() - 2},
                     .order = {.line = strides[strides.size() - 2],
                               .depth = 1,
                               .batch = {strides.begin(), strides.end() - 2}},
                     .lines = shape[shape.size() - 2],
                     .columns = shape.back()};
    }
    return operands;
  }
  const Op& scores = graph.ops[first];
  const MatrixShape& matrix = scores.matrix;
  const Shape batch = batch_axes(graph, scores);
  operands[0] = {scores.operands[0].tensor, batch, operand_order(graph, scores, 0), matrix.rows,
                 matrix.depth};
  operands[1] = {scores.operands[1].tensor, batch, operand_order(graph, scores, 1), matrix.columns,
                 matrix.depth};
  // The same number of matrices, however views arrange their axes.
  operands[2] = {op.operands[1].tensor, batch_axes(graph, op), operand_order(graph, op, 1),
                 matrix.columns, op.matrix.columns};
  std::swap(operands[2].order.line, operands[2].order.depth);  // its lines are keys
  return operands;
}

std::optional<AttentionSoftmax> attention_softmax(const OpGraph& graph, const Kernel& kernel) {
  const auto maker = [&](OpId id, std::size_t operand, SoftmaxPart part) {
    const OpId producer = producer_inside(graph, kernel, graph.ops[id].operands[operand].tensor);
    return producer != kNone && graph.ops[producer].row->softmax == part ? producer : kNone;
  };
  for (const OpId id : kernel) {
    const Op& op = graph.ops[id];
    if (op.row->softmax == SoftmaxPart::kWhole) {
      return AttentionSoftmax{op.operands[0].tensor, op.outputs[0]};
    }
    if (op.row->softmax != SoftmaxPart::kQuotient || maker(id, 1, SoftmaxPart::kSum) == kNone) {
      continue;
    }
    const OpId exponential = maker(id, 0, SoftmaxPart::kExponential);
    const OpId sub = exponential != kNone ? maker(exponential, 0, SoftmaxPart::kDifference) : kNone;
    if (sub != kNone) return AttentionSoftmax{graph.ops[sub].operands[0].tensor, op.outputs[0]};
  }
  return std::nullopt;
}

bool in_proportion(const OpGraph& graph, const Kernel& kernel, OpId first, OpId last) {
  if (first == last) return true;
  const std::optional<AttentionSoftmax> softmax = attention_softmax(graph, kernel);
  return softmax &&
         follows_weights(graph, kernel, graph.ops[last].operands[0].tensor, softmax->weights);
}

std::optional<TensorCoreAttention> tensor_core_attention(const OpGraph& graph, const Kernel& kernel,
                                                         OpId first, OpId last,
                                                         ComputeCapability capability) {
  if (capability < kFirstWithCopies || !is_attention(graph, first, last)) return std::nullopt;
  const Op& op = graph.ops[last];
  const std::array<Matrices, 3> matrices = attention_operands(graph, first, last);
  const Matrices& queries = matrices[0];
  const Matrices& values = matrices[2];
  if (first != last && queries.batch != values.batch) return std::nullopt;
  constexpr std::uint64_t kPieceBytes = 16;
  TensorCoreAttention found{.operands = {},
                            .element_bytes = bytes_of(graph.tensors[queries.tensor].type.dtype, 1)};
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    const bool made = producer_inside(graph, kernel, matrices[i].tensor) != kNone;
    const std::optional<OperandStrides> strides =
        made ? strides_in_pages(graph, op, i, matrices[i]) : strides_of_rows(graph, matrices[i]);
    if (!strides) return std::nullopt;
    found.operands[i] = *strides;
    const std::uint64_t of_piece = kPieceBytes / found.element_bytes;
    if ((strides->offset | strides->row | strides->head | strides->batch) % of_piece != 0) {
      return std::nullopt;
    }
  }
  const std::uint64_t heads = queries.batch.empty() ? 1 : queries.batch.back();
  if (found.operands[0].heads != heads || found.operands[1].heads != found.operands[2].heads) {
    return std::nullopt;
  }
  const std::optional<std::uint64_t> head =
      tensor_core_head(queries.columns, values.columns, found.element_bytes);
  if (!head || !takes_types(graph, found.operands, op.outputs[0])) return std::nullopt;
  found.head = *head;
  constexpr std::uint64_t kMostBlocks = 65535;
  const std::uint64_t batches =
      queries.batch.empty() ? 1 : elements_between(queries.batch, 0, queries.batch.size() - 1);
  if (heads > kMostBlocks || batches > kMostBlocks || ceil_div(queries.lines, 64) > kMostBlocks) {
    return std::nullopt;
  }
  // A mask changes scores that are scaled already.
  const bool scales =
      first != last || op.attributes->scale.value_or(1) > 0 || op.operands.size() > 3;
  return scales && in_proportion(graph, kernel, first, last) ? std::optional(found) : std::nullopt;
}

}  // namespace fusecalc
