#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "graph/inference.hpp"
#include "input/onnx/model.hpp"

namespace fusecalc {

// A small tensor whose elements are known: a shape, an axis, an index, a factor. Integers are kept
// as doubles: those that matter, extents, are far below 2^53.
struct Constant {
  TensorType type;
  std::vector<double> elements;

  std::vector<std::int64_t> integers() const;  // saturating
};

// Larger tensors are never computed here: they are weights, or as costly as what the model does.
inline constexpr std::uint64_t kMostFolded = std::uint64_t{1} << 16U;
bool may_fold(const Shape& shape);

// The elements of a tensor in the file; empty if it is large, external or not numeric.
std::optional<Constant> constant_of(const OnnxTensor& tensor);

// What a node's first output is, given all of its inputs (null: not given); empty if the node
// computes something that is not folded, or its result is large.
std::optional<Constant> fold_node(const OnnxNode& node, std::span<const Constant* const> inputs);

}  // namespace fusecalc
