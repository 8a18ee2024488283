#pragma once

#include <cstdint>
#include <optional>

#include "plan/tiling.hpp"

namespace fusecalc {

// How blocks of convolve_last_bands share a convolution of one channel in a group whose channels
// lie last, of 16 bits each: tiles of some channels, one after the other, that are parted into
// planes and multiplied by bands of weights on tensor cores.
struct LastBands {
  std::uint64_t warps = 8;
  std::uint64_t own = 2;       // channels of a warp
  std::uint64_t lines = 1;     // of a tile of the result
  std::uint64_t columns = 1;   // likewise
  std::uint64_t reused = 1;    // lines that take what a load of eight lines brings
  std::uint64_t together = 1;  // images of a tile
  bool keeps_sums = false;     // in shared memory, for an epilogue that takes pixels
  std::uint64_t each = 1;      // tiles of a block
  std::uint64_t resident = 1;  // blocks of a multiprocessor
  std::uint64_t shared_bytes = 0;

  std::uint64_t threads() const { return 32 * warps; }
  std::uint64_t channels() const { return warps * own; }
  std::uint64_t tiles(const LastShape& shape) const;
  std::uint64_t blocks(const LastShape& shape) const;
};
// Whether bands take less time than threads that go down lines (last_down.hpp).
bool repays_bands(std::uint64_t taps, std::uint64_t strides);
// Nothing where bands are too wide for a thread's registers, or tiles for a multiprocessor.
std::optional<LastBands> last_bands(const LastShape& shape, bool keeps_sums, const Device& device);

}  // namespace fusecalc
