#include "cuda/cupti.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <string>

namespace fusecalc::cuda {
namespace {

// The CUPTI of the build; its folder is in this module's RUNPATH.
void* open_library() {
  const std::string versioned = fmt::format("libcupti.so.{}", CUDA_VERSION / 1000);
  for (const std::string& name : {versioned, std::string("libcupti.so")}) {
    if (void* library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  }
  const char* reason = ::dlerror();
  throw gpu_error(GpuFault::kNoCupti, reason == nullptr ? "" : reason);
}

Cupti open_cupti() {
  void* library = open_library();
  Cupti cupti;
#define FUSECALC_FIND(name)                                                  \
  cupti.name = reinterpret_cast<decltype(&::name)>(::dlsym(library, #name)); \
  if (cupti.name == nullptr) throw gpu_error(GpuFault::kCuptiTooOld, "it lacks " #name);
  FUSECALC_CUPTI_FUNCTIONS(FUSECALC_FIND)
#undef FUSECALC_FIND
  return cupti;
}

}  // namespace

const Cupti& cupti() {
  static const Cupti instance = open_cupti();
  return instance;
}

GpuFault fault_of(CUptiResult result) {
  switch (result) {
    case CUPTI_ERROR_INSUFFICIENT_PRIVILEGES: return GpuFault::kNotPermitted;
    case CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED:
    case CUPTI_ERROR_HARDWARE_BUSY: return GpuFault::kCountersBusy;
    case CUPTI_ERROR_MIG_DEVICE_NOT_SUPPORTED: return GpuFault::kMig;
    case CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED: return GpuFault::kVirtualGpu;
    case CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES:
      return GpuFault::kVirtualGpuNotPermitted;
    case CUPTI_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED: return GpuFault::kConfidentialComputing;
    case CUPTI_ERROR_WSL_DEVICE_NOT_SUPPORTED: return GpuFault::kWsl;
    case CUPTI_ERROR_CMP_DEVICE_NOT_SUPPORTED:
    case CUPTI_ERROR_SLI_DEVICE_NOT_SUPPORTED:
    case CUPTI_ERROR_LEGACY_PROFILER_NOT_SUPPORTED:
    case CUPTI_ERROR_NOT_SUPPORTED: return GpuFault::kDeviceNotProfilable;
    case CUPTI_ERROR_CUDA_COMPILER_NOT_COMPATIBLE: return GpuFault::kDriverBehindCupti;
    case CUPTI_ERROR_INVALID_METRIC_NAME:
    case CUPTI_ERROR_INVALID_CHIP_NAME: return GpuFault::kNoMetric;
    default: return GpuFault::kCupti;
  }
}

void check(CUptiResult result, const char* what) {
  if (result == CUPTI_SUCCESS) return;
  const GpuFault fault = fault_of(result);
  const char* text = nullptr;
  cupti().cuptiGetResultString(result, &text);
  std::string detail = fmt::format("{}: {}", what, text == nullptr ? "unknown" : text);
  if (fault == GpuFault::kNotPermitted && counters_for_admin_only().value_or(false)) {
    detail += "; RmProfilingAdminOnly is 1 in /proc/driver/nvidia/params";
  }
  throw gpu_error(fault, detail);
}

}  // namespace fusecalc::cuda
