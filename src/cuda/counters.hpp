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

// An open counting session on a context: user ranges, one pass, DRAM bytes. Opening takes some
// 150 ms. Nothing should be timed while one is open.
class CounterSession {
 public:
  // The metrics must outlive it.
  CounterSession(CUcontext context, const DramMetrics& metrics);
  CounterSession(const CounterSession&) = delete;
  CounterSession& operator=(const CounterSession&) = delete;
  ~CounterSession();

  // The DRAM traffic while each work and `after` run; `after` must synchronize. `before` runs ahead
  // of each work and is not counted. The session cannot be used after an exception.
  std::vector<Bytes> count(std::span<const Work> works, const Work& before, const Work& after);

  // The same by hand, for work that is not ours to start: a pass of up to `ranges` ranges, each
  // opened and closed while the context is idle, and then the bytes of those that were kept. They
  // are the first ones of the pass, and at least one.
  static constexpr std::size_t kRangesOfPass = 8;
  void begin_pass(std::size_t ranges);
  void open_range();
  void close_range();
  std::vector<Bytes> end_pass();

 private:
  void make_room(std::size_t ranges);
  std::size_t stop();
  void check_range(std::size_t place, const std::string& name) const;

  const DramMetrics& metrics_;
  CUpti_RangeProfiler_Object* profiler_ = nullptr;
  std::vector<std::uint8_t> counter_data_;
  std::size_t room_ = 0;       // ranges that fit into it
  std::uint64_t begun_ = 0;    // ranges, whose names are their numbers
  std::uint64_t of_pass_ = 0;  // the first range of the pass
};

}  // namespace fusecalc::cuda
