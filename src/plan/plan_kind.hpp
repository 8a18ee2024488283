#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace fusecalc {

// The named plans. The order is that of the output.
enum class PlanKind : std::uint8_t { kUnfused, kCompiler, kAuto, kFastest, kExplicit, kLimit };

// What users read of a plan. How it is found is a row of planner/plans.cpp.
struct PlanWords {
  PlanKind kind;
  std::string_view name;
  std::string_view summary;
};

inline constexpr std::array kPlanWords = {
    PlanWords{PlanKind::kUnfused, "unfused", "one kernel per operation"},
    PlanWords{PlanKind::kCompiler, "compiler",
              "what a general graph compiler does today: pointwise chains, row-wise reductions, "
              "movement folded into indexing; contractions stay alone, attention is one kernel"},
    PlanWords{
        PlanKind::kAuto, "auto",
        "the plan with the fewest bytes that fusecalc can launch: as compiler, with epilogues "
        "on contractions, and prologues: weights that a product of few rows computes as it reads "
        "them, or the rows of one with many"},
    PlanWords{PlanKind::kFastest, "fastest",
              "the plan with the least predicted time that fusecalc can launch; never predicted "
              "slower than unfused"},
    PlanWords{PlanKind::kExplicit, "explicit", "the op list's own `fuse`"},
    PlanWords{PlanKind::kLimit, "limit",
              "the lower bound: graph inputs read once, graph outputs written once"},
};

// Whether every row is at the place of its kind.
template <typename Row, std::size_t n>
constexpr bool in_order(const std::array<Row, n>& rows) {
  for (std::size_t i = 0; i < n; ++i) {
    if (rows[i].kind != static_cast<PlanKind>(i)) return false;
  }
  return true;
}
static_assert(in_order(kPlanWords));

std::string_view name_of(PlanKind kind);
std::span<const std::string_view> plan_names();
// Of one of these names.
PlanKind plan_named(std::string_view name);

}  // namespace fusecalc
