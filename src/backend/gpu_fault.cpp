#include "backend/gpu_fault.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <fstream>
#include <iterator>

#include "core/text.hpp"

namespace fusecalc {
namespace {

struct Row {
  GpuFault fault;
  std::string_view what;
  std::string_view fix;
};

constexpr std::string_view kTimingOnly = "or time without counters: measure --timing-only";

constexpr std::array kRows = {
    Row{GpuFault::kNoModule, "this fusecalc was built without its GPU module",
        "build it on a machine with the CUDA toolkit (12.6 or newer, with NVRTC and CUPTI)"},
    Row{GpuFault::kBrokenModule, "the GPU module failed to load", "rebuild or reinstall fusecalc"},
    Row{GpuFault::kForeignModule, "the GPU module belongs to another version of fusecalc",
        "rebuild or reinstall fusecalc"},
    Row{GpuFault::kNoCompiler, "the CUDA run-time compiler (NVRTC) was not found",
        "install it with the CUDA toolkit, or add its folder to LD_LIBRARY_PATH"},
    Row{GpuFault::kNoDriver, "no NVIDIA driver was found",
        "install one; in a container, start it with --gpus all"},
    Row{GpuFault::kDriverTooOld, "the NVIDIA driver is older than the CUDA toolkit of this build",
        "update the driver, or build fusecalc with an older CUDA toolkit"},
    Row{GpuFault::kDriver, "the NVIDIA driver reported an error",
        "run `fusecalc doctor`, and check dmesg for messages of the driver"},
    Row{GpuFault::kNoDevice, "no NVIDIA GPU is visible",
        "check nvidia-smi and CUDA_VISIBLE_DEVICES"},
    Row{GpuFault::kBadDeviceIndex, "there is no GPU with that index",
        "pass --device-index one of those that `nvidia-smi -L` lists"},
    Row{GpuFault::kDeviceUnknown, "the CUDA toolkit of this build does not support this GPU",
        "build fusecalc with a toolkit that does: older GPUs need an older toolkit"},
    Row{GpuFault::kOutOfMemory, "out of GPU memory",
        "stop other work on the GPU, or measure smaller tensors"},
    Row{GpuFault::kCompile, "a generated kernel does not compile",
        "please report this as a bug of fusecalc"},
    Row{GpuFault::kNoCublas, "cuBLASLt, which runs plain matrix products, was not found",
        "install it with the CUDA toolkit, or add its folder to LD_LIBRARY_PATH"},
    Row{GpuFault::kCublas, "cuBLASLt cannot compute a matrix product",
        "use another dtype, or rows of a multiple of 16 bytes"},
    Row{GpuFault::kNoCupti, "CUPTI was not found",
        "install it with the CUDA toolkit, or add its folder to LD_LIBRARY_PATH"},
    Row{GpuFault::kCuptiTooOld, "CUPTI lacks the range profiler", "install CUPTI 12.6 or newer"},
    Row{GpuFault::kCupti, "CUPTI reported an error", kTimingOnly},
    Row{GpuFault::kDriverBehindCupti, "the NVIDIA driver is too old for this CUPTI",
        "update the driver"},
    Row{GpuFault::kDeviceNotProfilable, "CUPTI cannot read the counters of this GPU",
        "this takes compute capability 7.0 or higher, without SLI, and no mining card"},
    Row{GpuFault::kNotPermitted, "the driver does not permit reading the GPU's counters",
        "run with CAP_SYS_ADMIN (docker: --cap-add SYS_ADMIN), or load the nvidia kernel module "
        "with NVreg_RestrictProfilingToAdminUsers=0"},
    Row{GpuFault::kCountersBusy, "another profiler is using the GPU's counters",
        "stop it; if DCGM monitors the machine: dcgmi profile --pause"},
    Row{GpuFault::kMig, "the DRAM counters cannot be read on a MIG slice",
        "use a GPU that is not partitioned"},
    Row{GpuFault::kVirtualGpu, "the counters cannot be read on this virtual GPU",
        "use a whole GPU, or a virtual GPU with profiling enabled"},
    Row{GpuFault::kVirtualGpuNotPermitted, "profiling is not enabled for this virtual GPU",
        "ask the host's administrator to set enable_profiling for it"},
    Row{GpuFault::kConfidentialComputing,
        "confidential computing blocks access to the GPU's counters", "turn it off to measure"},
    Row{GpuFault::kWsl, "the counters cannot be read in this WSL environment",
        "allow all users access to the GPU performance counters in the NVIDIA Control Panel on "
        "Windows"},
    Row{GpuFault::kNoMetric, "CUPTI has no DRAM byte counters for this GPU", kTimingOnly},
    Row{GpuFault::kTooManyPasses, "the DRAM counters do not fit into one pass on this GPU",
        kTimingOnly},
    Row{GpuFault::kDroppedRange, "CUPTI dropped a counter range",
        "run again, with no other profiler on this GPU"},
    Row{GpuFault::kImplausible, "the DRAM counters do not match a read of known size",
        "stop other work on this GPU and run again"},
};

}  // namespace

Error gpu_error(GpuFault fault, const std::string& detail) {
  const auto* row = std::ranges::find(kRows, fault, &Row::fault);
  assert(row != kRows.end());
  return {Fault::kUnavailable,
          detail.empty() ? fmt::format("{}; {}", row->what, row->fix)
                         : fmt::format("{} ({}); {}", row->what, printable(detail, 400), row->fix)};
}

GpuFault fault_of_load_failure(std::string_view dlerror_text) {
  const bool missing = dlerror_text.find("No such file") != std::string_view::npos;
  if (missing && dlerror_text.find("libnvrtc") != std::string_view::npos) {
    return GpuFault::kNoCompiler;
  }
  return GpuFault::kBrokenModule;
}

std::optional<bool> counters_for_admin_only(std::string_view driver_params) {
  constexpr std::string_view kKey = "RmProfilingAdminOnly:";
  const std::size_t key = driver_params.find(kKey);
  if (key == std::string_view::npos) return std::nullopt;
  const std::size_t digit = driver_params.find_first_not_of(' ', key + kKey.size());
  if (digit == std::string_view::npos) return std::nullopt;
  return driver_params[digit] != '0';
}

std::optional<bool> counters_for_admin_only() {
  std::ifstream file("/proc/driver/nvidia/params");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return counters_for_admin_only(std::string_view(text));
}

std::string cuda_version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

bool driver_runs_toolkit(int driver_cuda, int toolkit_cuda) {
  return driver_cuda / 1000 >= toolkit_cuda / 1000;
}

}  // namespace fusecalc
