#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/error.hpp"

namespace fusecalc {

// Why a GPU cannot be measured here.
enum class GpuFault {
  kNoModule,
  kBrokenModule,
  kForeignModule,
  kNoCompiler,
  kNoDriver,
  kDriverTooOld,
  kDriver,
  kNoDevice,
  kBadDeviceIndex,
  kDeviceUnknown,
  kOutOfMemory,
  kCompile,
  kNoCublas,
  kCublas,
  kNoCupti,
  kCuptiTooOld,
  kCupti,
  kDriverBehindCupti,
  kDeviceNotProfilable,
  kNotPermitted,
  kCountersBusy,
  kMig,
  kVirtualGpu,
  kVirtualGpuNotPermitted,
  kConfidentialComputing,
  kWsl,
  kNoMetric,
  kTooManyPasses,
  kDroppedRange,
  kImplausible,
};

// One line: what is wrong, the detail in parentheses, and how to fix it. All are kUnavailable.
Error gpu_error(GpuFault fault, const std::string& detail = {});

// Why dlopen failed to open the GPU module, from its message.
GpuFault fault_of_load_failure(std::string_view dlerror_text);

// Whether the driver reserves the counters for administrators, from the text of
// /proc/driver/nvidia/params. Empty if it does not say.
std::optional<bool> counters_for_admin_only(std::string_view driver_params);

// The same for the driver of this machine.
std::optional<bool> counters_for_admin_only();

// "13.0" for CUDA's 13000.
std::string cuda_version_text(int version);

// A driver runs code compiled by toolkits of its own or an older major version.
bool driver_runs_toolkit(int driver_cuda, int toolkit_cuda);

}  // namespace fusecalc
