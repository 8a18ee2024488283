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
  kEpilogueFolds,
  kEpilogueSecond,
  kEpilogueTypes,
  kLibraryContraction,
  kCycle,
};

// Why a group of ops cannot be one kernel: the obstacle, and the ops that it stands between.
struct Verdict {
  Obstacle obstacle = Obstacle::kNothing;
  OpId first = kNone;
  OpId second = kNone;

  Verdict() = default;
  Verdict(Obstacle what, OpId one = kNone, OpId other = kNone)
      : obstacle(what), first(one), second(other) {}

  bool legal() const { return obstacle == Obstacle::kNothing; }
};

// Whether our runner can launch the ops as one kernel. Circles through other kernels are not its
// business. A single op is always legal.
Verdict check_kernel(PhaseFinder& phases, const Kernel& kernel, const Rules& rules);

// The reason in words.
std::string explain(const OpGraph& graph, const Verdict& verdict);

}  // namespace fusecalc
