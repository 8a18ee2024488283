#include "measure/timing.hpp"

#include <chrono>

#include "core/interrupt.hpp"

namespace fusecalc {
namespace {

struct Timed {
  std::vector<TimedRun> runs{};
  double elapsed_s = 0;
};

}  // namespace

std::vector<std::optional<TimeSpread>> time_alternating(
    GpuBackend& gpu, std::span<const Work> works, const StoppingRule& rule,
    const std::function<void(std::size_t)>& turn) {
  using Clock = std::chrono::steady_clock;
  constexpr std::size_t kWarmUps = 3;
  std::vector<Timed> timed(works.size());
  bool satisfied = false;
  for (std::size_t turns = 0; !satisfied && !interrupted(); ++turns) {
    turn(turns);
    satisfied = true;
    for (std::size_t i = 0; i < works.size() && !interrupted(); ++i) {
      if (enough(rule, timed[i].runs, timed[i].elapsed_s)) continue;
      satisfied = false;
      const Clock::time_point begin = Clock::now();
      const TimedRun run = gpu.time_once(works[i]);
      if (turns < kWarmUps) continue;
      timed[i].runs.push_back(run);
      timed[i].elapsed_s += std::chrono::duration<double>(Clock::now() - begin).count();
    }
  }
  std::vector<std::optional<TimeSpread>> spreads;
  for (const Timed& one : timed) {
    spreads.push_back(one.runs.empty()
                          ? std::nullopt
                          : std::optional(summarize(one.runs, gpu.description().sm_clock_hz)));
  }
  return spreads;
}

}  // namespace fusecalc
