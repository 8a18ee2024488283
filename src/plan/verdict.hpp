#pragma once

#include <cstdint>
#include <string>

#include "graph/op_graph.hpp"

namespace fusecalc {

enum class Obstacle : std::uint8_t {
  kNothing,
  kCustom,
  kUnrelated,
  kTooManyOps,
  kTooManyValues,
  kTooManyPasses,
  kTooManyTensors,
  kSpaces,
  kRows,
  kColumns,
  kWholeTensor,
  kMovesRows,
  kPermutesRows,
  kAfterScatter,
  kAfterCollapse,
  kBeforeWindow,
  kMisaligned,
  kPrologue,
  kPageQueries,
  kPageRows,
  kSecondContraction,
  kSideContraction,
  kScoresNeeded,
  kEpilogueSide,
  kEpilogueMovement,
  kEpilogueOrder,
  kEpiloguePart,
  kEpilogueRows,
  kEpilogueHolds,
  kEpilogueAccumulator,
  kEpilogueSecond,
  kEpilogueTypes,
  kEpilogueSums,
  kTensorCores,
  kLibraryContraction,
  kOwnKernel,
  kCycle,
  // From here on, and kCustom: what even a single op can have.
  kNoKernel,
  kMoreOutputs,
  kEmpty,
  kPacked,
  kBeforeScatter,
  kOverwritten,
  kUnneeded,
  kIntegerAttention,
  kHeads,
  kLongRows,
  kTooManyArguments,
  kTooLarge,
};

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

// The reason in words.
std::string explain(const OpGraph& graph, const Verdict& verdict);

}  // namespace fusecalc
