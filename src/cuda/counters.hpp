#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.hpp"
#include "cuda/cupti.hpp"
#include "cuda/dram_metrics.hpp"

namespace fusecalc::cuda {

// Initialises the profiler for the process. Throws Error with the reason if CUPTI already knows
// that this device's counters cannot be read.
void prepare_profiler(CUdevice device);

// CUPTI's name of a device's chip: "GH100".
std::string chip_name(int device_index);

// The DRAM counters of a context's device that are available to this process.
std::unique_ptr<DramMetrics> dram_metrics_of(CUcontext context, int device_index);

// An open counting session on a context: user ranges, one pass, DRAM bytes. Nothing should be timed
// while one is open. On an H200 a range takes some 50 us, a pass 13 ms, and the first pass of a
// session 150 ms and 1 ms more for each range that there is room for.
class CounterSession {
 public:
  static constexpr std::size_t kRangesOfPass = 8;  // of count()
  static constexpr std::size_t kRoom = 4 * kRangesOfPass;

  // The metrics must outlive it. `room`: ranges that a pass has room for.
  CounterSession(CUcontext context, const DramMetrics& metrics, std::size_t room = kRoom);
  CounterSession(const CounterSession&) = delete;
  CounterSession& operator=(const CounterSession&) = delete;
  ~CounterSession();

  // The DRAM traffic while each work and `after` run; `after` must synchronize. `before` runs ahead
  // of each work and is not counted. The session cannot be used after an exception.
  std::vector<Bytes> count(std::span<const Work> works, const Work& before, const Work& after);

  // The same by hand, for work that is not ours to start: a pass of ranges, each opened and closed
  // while the context is idle, and then the bytes of those that were kept. They are the first ones
  // of the pass, and at least one; an H200 has been seen to keep a quarter of what there is room
  // for.
  void begin_pass();
  void open_range();
  void close_range();
  std::vector<Bytes> end_pass();

 private:
  void take_room();
  std::size_t stop();
  void check_range(std::size_t place, const std::string& name) const;

  const DramMetrics& metrics_;
  CUpti_RangeProfiler_Object* profiler_ = nullptr;
  std::size_t room_;
  std::vector<std::uint8_t> counter_data_;
  std::uint64_t begun_ = 0;    // ranges, whose names are their numbers
  std::uint64_t of_pass_ = 0;  // the first range of the pass
};

}  // namespace fusecalc::cuda
