#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gpu/cupti.hpp"
#include "gpu/dram_metrics.hpp"

namespace fusecalc::gpu {

// Initialises the profiler for the process. Throws Error with what keeps this device's counters
// from being read, as far as CUPTI can tell beforehand.
void prepare_profiler(CUdevice device);

// CUPTI's name of a device's chip: "GH100".
std::string chip_name(int device_index);

// An open counting session on a context: one user range, one pass, DRAM bytes. Opening takes most
// of a second, a range some 25 ms. Nothing should be timed while one is open.
class CounterSession {
 public:
  CounterSession(CUcontext context, int device_index);
  CounterSession(const CounterSession&) = delete;
  CounterSession& operator=(const CounterSession&) = delete;
  ~CounterSession();

  // The DRAM traffic while `work` runs; it must wait for what it enqueues.
  Bytes count(const std::function<void()>& work);

  const DramMetrics& metrics() const { return metrics_; }

 private:
  void clear_counter_data();
  void begin_range();
  void end_range();

  CUcontext context_;
  DramMetrics metrics_;
  CUpti_RangeProfiler_Object* profiler_ = nullptr;
  std::vector<std::uint8_t> counter_data_;
};

}  // namespace fusecalc::gpu
