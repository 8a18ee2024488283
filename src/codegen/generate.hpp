#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/generated.hpp"
#include "traffic/kernel_traffic.hpp"

namespace fusecalc {

// What a schedule needs to know of the GPU.
struct Target {
  unsigned multiprocessors = 132;
  std::uint64_t shared_bytes_per_block = std::uint64_t{227} * 1024;
  unsigned capability = 90;  // 10 major + minor
};

// The code of one kernel. Throws Error (unavailable) if code cannot be generated for one of its
// ops.
GeneratedKernel generate(TrafficCounter& counter, const Kernel& kernel, const Target& target);

}  // namespace fusecalc
