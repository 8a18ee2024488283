#pragma once

#include <cstdint>
#include <optional>

#include "plan/tiling.hpp"

namespace fusecalc {

// How threads of convolve_last_down share a convolution of one channel in a group whose channels
// lie last: each has two channels of some neighbouring columns of the result, and goes down lines.
struct LastDown {
  static constexpr std::uint64_t kOwn = 2;  // channels
  std::uint64_t beside = 1;                 // columns
  std::uint64_t lines = 1;
  std::uint64_t stages = 5;
  std::uint64_t threads = 128;
  std::uint64_t resident = 1;  // blocks of a multiprocessor
  std::uint64_t shared_bytes = 0;

  std::uint64_t units(const LastShape& shape) const;
  std::uint64_t blocks(const LastShape& shape) const { return ceil_div(units(shape), threads); }
};
// Nothing where a thread would hold too many weights and sums.
std::optional<LastDown> last_down(const LastShape& shape, const Device& device);

}  // namespace fusecalc
