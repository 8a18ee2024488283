#pragma once

#include <cstdint>
#include <string>

#include "plan/phases.hpp"

namespace fusecalc {

// The most ops that one kernel holds: longer ones save little more, and compile ever more slowly.
inline constexpr std::size_t kMostOps = 64;

// What a planner may put into one kernel.
struct Rules {
  // Work on a contraction's result before it is written. General graph compilers leave that out.
  bool epilogues = true;
  // Only what our runner has code for. General graph compilers are taken to have it for all.
  bool launchable = true;
  // Shared memory of a block, for tiles that must hold whole rows.
  std::uint64_t on_chip_bytes = 0;
};

enum class Obstacle : std::uint8_t {
  kNothing,
  kCustom,
  kUnrelated,
  kTooManyOps,
  kTooManyTensors,
  kSpaces,
  kRows,
  kWholeTensor,
  kMovesRows,
  kPermutesRows,
  kAfterScatter,
  kAfterCollapse,
  kMisaligned,
  kPrologue,
  kSecondContraction,
  kSideContraction,
  kScoresNeeded,
  kEpilogueSide,
  kEpilogueMovement,
  kEpilogueOrder,
  kEpilogueRows,
  kEpilogueHolds,
  kEpilogueAccumulator,
  kEpilogueSecond,
  kEpilogueTypes,
  kLibraryContraction,
  kCycle,
  // From here on: what even a single op can have.
  kNoKernel,
  kEmpty,
  kPacked,
  kUnneeded,
  kIntegerAttention,
  kHeads,
  kTooLarge,
};

// Whether some op of the kernel has no code of ours, so that no kernel that contains it can run.
constexpr bool concerns_op(Obstacle obstacle) {
  return obstacle == Obstacle::kCustom || obstacle >= Obstacle::kNoKernel;
}

// Why ops cannot be one kernel: the obstacle, and the two ops that it separates.
struct Verdict {
  Obstacle obstacle = Obstacle::kNothing;
  OpId first = kNone;
  OpId second = kNone;

  Verdict() = default;
  Verdict(Obstacle what, OpId one = kNone, OpId other = kNone)
      : obstacle(what), first(one), second(other) {}

  bool legal() const { return obstacle == Obstacle::kNothing; }
};

// Whether a planner that keeps to the rules may make one kernel of the ops. Circles through other
// kernels are not its business. A single op is always legal.
Verdict check_kernel(PhaseFinder& phases, const Kernel& kernel, const Rules& rules);

// Whether our runner can launch the ops, be it one or several, as one kernel. generate() has code
// for all that this accepts, but for extents beyond 2^31 and for attention whose operands are in an
// order that rules out tensor cores, with heads that do not fit on chip otherwise.
Verdict check_launch(PhaseFinder& phases, const Kernel& kernel, std::uint64_t on_chip_bytes);

// The reason in words.
std::string explain(const OpGraph& graph, const Verdict& verdict);

}  // namespace fusecalc
