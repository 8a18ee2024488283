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
  kCompilerOrder,
  kAfterScatter,
  kAfterCollapse,
  kBeforeWindow,
  kMisaligned,
  kPrologueKind,
  kPrologueTypes,
  kPrologueOperand,
  kPrologueView,
  kPrologueRows,
  kPrologueMovement,
  kPrologueShared,
  kPrologueStored,
  kPrologueReduction,
  kProloguePair,
  kAttentionOperand,
  kAttentionKeys,
  kPageQueries,
  kPageRows,
  kSecondContraction,
  kSideContraction,
  kSiblingReduction,
  kSiblingHalves,
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
  kBesideScan,
  kScanOrder,
  kSecondScan,
  kCycle,
  // From here on, and kCustom: what even a single op can have.
  kNoKernel,
  kIntegerScales,
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

// Why ops cannot be one kernel: the obstacle, and the ops between which it is. With a third op,
// none of the three would be in the way without the others.
struct Verdict {
  Obstacle obstacle = Obstacle::kNothing;
  OpId first = kNone;
  OpId second = kNone;
  OpId third = kNone;

  Verdict() = default;
  Verdict(Obstacle what, OpId one = kNone, OpId other = kNone, OpId more = kNone)
      : obstacle(what), first(one), second(other), third(more) {}

  bool legal() const { return obstacle == Obstacle::kNothing; }
};

// Whether it keeps a bystander out of a contraction's kernel: an op that does not use its result.
constexpr bool bystands(Obstacle obstacle) {
  return obstacle == Obstacle::kSideContraction || obstacle == Obstacle::kEpilogueSide;
}

// The reason in words.
std::string explain(const OpGraph& graph, const Verdict& verdict);

}  // namespace fusecalc
