#pragma once

#include <cstdint>
#include <optional>

#include "plan/tiling.hpp"

namespace fusecalc {

// How blocks of convolve_last_sm90 share a convolution of one channel in a group whose channels lie
// last, of 16 bits each: boxes of the input that the copy engine brings, one after the other, are
// multiplied on tensor cores, two lines at a time.
struct LastBoxes {
  static constexpr std::uint64_t kSides = 2;  // lines that a warp has at a time

  std::uint64_t channels = 32;  // of a block: 16, 32 or 64
  std::uint64_t columns = 8;    // of a tile of the result
  std::uint64_t deep = 1;       // so many times the lines of a warp are those of a tile
  std::uint64_t lines = 1;      // of the result, that a warp goes down
  std::uint64_t together = 1;   // images of a tile
  std::uint64_t warps = 1;
  std::uint64_t stages = 2;
  std::uint64_t resident = 1;  // blocks of a multiprocessor
  std::uint64_t each = 1;      // tiles of a block
  std::uint64_t shared_bytes = 0;
  // Of a box.
  std::uint64_t box_columns = 1;
  std::uint64_t box_lines = 1;

  std::uint64_t threads() const { return 32 * warps; }
  std::uint64_t tile_lines() const { return kSides * lines * deep; }
  std::uint64_t tiles(const LastShape& shape) const;
  std::uint64_t blocks(const LastShape& shape) const;
};
// Nothing where windows are too large to be written out, or boxes for a multiprocessor.
std::optional<LastBoxes> last_boxes(const LastShape& shape, std::uint64_t multiprocessors);

}  // namespace fusecalc
