#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "analysis/analysis.hpp"
#include "plan/plan_kind.hpp"
#include "profile/launch.hpp"

namespace fusecalc {

// A launch, and the ops of an op list that it runs: one, or several that the program fuses.
struct Match {
  std::size_t launch = 0;  // its place among the launches
  std::vector<OpId> ops;
  double confidence = 0;  // 0 to 1: agreement of kind and bytes
  Bytes unfused{};        // of the ops, each alone
  Bytes fused{};          // of the ops as one kernel
};

// Ops that the plan `auto` fuses and the program does not.
struct MissedFusion {
  std::vector<OpId> ops;
  std::uint64_t launches = 0;
  std::uint64_t bytes = 0;          // that fusing them would save
  std::optional<double> seconds{};  // saved bytes at the rate of these launches
};

// A launch that matches no op: it changes the layout of a convolution's operand or result, or pads
// it.
struct LayoutLaunch {
  std::size_t launch = 0;
  std::size_t match = 0;  // of the convolution, its place among the matches
};

// The launches of a program set against an op list. A program that runs the list several times is
// judged by its last whole run.
struct Alignment {
  std::string document{};
  std::uint64_t runs = 0;
  std::vector<std::string> ops{};        // their names
  std::vector<Match> matches{};          // of the last run, in the order of launches
  std::vector<LayoutLaunch> layouts{};   // of the last run, in the order of launches
  std::vector<std::size_t> unmatched{};  // launches inside the last run that are neither
  std::vector<OpId> missing{};           // ops that no launch matches
  Bytes moved{};                         // by all launches of the last run
  std::uint64_t attributed = 0;          // of these, by matches and layouts
  std::uint64_t layout_bytes = 0;        // of these, by layouts
  std::vector<std::pair<PlanKind, std::uint64_t>> plans{};  // their bytes
  std::vector<MissedFusion> fusions{};                      // the most bytes first
};

// Finds the alignment of the highest score, by dynamic programming over the order of ops and of
// launches: kinds are told by kernel names, bytes by the counters. Throws Error where the two are
// too long.
Alignment align(const Analysis& analysis, std::span<const ProfiledLaunch> launches);

}  // namespace fusecalc
