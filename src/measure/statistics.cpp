#include "measure/statistics.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <iterator>
#include <utility>
#include <vector>

namespace fusecalc {
namespace {

constexpr double kSlowClockShare = 0.75;

std::vector<double> sorted_seconds(std::span<const TimedRun> runs) {
  std::vector<double> seconds;
  seconds.reserve(runs.size());
  for (const TimedRun& run : runs) seconds.push_back(run.seconds);
  std::ranges::sort(seconds);
  return seconds;
}

}  // namespace

double quantile(std::span<const double> sorted, double q) {
  assert(!sorted.empty() && q >= 0 && q <= 1);
  const double place = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  const double share = place - static_cast<double>(below);
  return sorted[below] + share * (sorted[above] - sorted[below]);
}

std::optional<double> median_uncertainty(std::span<const double> sorted) {
  constexpr std::size_t kFewest = 6;
  constexpr double kTwoSided95 = 1.96;
  if (sorted.size() < kFewest) return std::nullopt;
  // The number of samples below the true median is binomial with p = 1/2.
  const auto count = static_cast<double>(sorted.size());
  const double half_width = kTwoSided95 * std::sqrt(count) / 2;
  const double low_rank = std::max(0.0, std::floor(count / 2 - half_width) - 1);
  const auto low = static_cast<std::size_t>(low_rank);
  const double median = quantile(sorted, 0.5);
  if (median <= 0) return std::nullopt;
  return (sorted[sorted.size() - 1 - low] - sorted[low]) / 2 / median;
}

bool enough(const StoppingRule& rule, std::span<const TimedRun> runs, double elapsed_s) {
  if (runs.size() < rule.min_samples) return false;
  if (runs.size() >= rule.max_samples || elapsed_s >= rule.budget_s) return true;
  const std::optional<double> uncertainty = median_uncertainty(sorted_seconds(runs));
  return uncertainty && *uncertainty <= rule.settled;
}

TimeSpread summarize(std::span<const TimedRun> runs, double full_clock_hz) {
  assert(!runs.empty());
  std::vector<TimedRun> steady;
  std::ranges::copy_if(runs, std::back_inserter(steady), [&](const TimedRun& run) {
    return !run.slowed &&
           run.sm_clock_hz.value_or(full_clock_hz) >= kSlowClockShare * full_clock_hz;
  });
  const std::size_t throttled = runs.size() - steady.size();
  const bool trust_steady = 2 * steady.size() >= runs.size();
  const std::vector<double> seconds =
      sorted_seconds(trust_steady ? std::span(std::as_const(steady)) : runs);
  return {.median = quantile(seconds, 0.5),
          .min = seconds.front(),
          .p10 = quantile(seconds, 0.1),
          .p90 = quantile(seconds, 0.9),
          .samples = seconds.size(),
          .throttled = throttled};
}

}  // namespace fusecalc
