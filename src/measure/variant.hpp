#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "measure/plan_runner.hpp"

namespace fusecalc {

// The fastest of several variants of a kernel, and by how much: "3 % faster than cuBLASLt".
struct Choice {
  std::size_t fastest = 0;
  std::string reason{};
};

// Runs all of them a few times, alternating, each from a cold L2, and those near the fastest more
// often. Of those that are then about as fast as the fastest the first is chosen: variants come in
// the order in which they are expected.
Choice fastest_of(GpuBackend& gpu, std::span<const Variant> variants);

// Makes the fastest of a kernel's variants the one that runs.
void choose_variant(GpuBackend& gpu, PreparedKernel& kernel);

}  // namespace fusecalc
