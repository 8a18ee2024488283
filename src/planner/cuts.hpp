#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "plan/kernel.hpp"

namespace fusecalc {

// A set of ops that can be split off a kernel: all that must run after (or before) one of its ops,
// or the complement of such a set. Bits are positions in the kernel.
struct Part {
  std::uint32_t mask = 0;
  bool last = false;  // runs after the remaining ops
};

// For a kernel of up to 31 ops.
std::vector<Part> parts_of(const OpGraph& graph, const Kernel& kernel);

// The ops of a mask, and the others.
std::pair<Kernel, Kernel> split(const Kernel& kernel, std::uint32_t mask);
Kernel joined(const Kernel& a, const Kernel& b);

}  // namespace fusecalc
