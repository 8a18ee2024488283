#pragma once

#include <cmath>
#include <cstdint>

#include "core/random_bits.hpp"
#include "graph/op_graph.hpp"

namespace fusecalc {

// What dropout drops, on every device, fused or not: element i (of the output, flat) is kept where
//   (random_bits(dropout_seed(op), i) >> 40) >= dropout_threshold(op),
// that is, where a draw from [0, 1) with 24 bits is at least p. What is kept is scaled by 1 / (1 -
// p).

// The op's own seed, moved by its position in the document, so that two dropouts that name no seed
// drop different elements.
inline std::uint64_t dropout_seed(const Op& op) {
  constexpr std::uint64_t kPerOp = 0xd1342543de82ef95U;
  return static_cast<std::uint64_t>(op.attributes->seed) + (op.position + 1) * kPerOp;
}

inline std::uint64_t dropout_threshold(const Op& op) {
  return static_cast<std::uint64_t>(std::ceil(op.attributes->p * 0x1p24));
}

inline bool dropout_keeps(const Op& op, std::uint64_t element) {
  return random_bits(dropout_seed(op), element) >> 40U >= dropout_threshold(op);
}

}  // namespace fusecalc
