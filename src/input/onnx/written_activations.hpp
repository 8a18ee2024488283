#pragma once

#include <optional>
#include <string_view>

#include "input/onnx/importer.hpp"

namespace fusecalc {

// An activation that several operators compute: a row of the op table and its input.
struct WrittenActivation {
  std::string_view row;
  ModelGraph::TensorId x = 0;
};

// What the product of these two is, where it is one: x sigmoid(x), or x (erf(x / sqrt(2)) + 1) / 2
// with its factors in any order.
std::optional<WrittenActivation> activation_of(const OnnxImporter& in, const ModelGraph::Input& a,
                                               const ModelGraph::Input& b);

}  // namespace fusecalc
