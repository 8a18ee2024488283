#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/backend.hpp"

namespace fusecalc {

struct GpuOptions {
  int device_index = 0;
  bool counters = true;  // open the profiler too, so that its faults are known at once
};

// A requirement of measuring, and whether it is fulfilled.
struct Check {
  enum class State { kOk, kFail, kSkip };
  State state = State::kOk;
  std::string name;
  std::string finding;  // for a failure: what is wrong and how to fix it
};

// The interface between the program and libfusecalc_gpu.so, which exports it.
struct GpuModule {
  const char* version;  // kVersion of the build
  std::unique_ptr<GpuBackend> (*open)(const GpuOptions&);
  std::vector<Check> (*diagnose)(const GpuOptions&);
  // Those that are present. Throws Error if there are none.
  std::vector<PresentGpu> (*devices)();
};

inline constexpr char kGpuModuleFile[] = "libfusecalc_gpu.so";
inline constexpr char kGpuModuleSymbol[] = "fusecalc_gpu_module";
extern "C" using GpuModuleFunction = const GpuModule * ();

// Loads the module once and keeps it loaded. Throws Error with what is missing.
const GpuModule& load_gpu_module();

// The path of the library beside it that CUDA loads into profiled programs. Throws Error without.
std::string injected_library();

// Whether it can be loaded into programs, and no other profiler is attached.
Check check_injection();

}  // namespace fusecalc
