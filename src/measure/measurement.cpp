#include "measure/measurement.hpp"

#include <set>

namespace fusecalc {

std::optional<double> Measurement::measured_speedup() const {
  for (const auto side : {&PlanMeasurement::pipeline, &PlanMeasurement::isolated}) {
    const std::optional<TimeSpread>& slow = (unfused.*side).time;
    const std::optional<TimeSpread>& fast = (fused.*side).time;
    if (slow && fast && fast->median > 0) return slow->median / fast->median;
  }
  return std::nullopt;
}

std::optional<double> Measurement::payback_runs() const {
  const std::optional<double> speedup = measured_speedup();
  const Observed& seen = fused.pipeline.time ? fused.pipeline : fused.isolated;
  if (!speedup || *speedup <= 1 || !seen.time) return std::nullopt;
  double compile_s = 0;
  std::set<std::uint64_t> compiled;
  for (const KernelMeasurement& kernel : fused.kernels) {
    if (compiled.insert(kernel.module).second) compile_s += kernel.compile_seconds;
  }
  return compile_s / (seen.time->median * (*speedup - 1));
}

std::optional<double> error_percent(std::uint64_t measured, std::uint64_t analytic) {
  if (analytic == 0) return std::nullopt;
  return (static_cast<double>(measured) / static_cast<double>(analytic) - 1) * 100;
}

double bytes_per_second(const Bytes& analytic, const TimeSpread& time) {
  return time.median > 0 ? static_cast<double>(analytic.total()) / time.median : 0;
}

}  // namespace fusecalc
