#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "input/model_graph.hpp"

namespace fusecalc {

// A tensor, and where its elements lie.
struct StridedTensor {
  ModelGraph::TensorId tensor = 0;
  std::vector<std::int64_t> strides;
};

// Products and sums along axes that letters name ("bij,bjk->bik"), as PyTorch and ONNX have them:
// written as products of matrices or of elements, and sums; a single operand without a sum is a
// view. Nothing where an operand names an axis twice, or the letters do not fit the shapes.
std::optional<StridedTensor> write_einsum(ModelGraph& graph, std::string equation,
                                          std::vector<StridedTensor> operands);

}  // namespace fusecalc
