#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "plan/kernel.hpp"

namespace fusecalc {

// What of a kernel may be cut off: everything that must run after, or before, one of its ops, and
// what that leaves. Bits are places in the kernel.
struct Part {
  std::uint32_t mask = 0;
  bool last = false;  // runs after what it leaves
};

// Of a kernel of up to 31 ops.
std::vector<Part> parts_of(const OpGraph& graph, const Kernel& kernel);

// The ops of a mask, and the others.
std::pair<Kernel, Kernel> split(const Kernel& kernel, std::uint32_t mask);
Kernel joined(const Kernel& a, const Kernel& b);

}  // namespace fusecalc
