#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace fusecalc {

enum class PointEnd : std::uint8_t { kRan, kFailed, kInterrupted };

struct SweepProgress {
  std::size_t points = 0;
  std::size_t ran = 0;
  std::size_t failed = 0;  // of those that ran

  std::size_t left() const { return points - ran; }
};

struct WorkerOptions {
  unsigned jobs = 1;
  // A process ends after a point that failed, and the next points get a new one: a fault of a GPU
  // may stay with the process.
  bool end_after_failure = false;
};

// Runs points in `jobs` processes forked from this one, which must not have started a thread. Each
// calls `start(job)` once, and what that returns for one point after the other. A process that
// dies is reported through `on_death`, with its point and "ended by signal 9 (Killed)", and counts
// as a failed point. `on_progress` is called several times a second. After a Ctrl-C (see
// note_interrupts) no further point is begun. Throws Error if a process cannot be started, or if
// `start` or a point threw one.
using RunPoint = std::function<PointEnd(std::size_t point)>;
SweepProgress run_points(std::span<const std::size_t> points, const WorkerOptions& options,
                         const std::function<RunPoint(unsigned job)>& start,
                         const std::function<void(std::size_t, const std::string&)>& on_death,
                         const std::function<void(const SweepProgress&)>& on_progress);

// How many GPUs this process may use, found without a driver: those of CUDA_VISIBLE_DEVICES, or
// else the device files; at least 1.
unsigned visible_gpus();

}  // namespace fusecalc
