#include "measure/way.hpp"

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

}  // namespace

Choice fastest_of(GpuBackend& gpu, std::span<const Way> ways) {
  constexpr std::size_t kRuns = 7;  // odd, so that a median is a run
  std::vector<Work> works;
  for (const Way& way : ways) works.emplace_back([&] { enqueue(gpu, way.steps); });
  // The driver loads a kernel when it is first launched, and waits for the GPU meanwhile, which
  // waits for the launches of a timed run.
  for (const Way& way : ways) enqueue(gpu, way.steps);
  gpu.finish();
  const std::vector<std::optional<TimeSpread>> times =
      time_by_turns(gpu, works, {.min_samples = kRuns, .max_samples = kRuns});
  stop_if_interrupted();
  std::vector<std::pair<double, std::size_t>> order;
  for (std::size_t i = 0; i < times.size(); ++i) order.emplace_back(times[i].value().median, i);
  std::ranges::sort(order);
  if (order.size() < 2) return {};
  return {.fastest = order[0].second,
          .reason = comparison(order[0].first, order[1].first, ways[order[1].second].name)};
}

void settle(GpuBackend& gpu, PreparedKernel& kernel) {
  if (kernel.ways.empty()) return;
  std::vector<Way> ways = std::exchange(kernel.ways, {});
  const Choice choice = fastest_of(gpu, ways);
  Way& way = ways[choice.fastest];
  kernel.steps = std::move(way.steps);
  kernel.main = way.main;
  kernel.schedule = std::move(way.schedule);
  kernel.gaps = std::move(way.gaps);
  kernel.choice = choice.reason;
}

}  // namespace fusecalc
