#include "plan/attention_tiling.hpp"

#include <array>
#include <cmath>
#include <limits>

#include "core/ceil_div.hpp"

namespace fusecalc {

// Blocks run in rounds. Each takes about as long as two tiles to start and to end; one merges all
// parts, for which it takes as long as for a tile and 0.6 / running of one for each row and part.
KeySplit key_split(std::uint64_t heads, std::uint64_t rows, std::uint64_t tiles,
                   std::uint64_t running) {
  constexpr std::uint64_t kMostParts = 256;
  constexpr std::uint64_t kTile = 16;  // the unit is a sixteenth of a tile
  constexpr std::uint64_t kPart = 10;
  KeySplit best{.parts = 1, .tiles = tiles};
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  for (std::uint64_t wanted = 1; wanted <= std::min(tiles, kMostParts); ++wanted) {
    const std::uint64_t each = ceil_div(tiles, wanted);
    const KeySplit split{.parts = ceil_div(tiles, each), .tiles = each};
    const std::uint64_t rounds = ceil_div(heads * split.parts, running);
    const std::uint64_t merge = split.parts > 1 ? kTile + split.parts * rows * kPart / running : 0;
    const std::uint64_t time = rounds * (split.tiles + 2) * kTile + merge;
    if (time < least) best = split;
    least = std::min(least, time);
  }
  return best;
}

std::optional<FewTiling> few_tiling(std::uint64_t rows, std::uint64_t head,
                                    std::uint64_t element_bytes, std::uint64_t on_chip_bytes) {
  constexpr std::uint64_t kReserved = 1024;  // of a block's shared memory, by the system
  constexpr std::uint64_t kMostStages = 8;
  constexpr std::uint64_t kStates = 32;      // bytes of a row, of its four warps
  constexpr std::uint64_t kHeldBytes = 256;  // longer queries are in shared memory
  constexpr std::uint64_t kShortHead = 128;
  if (rows > kMostFewRows) return std::nullopt;
  // More rows or longer heads need the registers of two blocks.
  FewTiling few{.row_tiles = ceil_div(rows, kFewTileRows),
                .running = rows <= kFewTileRows && head <= kShortHead ? 2U : 1U,
                .stage_bytes = 2 * kFewTileKeys * head * element_bytes};
  few.more_bytes = few.row_tiles * kFewTileRows *
                   (kStates + (head * element_bytes > kHeldBytes ? head * element_bytes : 0));
  const auto stages_of = [&](std::uint64_t bytes) {
    return std::min(kMostStages,
                    bytes > few.more_bytes ? (bytes - few.more_bytes) / few.stage_bytes : 0);
  };
  if (few.running == 2 && stages_of((on_chip_bytes - kReserved) / 2) < 2) few.running = 1;
  few.stages = stages_of((on_chip_bytes - (few.running - 1) * kReserved) / few.running);
  return few.stages < 2 ? std::nullopt : std::optional(few);
}

MmaAttention mma_attention(std::uint64_t head, std::uint64_t element_bytes) {
  return head <= 128 && element_bytes == 2 ? MmaAttention{.rows = 128, .keys = 64}
                                           : MmaAttention{.rows = 64, .keys = 32};
}

std::optional<std::uint64_t> tensor_core_head(std::uint64_t size, std::uint64_t value_size,
                                              std::uint64_t element_bytes) {
  constexpr std::array<std::uint64_t, 6> kHeads = {32, 64, 96, 128, 192, 256};
  const auto* head = std::ranges::find_if(
      kHeads, [&](std::uint64_t each) { return each >= std::max(size, value_size); });
  if (head == kHeads.end() || (size | value_size) % 8 != 0) return std::nullopt;
  if (element_bytes == 4 && *head > kMostWordsHead) return std::nullopt;
  return *head;
}

// Three blocks of 64 rows fill a multiprocessor as well as one of 192, more evenly, and are sooner
// at their end; but each reads its keys by itself. Of longer heads, or beside masks, a
// multiprocessor runs one block, which is better off with two warpgroups unless all blocks run at
// once.
std::uint64_t attention_rows(std::uint64_t head, bool plain, const AttentionSize& size,
                             std::uint64_t multiprocessors) {
  constexpr std::uint64_t kRows = 64;
  if (head != kRows || !plain) {
    return ceil_div(size.queries, kRows) * size.heads <= multiprocessors ? kRows : 2 * kRows;
  }
  // Microseconds to begin and to store a block, and for a tile of keys. Measured in 15 sizes.
  constexpr double kManyRounds = 8;  // whose last one counts as part of one
  constexpr double kTile = 128;
  const auto time = [&](std::uint64_t rows, std::uint64_t blocks, double beside, double tile) {
    const auto all = static_cast<double>(ceil_div(size.queries, rows) * size.heads);
    double rounds = all / static_cast<double>(multiprocessors * blocks);
    if (blocks == 1 && !size.causal && rounds < kManyRounds) rounds = std::ceil(rounds);
    const double diagonal = size.causal ? static_cast<double>(rows) / (2 * kTile) : 0;
    return rounds * (beside + (static_cast<double>(size.seen()) / kTile + 0.5 + diagonal) * tile);
  };
  const double high = time(3 * kRows, 1, 4.15, size.causal ? 1.44 : 1.32);
  return time(kRows, kAloneBlocks, 3.1, 1.54) < high ? kRows : 3 * kRows;
}

// The largest fill the registers beside the sums of values. Masks whose rows are multiples of eight
// keys are loaded eight at a time where a tile has a multiple of 32.
std::uint64_t attention_tile_keys(std::uint64_t head, bool plain, std::uint64_t keys) {
  const std::uint64_t most = head <= 128 ? 128 : head <= 192 ? 96 : 80;
  const std::uint64_t step = plain || most % 32 != 0 || keys % 8 != 0 ? 16 : 32;
  const std::uint64_t tiles = std::max<std::uint64_t>(1, ceil_div(keys, most));
  return std::max(step, ceil_div(ceil_div(keys, tiles), step) * step);
}

std::uint64_t heads_together(std::uint64_t heads, std::uint64_t sharing, std::uint64_t bytes,
                             std::uint64_t l2_bytes) {
  constexpr std::uint64_t kPart = 4;  // of the L2; from half of it on keys are read again
  const std::uint64_t most =
      std::max<std::uint64_t>(1, l2_bytes / kPart / std::max<std::uint64_t>(1, bytes)) * sharing;
  const std::uint64_t groups = std::max<std::uint64_t>(1, ceil_div(heads, most));
  return ceil_div(ceil_div(heads, groups), sharing) * sharing;
}

}  // namespace fusecalc
