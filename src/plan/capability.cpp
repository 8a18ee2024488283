#include "plan/capability.hpp"

#include <algorithm>

#include "graph/product_parts.hpp"
#include "plan/norm_backward.hpp"
#include "plan/ordered_rows.hpp"

namespace fusecalc {

namespace {

// Tensors of one launch: their addresses lie in 4 KB of parameters, beside that of the workspace.
constexpr std::uint64_t kMostArguments = 500;
// Elements of a row that is sorted.
constexpr std::uint64_t kMostSorted = (std::uint64_t{1} << 31U) - 1;

}  // namespace

Verdict check_op(const OpGraph& graph, OpId id) {
  const OpRow& row = *graph.ops[id].row;
  if (row.family == OpFamily::kCustom) return {Obstacle::kCustom, id};
  if (!row.has_kernel) return {Obstacle::kNoKernel, id};
  const Outline::OpFacts& facts = graph.outline[id];
  if (facts.has_kernel) return {};
  if (scales_integers(graph, graph.ops[id])) return {Obstacle::kIntegerScales, id};
  return {facts.empty ? Obstacle::kEmpty : Obstacle::kTooLarge, id};
}

Verdict check_limits(const ResolvedKernel& resolved, const Kernel& kernel,
                     std::uint64_t on_chip_bytes) {
  const OpGraph& graph = resolved.graph();
  const Phases& phases = resolved.phases();
  bool writes = false;
  std::uint64_t written = 0;
  for (std::size_t i = 0; i < kernel.size(); ++i) {
    if (phases.written[i] == 0) continue;
    writes = true;
    written += phases.written[i];
    for (const Outline::Result& result : graph.outline.results_of(kernel[i])) {
      // Two threads would write one byte.
      if (is_packed(result.dtype) && resolved.needed_outside(i, result)) {
        return {Obstacle::kPacked, kernel[i]};
      }
    }
  }
  if (phases.reads.size() + written > kMostArguments) {
    return {Obstacle::kTooManyArguments, kernel.front()};
  }
  for (const OpId id : kernel) {
    const OpFamily family = graph.outline[id].family;
    if (family == OpFamily::kRowNormBackward &&
        !norm_backward_tiling(graph, graph.ops[id], on_chip_bytes)) {
      return {Obstacle::kLongRows, id};
    }
    if (family == OpFamily::kSort && ordered_rows(graph, graph.ops[id]).length > kMostSorted) {
      return {Obstacle::kTooLarge, id};
    }
    if (family != OpFamily::kAttention) continue;
    const Verdict heads = check_heads(graph, id, id, on_chip_bytes);
    if (!heads.legal()) return heads;
  }
  // Pointwise ops and movements loop over the results that are needed.
  const bool loops = phases.rows.empty() && !phases.contracts;
  return !writes && loops ? Verdict{Obstacle::kUnneeded, kernel.front()} : Verdict{};
}

Verdict check_heads(const OpGraph& graph, OpId first, OpId last, std::uint64_t on_chip_bytes,
                    bool tensor_cores) {
  const Op& op = graph.ops[last];
  const DType dtype = graph.tensors[op.outputs[0]].type.dtype;
  const auto type_of = [&](std::size_t operand) -> const TensorType& {
    return graph.tensors[op.operands[operand].tensor].type;
  };
  const auto last_extent = [&](std::size_t operand) { return type_of(operand).shape.back(); };
  const bool whole = first == last;
  const bool of_integers = whole && !is_float(type_of(0).dtype) && !is_float(type_of(2).dtype);
  if (of_integers || !is_float(dtype)) return {Obstacle::kIntegerAttention, last};
  const std::uint64_t size = whole ? last_extent(0) : graph.ops[first].matrix.depth;
  const std::uint64_t value_size = whole ? last_extent(2) : op.matrix.columns;
  const bool may_use_tensor_cores = tensor_cores && bytes_of(dtype, 1) <= 2 &&
                                    (size | value_size) % 8 == 0 &&
                                    std::max(size, value_size) <= kLargestTensorCoreHead;
  if (may_use_tensor_cores) return {};
  const std::uint64_t element_bytes = dtype == DType::kF64 ? 8 : 4;
  const std::uint64_t largest = on_chip_bytes / element_bytes;
  const bool fits = size <= largest && value_size <= largest &&
                    attention_tile_bytes(kSmallestAttentionTile, size, value_size, element_bytes) <=
                        on_chip_bytes;
  return fits ? Verdict{} : Verdict{Obstacle::kHeads, last};
}

}  // namespace fusecalc
