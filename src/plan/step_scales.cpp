#include "plan/step_scales.hpp"

#include "graph/product_parts.hpp"
#include "plan/tiling.hpp"

namespace fusecalc {

bool fits_fp8_sums(const OpGraph& graph, const Op& product) {
  constexpr std::uint64_t kMostBytes = 2;
  return bytes_of(graph.tensors[product.outputs[0]].type.dtype, 1) <= kMostBytes;
}

bool scales_steps(const OpGraph& graph, const Op& product) {
  for (const std::size_t which : {std::size_t{0}, std::size_t{1}}) {
    const std::uint64_t blocks = scales_of(graph, product, which).depth;
    const bool whole = blocks == 1 || product.matrix.depth / blocks % kBoxBytes == 0;
    if (!whole || !is_fp8(graph.tensors[product.operands[which].tensor].type.dtype)) return false;
  }
  return fits_fp8_sums(graph, product);
}

}  // namespace fusecalc
