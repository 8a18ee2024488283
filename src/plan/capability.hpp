#pragma once

#include <cstdint>

#include "plan/legality.hpp"

namespace fusecalc {

// What our runner has code for, independent of the rules of fusion: the planner asks, and the
// generator relies on it.

// Why no kernel of ours holds the op, if there is a reason.
Verdict check_op(const OpGraph& graph, OpId id);

// Whether our kernels can write the results of a kernel of such ops, and hold the heads of its
// attention ops.
Verdict check_limits(const ResolvedKernel& resolved, const Kernel& kernel,
                     std::uint64_t on_chip_bytes);

// Bytes on chip of attention by ordinary arithmetic, for tiles of so many queries and keys.
constexpr std::uint64_t attention_tile_bytes(std::uint64_t tile, std::uint64_t size,
                                             std::uint64_t value_size,
                                             std::uint64_t element_bytes) {
  // Lines of odd lengths keep the threads of a warp apart in memory banks.
  return tile * (2 * (size | 1U) + (value_size | 1U) + (tile | 1U)) * element_bytes;
}
inline constexpr std::uint64_t kSmallestAttentionTile = 32;
inline constexpr std::uint64_t kLargestTensorCoreHead = 256;

// Whether our kernels can hold the heads of an attention: of an op, or of two products.
// `tensor_cores`: some of them multiply there.
Verdict check_heads(const OpGraph& graph, OpId first, OpId last, std::uint64_t on_chip_bytes,
                    bool tensor_cores = true);

}  // namespace fusecalc
