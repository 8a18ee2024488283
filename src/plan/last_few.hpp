#pragma once

#include <cstdint>
#include <optional>

#include "device/device.hpp"
#include "plan/tiling.hpp"

namespace fusecalc {

// How kernels/convolve_last_few.cuh shares a convolution of few channels that lie last.
struct LastFew {
  static constexpr std::uint64_t kThreads = 256;
  static constexpr std::uint64_t kResident = 2;  // blocks that a multiprocessor runs
  std::uint64_t strips = 1;                      // of 16 pixels, of a warp
  std::uint64_t wide = 1;                        // groups of 32 columns, of a warp
  std::uint64_t steps = 1;                       // of 32 elements of a window
  std::uint64_t blocks = 1;

  std::uint64_t rows() const { return 16 * strips; }
  std::uint64_t columns() const { return 32 * wide; }
  std::uint64_t shared_bytes() const { return steps * wide * 2048; }
};

// Nothing where other kernels are better.
std::optional<LastFew> last_few(const ConvolutionSize& size, const Device& device);

}  // namespace fusecalc
