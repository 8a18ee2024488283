#include "graph/product_parts.hpp"

#include <algorithm>
#include <array>

namespace fusecalc {

TensorId bias_of(const Op& product) {
  std::size_t place = 2;
  switch (product.row->family) {
    case OpFamily::kLinear:
    case OpFamily::kConvolution: break;
    case OpFamily::kScaledMatmul: place = 4; break;
    default: return kNone;
  }
  return product.operands.size() > place ? product.operands[place].tensor : kNone;
}

std::uint64_t groups_of(const OpGraph& graph, const Op& product) {
  if (product.row->family != OpFamily::kGroupedMatmul) return 0;
  return graph.tensors[product.operands[1].tensor].type.shape[0];
}

Scales scales_of(const OpGraph& graph, const Op& product, std::size_t which) {
  if (product.row->family != OpFamily::kScaledMatmul) return {};
  const Tensor& scales = graph.tensors[product.operands[2 + which].tensor];
  if (scales.elements == 1) return {.tensor = product.operands[2 + which].tensor};
  return {.tensor = product.operands[2 + which].tensor,
          .lines = scales.type.shape[which],
          .depth = scales.type.shape[1 - which]};
}

bool scales_sums(const OpGraph& graph, const Op& product) {
  if (product.row->family != OpFamily::kScaledMatmul) return true;
  const std::array lines = {product.matrix.rows, product.matrix.columns};
  for (const std::size_t which : {std::size_t{0}, std::size_t{1}}) {
    const Scales scales = scales_of(graph, product, which);
    const bool each = scales.lines == 1 || scales.lines == lines[which];
    if (scales.depth != 1 || !each) return false;
  }
  return true;
}

std::uint64_t scaled_columns(const OpGraph& graph, const Op& product) {
  if (scales_sums(graph, product)) return 0;
  return product.matrix.columns / scales_of(graph, product, 1).lines;
}

bool scales_integers(const OpGraph& graph, const Op& product) {
  return product.row->family == OpFamily::kScaledMatmul &&
         !is_float(graph.tensors[product.outputs[0]].type.dtype);
}

}  // namespace fusecalc
