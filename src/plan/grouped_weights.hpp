#pragma once

#include <cstdint>
#include <optional>

#include "graph/op_graph.hpp"
#include "plan/kernel.hpp"

namespace fusecalc {

// Weights that the prologue of a product computes from packed integers, each the same affine
// function of its integer as its neighbours: (q - zero) * scale, for example.
struct GroupedWeights {
  TensorId packed = kNone;  // i4 or u4; as many elements as there are weights, in their order
  std::uint64_t group = 0;  // neighbours along k with the same function: 32, 64 or 128
};

// Nothing if the weights of the kernel's contraction are others, if it has more than 16 rows, or if
// k is no multiple of 128.
std::optional<GroupedWeights> grouped_weights(const OpGraph& graph, const Kernel& kernel,
                                              OpId contraction);

}  // namespace fusecalc
