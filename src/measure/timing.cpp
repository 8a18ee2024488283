#include "measure/timing.hpp"

#include <chrono>
#include <vector>

#include "core/interrupt.hpp"

namespace fusecalc {

TimeSpread time_work(GpuBackend& gpu, const Work& work, const StoppingRule& rule) {
  using Clock = std::chrono::steady_clock;
  constexpr int kWarmUps = 3;
  for (int i = 0; i < kWarmUps; ++i) gpu.time_once(work);
  const Clock::time_point begin = Clock::now();
  std::vector<TimedRun> runs;
  while (!enough(rule, runs, std::chrono::duration<double>(Clock::now() - begin).count())) {
    stop_if_interrupted();
    runs.push_back(gpu.time_once(work));
  }
  return summarize(runs, gpu.device().sm_clock_hz);
}

}  // namespace fusecalc
