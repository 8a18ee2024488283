#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "measure/plan_runner.hpp"

namespace fusecalc {

// Which of several variants of a kernel is fastest, and what tells: "3 % faster than cuBLASLt".
struct Choice {
  std::size_t fastest = 0;
  std::string reason{};
};

// Runs all of them a few times, by turns, each from a cold L2. Of equals the first wins.
Choice fastest_of(GpuBackend& gpu, std::span<const Variant> variants);

// Has the fastest of a kernel's variants be the one that runs.
void settle(GpuBackend& gpu, PreparedKernel& kernel);

}  // namespace fusecalc
