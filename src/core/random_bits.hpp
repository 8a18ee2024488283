#pragma once

#include <cstdint>

namespace fusecalc {

// Counter-based random numbers (splitmix64): number i of a seed, independent of those before it.
// Device code has the same function in kernels/harness.cuh.
constexpr std::uint64_t random_bits(std::uint64_t seed, std::uint64_t i) {
  std::uint64_t z = seed + (i + 1) * 0x9e3779b97f4a7c15U;
  z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31U);
}

}  // namespace fusecalc
