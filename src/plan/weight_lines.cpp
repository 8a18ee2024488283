#include "plan/weight_lines.hpp"

#include "graph/product_parts.hpp"
#include "plan/view_steps.hpp"

namespace fusecalc {

std::optional<WeightLines> weight_lines(const OpGraph& graph, const Op& product) {
  const TensorId operand = product.operands[1].tensor;
  const Tensor& weights = graph.tensors[operand];
  const std::uint64_t groups = groups_of(graph, product);
  const bool one = is_matrix_product(product.row->family) && weights.type.shape.size() == 2;
  if (!one && groups == 0) return {};
  const auto [batch, rows, columns, depth] = product.matrix;
  const bool along =
      product.row->family == OpFamily::kLinear || product.attributes->transpose_b || columns == 1;
  if (weights.maps.empty()) return along ? WeightLines::kAlongDepth : WeightLines::kAcrossDepth;
  if (weights.elements != graph.tensors[weights.value].elements) return {};
  const auto apart = distance(graph, operand, columns, along ? depth : 1);
  const auto step = distance(graph, operand, depth, along ? 1 : columns);
  if (!apart || !step || offset_of(graph, operand) != std::uint64_t{0}) return {};
  const std::uint64_t matrix = columns * depth;
  if (groups > 1 && distance(graph, operand, groups, matrix) != matrix) return {};
  if (*step == 1 && *apart == depth) return WeightLines::kAlongDepth;
  if (*apart == 1 && *step == columns) return WeightLines::kAcrossDepth;
  return {};
}

}  // namespace fusecalc
