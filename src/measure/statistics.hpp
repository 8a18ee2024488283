#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "backend/results.hpp"

namespace fusecalc {

// Run times, in seconds.
struct TimeSpread {
  double median = 0;
  double min = 0;
  double p10 = 0;
  double p90 = 0;
  std::size_t samples = 0;    // that these figures are computed from
  std::size_t throttled = 0;  // taken while the clocks were throttled
};

// The q-quantile of sorted samples, interpolated linearly.
double quantile(std::span<const double> sorted, double q);

// Half the width of the median's distribution-free 95 % confidence interval, relative to the
// median. Empty for fewer than 6 samples, for which no interval reaches 95 %.
std::optional<double> median_uncertainty(std::span<const double> sorted);

struct StoppingRule {
  std::size_t min_samples = 10;
  std::size_t max_samples = 1000;
  double settled = 0.0025;  // sufficient uncertainty of the median
  double budget_s = 0.25;   // wall time
};

// Whether no more samples are needed after `elapsed_s`. min_samples are taken regardless of time.
bool enough(const StoppingRule& rule, std::span<const TimedRun> runs, double elapsed_s);

// Statistics of runs. Runs below 75 % of the highest clock, or while the device reports throttling,
// are excluded and counted in `throttled`; if fewer than half remain, all runs are used.
TimeSpread summarize(std::span<const TimedRun> runs, double full_clock_hz);

}  // namespace fusecalc
