#include <algorithm>

#include "compare/compare.hpp"

namespace fusecalc {
namespace {

Judgement judge(std::uint64_t before, std::uint64_t after, bool allowed, Judgement within) {
  if (before == after) return Judgement::kSame;
  if (allowed) return within;
  return after > before ? Judgement::kWorse : Judgement::kBetter;
}

// By how much a is larger than b.
std::uint64_t excess(std::uint64_t a, std::uint64_t b) { return a > b ? a - b : 0; }

std::uint64_t distance(std::uint64_t a, std::uint64_t b) { return a > b ? a - b : b - a; }

}  // namespace

Judgement judge_bytes(std::uint64_t before, std::uint64_t after, const Tolerance& tolerance) {
  const bool allowed = after > before && tolerance.allows(after - before, before);
  return judge(before, after, allowed, Judgement::kWithin);
}

Judgement judge_dram(std::uint64_t before, std::uint64_t after, std::uint64_t total,
                     const Tolerance& tolerance) {
  constexpr double kVisible = 0.1;  // of the tolerance, relative to reads and writes together
  const Tolerance noise{.percent = tolerance.percent * kVisible};
  const std::uint64_t growth = distance(before, after);
  const bool allowed = tolerance.allows(growth, before) || noise.allows(growth, total);
  return judge(before, after, allowed, Judgement::kSame);
}

Judgement judge_time(const MeasuredTime& before, const MeasuredTime& after,
                     const Tolerance& tolerance) {
  const bool allowed = tolerance.allows(distance(before.median, after.median), before.median);
  const Judgement judgement = judge(before.median, after.median, allowed, Judgement::kSame);
  // The p10 to p90 ranges overlap where the medians are no further apart than the halves of the
  // ranges between them. A range excuses no more than a quarter of the earlier median: results that
  // scatter more than that say nothing about a regression, and must not hide it.
  const bool grew = after.median > before.median;
  const std::uint64_t most = before.median / 4;
  const std::uint64_t earlier =
      grew ? excess(before.p90, before.median) : excess(before.median, before.p10);
  const std::uint64_t later =
      grew ? excess(after.median, after.p10) : excess(after.p90, after.median);
  const std::uint64_t excused = std::min(earlier, most) + std::min(later, most);
  const bool overlap = distance(before.median, after.median) <= excused;
  return judgement != Judgement::kSame && overlap ? Judgement::kNoise : judgement;
}

}  // namespace fusecalc
