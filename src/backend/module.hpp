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

// One thing that measuring needs, and how it stands here.
struct Check {
  enum class State { kOk, kFail, kSkip };
  State state = State::kOk;
  std::string name;
  std::string finding;  // for a failure: what is wrong and the mend
};

// What libfusecalc_gpu.so exports: the one place where the program and the module meet.
struct GpuModule {
  const char* version;  // kVersion of the build
  std::unique_ptr<GpuBackend> (*open)(const GpuOptions&);
  std::vector<Check> (*diagnose)(const GpuOptions&);
};

inline constexpr char kGpuModuleFile[] = "libfusecalc_gpu.so";
inline constexpr char kGpuModuleSymbol[] = "fusecalc_gpu_module";
extern "C" using GpuModuleFunction = const GpuModule * ();

// Loads the module beside the executable, once; it stays. Throws Error with what is missing.
const GpuModule& load_gpu_module();

}  // namespace fusecalc
