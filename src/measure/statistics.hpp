#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "backend/backend.hpp"

namespace fusecalc {

// Run times, in seconds.
struct TimeSpread {
  double median = 0;
  double min = 0;
  double p10 = 0;
  double p90 = 0;
  std::size_t samples = 0;    // that these figures stand on
  std::size_t throttled = 0;  // taken while the device held its clocks down
};

// A value that a share `q` of the sorted samples does not pass, interpolated between neighbours.
double quantile(std::span<const double> sorted, double q);

// Half the width of the median's 95 % confidence interval over the median, from the order of the
// samples alone. Nothing below 6 samples, where no interval reaches 95 %.
std::optional<double> median_uncertainty(std::span<const double> sorted);

struct StoppingRule {
  std::size_t min_samples = 10;
  std::size_t max_samples = 1000;
  double settled = 0.0025;  // uncertainty of the median that is small enough
  double budget_s = 0.25;   // wall time
};

// Whether no more samples are needed after `elapsed_s`. The fewest samples are taken at any price.
bool enough(const StoppingRule& rule, std::span<const TimedRun> runs, double elapsed_s);

// The spread of runs. Those taken under 75 % of the clock that the device can hold, or while it
// reports being slowed, are set aside; where that leaves fewer than half, all of them stand, and
// `throttled` tells.
TimeSpread summarize(std::span<const TimedRun> runs, double full_clock_hz);

}  // namespace fusecalc
