#pragma once

#include <cstdint>

#include "device/device.hpp"
#include "plan/phases.hpp"
#include "plan/verdict.hpp"

namespace fusecalc {

// The most ops that the code of one kernel evaluates for an element: as many as NVRTC compiles in
// some 7 s if they are special functions, and in half a second if they are sums.
inline constexpr std::size_t kMostOps = 1024;
// The most 32-bit words of values that a thread holds at once; a thread has 255 registers, and
// needs some for operands and addresses. What does not fit spills to memory.
inline constexpr std::size_t kMostWords = 128;
// The most tensors that a kernel reads from memory or writes to it: a thread needs the address of
// each.
inline constexpr std::size_t kMostTensors = 96;

// What a planner may put into one kernel.
struct Rules {
  // Work on a contraction's result before it is written, sums of columns beside those of rows, and
  // what moves elements of rows that were reduced. General graph compilers leave these out.
  bool epilogues = true;
  // Only what our runner has code for. General graph compilers are taken to have it for all.
  bool launchable = true;
  // Kernels that multiply on tensor cores (kFirstWithCopies). Others compute a product's tiles,
  // too, but nothing before it, and no second one beside it.
  bool tensor_cores = true;
  // Shared memory of a block, for tiles that must hold whole rows.
  std::uint64_t on_chip_bytes = 0;
};

// Whether a planner that keeps to the rules may make one kernel of the ops. Circles through other
// kernels are not its business. A single op is always legal. An op that is too large for any launch
// may be fused like a smaller one: no plan can launch it, and check_launch() says so of its kernel.
Verdict check_kernel(PhaseFinder& phases, const Kernel& kernel, const Rules& rules);

// Whether our runner can launch the ops, be it one or several, as one kernel. generate() has code
// for all that this accepts, but for extents beyond 2^31 and for attention whose operands are in an
// order that rules out tensor cores, with heads that do not fit on chip otherwise.
Verdict check_launch(PhaseFinder& phases, const Kernel& kernel, const Rules& rules);

// What our own runner, and what a general graph compiler, may put into one kernel.
Rules runner_rules(const Device& device);
Rules compiler_rules(const Device& device);

}  // namespace fusecalc
