#include "measure/variant.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
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

struct TimedVariant {
  std::size_t variant = 0;
  double seconds = 0;
};

void time_each(GpuBackend& gpu, std::span<const Variant> variants, const StoppingRule& rule,
               std::vector<TimedVariant>& timed) {
  std::vector<Work> works;
  for (const TimedVariant& each : timed) {
    works.emplace_back([&gpu, &steps = variants[each.variant].steps] { enqueue(gpu, steps); });
  }
  const std::vector<std::optional<TimeSpread>> times = time_alternating(gpu, works, rule);
  stop_if_interrupted();
  for (std::size_t i = 0; i < timed.size(); ++i) timed[i].seconds = times[i].value().median;
}

// Those that take at most so many times as long as the fastest.
std::vector<TimedVariant> near_fastest(std::vector<TimedVariant> timed, double most) {
  const double limit = std::ranges::min(timed, {}, &TimedVariant::seconds).seconds * most;
  std::erase_if(timed, [&](const TimedVariant& each) { return each.seconds > limit; });
  return timed;
}

}  // namespace

Choice fastest_of(GpuBackend& gpu, std::span<const Variant> variants) {
  constexpr StoppingRule kFirst{.min_samples = 7, .max_samples = 7};  // a median is a run
  // So far apart may two such medians of one kernel of 20 us be. Those of long kernels are not, and
  // to run these for long only warms the GPU up.
  constexpr double kNear = 1.06;
  constexpr StoppingRule kFinal{.min_samples = 7, .max_samples = 21, .budget_s = 0.01};
  // Less is not a difference: at the power limit, which of two tilings is faster by 1 % depends on
  // what ran before.
  constexpr double kAlike = 1.015;
  // The driver loads a kernel at its first launch and synchronizes with the GPU, which during a
  // timed run would wait for the launches: a deadlock. So each kernel is launched once before.
  for (const Variant& variant : variants) enqueue(gpu, variant.steps);
  gpu.finish();
  std::vector<TimedVariant> timed(variants.size());
  for (std::size_t i = 0; i < timed.size(); ++i) timed[i].variant = i;
  time_each(gpu, variants, kFirst, timed);
  if (timed.size() < 2) return {};
  if (std::vector<TimedVariant> near = near_fastest(timed, kNear); near.size() > 1) {
    time_each(gpu, variants, kFinal, near);
    timed = std::move(near);
  }
  const TimedVariant chosen = near_fastest(timed, kAlike).front();
  std::erase_if(timed, [&](const TimedVariant& each) { return each.variant == chosen.variant; });
  const TimedVariant next = std::ranges::min(timed, {}, &TimedVariant::seconds);
  const std::string& name = variants[next.variant].name;
  const bool alike = variants[chosen.variant].name == name;
  return {.fastest = chosen.variant,
          .reason =
              comparison(chosen.seconds, next.seconds, alike ? name + "'s next algorithm" : name)};
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
  kernel.source = variant.source;
  kernel.choice = choice.reason;
}

}  // namespace fusecalc
