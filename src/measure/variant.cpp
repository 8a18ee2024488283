#include "measure/variant.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "core/interrupt.hpp"
#include "measure/timing.hpp"

namespace fusecalc {
namespace {

std::string comparison(double seconds, double next_seconds, const std::string& next) {
  const double percent = std::round((next_seconds / seconds - 1) * 100);
  if (percent < 1) return "as fast as " + next;
  if (percent >= 100) return fmt::format("{:.1f} times as fast as {}", 1 + percent / 100, next);
  return fmt::format("{:.0f} % faster than {}", percent, next);
}

}  // namespace

Choice fastest_of(GpuBackend& gpu, std::span<const Variant> variants) {
  constexpr std::size_t kRuns = 7;  // odd, so that a median is a run
  // Less is not a difference: at the power limit, which of two tilings is faster by 1 % depends on
  // what ran before.
  constexpr double kAlike = 1.015;
  std::vector<Work> works;
  for (const Variant& variant : variants) works.emplace_back([&] { enqueue(gpu, variant.steps); });
  // The driver loads a kernel at its first launch and synchronizes with the GPU, which during a
  // timed run would wait for the launches: a deadlock. So each kernel is launched once before.
  for (const Variant& variant : variants) enqueue(gpu, variant.steps);
  gpu.finish();
  const std::vector<std::optional<TimeSpread>> times =
      time_alternating(gpu, works, {.min_samples = kRuns, .max_samples = kRuns});
  stop_if_interrupted();
  if (variants.size() < 2) return {};
  std::vector<double> seconds;
  for (const std::optional<TimeSpread>& time : times) seconds.push_back(time.value().median);
  const double most = std::ranges::min(seconds) * kAlike;
  const auto fastest = std::ranges::find_if(seconds, [&](double each) { return each <= most; });
  const auto chosen = static_cast<std::size_t>(fastest - seconds.begin());
  const double own = std::exchange(seconds[chosen], std::numeric_limits<double>::infinity());
  const auto next = static_cast<std::size_t>(std::ranges::min_element(seconds) - seconds.begin());
  const std::string& name = variants[next].name;
  return {.fastest = chosen,
          .reason = comparison(own, seconds[next],
                               variants[chosen].name == name ? name + "'s next algorithm" : name)};
}

void choose_variant(GpuBackend& gpu, PreparedKernel& kernel) {
  if (kernel.variants.empty()) return;
  std::vector<Variant> variants = std::exchange(kernel.variants, {});
  const Choice choice = fastest_of(gpu, variants);
  Variant& variant = variants[choice.fastest];
  kernel.steps = std::move(variant.steps);
  kernel.main = variant.main;
  kernel.schedule = std::move(variant.schedule);
  kernel.gaps = std::move(variant.gaps);
  kernel.choice = choice.reason;
}

}  // namespace fusecalc
