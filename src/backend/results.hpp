// What a backend reports: of a GPU, of a compiled kernel, of a run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "device/device.hpp"

namespace fusecalc {

// A GPU of this machine: the device, and what only its driver can tell. SI units.
struct PresentGpu {
  Device device{};
  int index = 0;
  std::string uuid{};
  std::string driver{};       // the driver's own version, empty without NVML
  std::string driver_cuda{};  // the newest CUDA that the driver runs: "13.0"
  std::string toolkit{};      // the CUDA that compiles here
  double sm_clock_hz = 0;     // at its highest
  double memory_clock_hz = 0;
  bool ecc = false;
};

// The compiler's report on one entry.
struct KernelResources {
  unsigned registers = 0;          // per thread
  std::uint64_t shared_bytes = 0;  // static, per block
  std::uint64_t local_bytes = 0;   // per thread: stack and spills
  std::uint64_t spill_bytes = 0;   // stored and loaded
  unsigned max_block_threads = 0;
};

// One timed run of some work.
struct TimedRun {
  double seconds = 0;
  std::optional<double> sm_clock_hz{};  // right after it, if the device reports it
  bool slowed = false;                  // the device reports a thermal or power limit on its clocks
};

}  // namespace fusecalc
