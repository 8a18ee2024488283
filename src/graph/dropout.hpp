#pragma once

#include <cmath>
#include <cstdint>

#include "core/random_bits.hpp"
#include "graph/op_graph.hpp"

namespace fusecalc {

// What dropout drops, on every device, fused or not: element i (of the output, flat) is kept where
//   dropout_draw(dropout_seed(op), i) >= dropout_threshold(op),
// that is, where a draw from [0, 1) with 24 bits is at least p. What is kept is scaled by 1 / (1 -
// p).

// A draw from [0, 2^24): a golden-ratio sequence offset by the seed, mixed by two multiplications.
// All arithmetic is 32-bit, so that a GPU can run it in the epilogue of a matrix product at little
// cost.
constexpr std::uint32_t dropout_draw(std::uint64_t seed, std::uint64_t i) {
  const std::uint64_t key = random_bits(seed, 0);
  const auto low = static_cast<std::uint32_t>(i);
  const auto high = static_cast<std::uint32_t>(i >> 32U);
  std::uint32_t x = low * 0x9e3779b9U + high * 0x85ebca6bU + static_cast<std::uint32_t>(key);
  x = (x ^ x >> 16U) * 0x21f0aaadU ^ (static_cast<std::uint32_t>(key >> 32U) + high);
  x = (x ^ x >> 15U) * 0xd35a2d97U;
  return (x ^ x >> 15U) >> 8U;
}

// The op's seed, offset by its position in the document, so that two dropouts without a seed drop
// different elements.
inline std::uint64_t dropout_seed(const Op& op) {
  constexpr std::uint64_t kPerOp = 0xd1342543de82ef95U;
  return static_cast<std::uint64_t>(op.attributes->seed) + (op.position + 1) * kPerOp;
}

inline std::uint64_t dropout_threshold(const Op& op) {
  return static_cast<std::uint64_t>(std::ceil(op.attributes->p * 0x1p24));
}

inline bool dropout_keeps(const Op& op, std::uint64_t element) {
  return dropout_draw(dropout_seed(op), element) >= dropout_threshold(op);
}

}  // namespace fusecalc
