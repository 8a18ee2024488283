#include "measure/way.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "core/interrupt.hpp"

namespace fusecalc {
namespace {

// Odd, so that a median is a run.
constexpr std::size_t kRounds = 7;
constexpr std::size_t kWarmUps = 2;

std::string comparison(double seconds, double next_seconds, const std::string& next) {
  const double percent = std::round((next_seconds / seconds - 1) * 100);
  if (percent < 1) return "as fast as " + next;
  if (percent >= 100) return fmt::format("{:.1f} times as fast as {}", 1 + percent / 100, next);
  return fmt::format("{:.0f} % faster than {}", percent, next);
}

}  // namespace

Choice fastest_of(GpuBackend& gpu, std::span<const Way> ways) {
  std::vector<std::vector<double>> seconds(ways.size());
  for (std::size_t round = 0; round < kWarmUps + kRounds; ++round) {
    stop_if_interrupted();
    for (std::size_t i = 0; i < ways.size(); ++i) {
      const TimedRun run = gpu.time_once([&] { enqueue(gpu, ways[i].steps); });
      if (round >= kWarmUps) seconds[i].push_back(run.seconds);
    }
  }
  std::vector<std::pair<double, std::size_t>> order;
  for (std::size_t i = 0; i < ways.size(); ++i) {
    std::ranges::sort(seconds[i]);
    order.emplace_back(seconds[i][kRounds / 2], i);
  }
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
  kernel.schedule = std::move(way.schedule);
  kernel.gaps = std::move(way.gaps);
  kernel.choice = choice.reason;
}

}  // namespace fusecalc
