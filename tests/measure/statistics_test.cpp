#include "measure/statistics.hpp"

#include <doctest/doctest.h>

#include <array>
#include <vector>

namespace fusecalc {
namespace {

std::vector<TimedRun> runs_of(std::initializer_list<double> seconds) {
  std::vector<TimedRun> runs;
  for (const double each : seconds) runs.push_back({.seconds = each});
  return runs;
}

TEST_CASE("quantiles interpolate between neighbours") {
  const std::array<double, 4> sorted = {1, 2, 4, 8};
  CHECK(quantile(sorted, 0) == 1);
  CHECK(quantile(sorted, 0.5) == 3);
  CHECK(quantile(sorted, 1) == 8);
  CHECK(quantile(std::array<double, 1>{7}, 0.9) == 7);
  CHECK(quantile(std::array<double, 2>{10, 20}, 0.1) == doctest::Approx(11));
}

TEST_CASE("the median's uncertainty is the interval between two order statistics") {
  CHECK_FALSE(median_uncertainty(std::array<double, 5>{1, 1, 1, 1, 1}));
  CHECK(median_uncertainty(std::array<double, 6>{2, 2, 2, 2, 2, 2}).value() == 0);
  // 16 samples: 8 - 3.92 is rank 4, and so the 4th from the top: (113 - 104) / 2 over 108.5.
  std::vector<double> sorted;
  for (int i = 1; i <= 16; ++i) sorted.push_back(100 + i);
  CHECK(median_uncertainty(sorted).value() == doctest::Approx(4.5 / 108.5));
}

TEST_CASE("sampling ends when the median has settled, or at the budget or the sample limit") {
  const StoppingRule rule{.min_samples = 6, .max_samples = 8, .settled = 0.01, .budget_s = 1};
  CHECK_FALSE(enough(rule, runs_of({1, 1, 1, 1, 1}), 100));  // the fewest come first
  CHECK(enough(rule, runs_of({1, 1, 1, 1, 1, 1}), 0));
  CHECK_FALSE(enough(rule, runs_of({1, 2, 1, 2, 1, 2}), 0.5));
  CHECK(enough(rule, runs_of({1, 2, 1, 2, 1, 2}), 1));
  CHECK(enough(rule, runs_of({1, 2, 1, 2, 1, 2, 1, 2}), 0.5));
}

TEST_CASE("samples under a throttled clock are excluded and counted") {
  std::vector<TimedRun> runs = runs_of({1, 1, 1, 9});
  for (TimedRun& run : runs) run.sm_clock_hz = 2e9;
  runs[3].sm_clock_hz = 1.4e9;  // 70 % of 2 GHz
  TimeSpread spread = summarize(runs, 2e9);
  CHECK(spread.median == 1);
  CHECK(spread.p90 == 1);
  CHECK(spread.samples == 3);
  CHECK(spread.throttled == 1);
  runs[3].sm_clock_hz = 1.6e9;
  CHECK(summarize(runs, 2e9).throttled == 0);
  runs[3].slowed = true;
  CHECK(summarize(runs, 2e9).throttled == 1);
}

TEST_CASE("if most samples are throttled, all of them are used") {
  std::vector<TimedRun> runs = runs_of({2, 3, 4});
  for (TimedRun& run : runs) run.slowed = true;
  const TimeSpread spread = summarize(runs, 2e9);
  CHECK(spread.samples == 3);
  CHECK(spread.throttled == 3);
  CHECK(spread.median == 3);
  CHECK(spread.min == 2);
}

TEST_CASE("without clock readings no sample is excluded") {
  CHECK(summarize(runs_of({1, 2}), 2e9).throttled == 0);
}

}  // namespace
}  // namespace fusecalc
