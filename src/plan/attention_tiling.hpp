#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "core/dtype.hpp"

namespace fusecalc {

// What attention's kernels for tensor cores multiply; f32 as three products of tf32.
constexpr bool attends_on_tensor_cores(DType type) {
  return type == DType::kBf16 || type == DType::kF16 || type == DType::kF32;
}

// Attention of so few rows (queries of the heads that share a key head) runs in attention_few.
constexpr std::uint64_t kMostFewRows = 32;
constexpr std::uint64_t kFewTileRows = 16;  // or twice as many
constexpr std::uint64_t kFewTileKeys = 64;

// How it distributes keys: parts of so many tiles each.
struct KeySplit {
  std::uint64_t parts = 1;
  std::uint64_t tiles = 1;
};
// `heads`: key heads of all batches; `rows` and `tiles`: a key head's; `running`: blocks that run
// at once.
KeySplit key_split(std::uint64_t heads, std::uint64_t rows, std::uint64_t tiles,
                   std::uint64_t running);

// What such a block holds.
struct FewTiling {
  std::uint64_t row_tiles = 1;
  std::uint64_t running = 1;  // blocks that a multiprocessor runs
  std::uint64_t stages = 2;   // of keys and values
  std::uint64_t stage_bytes = 0;
  std::uint64_t more_bytes = 0;  // beside the stages

  std::uint64_t shared_bytes() const { return stages * stage_bytes + more_bytes; }
};
// Nothing if there are too many rows for it, or if its stages do not fit on chip.
std::optional<FewTiling> few_tiling(std::uint64_t rows, std::uint64_t head,
                                    std::uint64_t element_bytes, std::uint64_t on_chip_bytes);

// Queries of a block of attention_sm80, and keys of one of its tiles.
struct MmaAttention {
  std::uint64_t rows = 0;
  std::uint64_t keys = 0;
};
MmaAttention mma_attention(std::uint64_t head, std::uint64_t element_bytes);

// The head size that attention's kernels for tensor cores are compiled for, to hold queries and
// values of these sizes: shorter lines are padded with zeros.
std::optional<std::uint64_t> tensor_core_head(std::uint64_t size, std::uint64_t value_size,
                                              std::uint64_t element_bytes);

// Attention of many queries.
struct AttentionSize {
  std::uint64_t heads = 1;  // of all batches
  std::uint64_t queries = 1;
  std::uint64_t keys = 1;
  bool causal = false;
  std::uint64_t window = 0;  // causal: keys that a query sees at most

  // Keys that a query sees, in the mean.
  std::uint64_t seen() const {
    return causal ? std::min(window, keys - std::min(keys, queries / 2)) : keys;
  }
};

// Queries of a block of attention_sm90: 64, 128 or 192. `plain`: scores are only scaled.
std::uint64_t attention_rows(std::uint64_t head, bool plain, const AttentionSize& size,
                             std::uint64_t multiprocessors);
// Blocks of 64 queries, of heads of 64 with plain scores, are those of attention_alone_sm90: a
// multiprocessor runs three of them.
constexpr std::uint64_t kAloneBlocks = 3;
constexpr bool attends_alone(std::uint64_t head, bool plain, std::uint64_t rows) {
  return head == 64 && plain && rows == 64;
}
// Of f32, which needs twice the room, and a part of each product in registers.
constexpr std::uint64_t kMostWordsHead = 128;
// Queries and keys of a tile of attention_words_sm90.
constexpr std::uint64_t kWordsTile = 64;
// Its blocks that a multiprocessor runs.
constexpr std::uint64_t words_blocks(std::uint64_t head) {
  return head <= 32 ? 3 : head <= 64 ? 2 : 1;
}
// Keys of a tile of attention_sm90 and attention_alone_sm90, for heads padded to `head`: as few as
// cover all in as many tiles as the largest would.
std::uint64_t attention_tile_keys(std::uint64_t head, bool plain, std::uint64_t keys);

// Heads of a group that causal attention has together (QueryBlock in attention.cuh): as many as
// have keys and values for the L2 to hold, of groups that are about equal. `sharing` heads share
// those of a key head, which are so many bytes.
std::uint64_t heads_together(std::uint64_t heads, std::uint64_t sharing, std::uint64_t bytes,
                             std::uint64_t l2_bytes);

}  // namespace fusecalc
