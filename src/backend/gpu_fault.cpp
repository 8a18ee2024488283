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
  std::string_view mend;
};

constexpr std::string_view kTimingOnly = "or time without counters: measure --timing-only";

constexpr std::array kRows = {
    Row{GpuFault::kNoModule, "this fusecalc was built without its GPU module",
        "build it where the CUDA toolkit (12.6 or newer, with NVRTC and CUPTI) is found"},
    Row{GpuFault::kBrokenModule, "the GPU module does not load", "build or install fusecalc again"},
    Row{GpuFault::kForeignModule, "the GPU module belongs to another version of fusecalc",
        "build or install fusecalc again"},
    Row{GpuFault::kNoCompiler, "the CUDA run-time compiler (NVRTC) is not found",
        "install it with the CUDA toolkit, or name its folder in LD_LIBRARY_PATH"},
    Row{GpuFault::kNoDriver, "no NVIDIA driver is found",
        "install one; in a container, start it with --gpus all"},
    Row{GpuFault::kDriverTooOld, "the NVIDIA driver is older than the CUDA toolkit of this build",
        "update the driver, or build fusecalc with an older CUDA toolkit"},
    Row{GpuFault::kDriver, "the NVIDIA driver reports an error",
        "see `fusecalc doctor`, and dmesg for what the driver says"},
    Row{GpuFault::kNoDevice, "no NVIDIA GPU is visible",
        "look at nvidia-smi and at CUDA_VISIBLE_DEVICES"},
    Row{GpuFault::kBadDeviceIndex, "there is no GPU of that index",
        "give --device-index one that `nvidia-smi -L` lists"},
    Row{GpuFault::kDeviceUnknown, "the CUDA toolkit of this build does not compile for this GPU",
        "build fusecalc with one that does: an older GPU needs an older toolkit"},
    Row{GpuFault::kOutOfMemory, "the GPU's memory is used up",
        "end other work on it, or measure smaller tensors"},
    Row{GpuFault::kCompile, "a generated kernel does not compile",
        "report this as a fault of fusecalc"},
    Row{GpuFault::kNoCublas, "cuBLASLt, which runs plain matrix products, is not found",
        "install it with the CUDA toolkit, or name its folder in LD_LIBRARY_PATH"},
    Row{GpuFault::kCublas, "cuBLASLt does not compute a matrix product",
        "measure it in another type, or with lines of a multiple of 16 bytes"},
    Row{GpuFault::kNoCupti, "CUPTI is not found",
        "install it with the CUDA toolkit, or name its folder in LD_LIBRARY_PATH"},
    Row{GpuFault::kCuptiTooOld, "CUPTI lacks the range profiler", "install CUPTI 12.6 or newer"},
    Row{GpuFault::kCupti, "CUPTI reports an error", kTimingOnly},
    Row{GpuFault::kDriverBehindCupti, "the NVIDIA driver is too old for this CUPTI",
        "update the driver"},
    Row{GpuFault::kDeviceNotProfilable, "this GPU has no counters that CUPTI can read",
        "they need compute capability 7.0 or higher, no SLI and no mining card"},
    Row{GpuFault::kNotPermitted, "the driver does not permit reading the GPU's counters",
        "run with CAP_SYS_ADMIN (docker: --cap-add SYS_ADMIN), or load the nvidia kernel module "
        "with NVreg_RestrictProfilingToAdminUsers=0"},
    Row{GpuFault::kCountersBusy, "another profiler holds the GPU's counters",
        "end it; where DCGM watches the machine: dcgmi profile --pause"},
    Row{GpuFault::kMig, "the DRAM counters cannot be read on a MIG slice",
        "use a GPU that is not partitioned"},
    Row{GpuFault::kVirtualGpu, "the counters cannot be read on this virtual GPU",
        "use a whole GPU, or a virtual one with profiling enabled"},
    Row{GpuFault::kVirtualGpuNotPermitted, "profiling is not enabled for this virtual GPU",
        "have the host's administrator set enable_profiling for it"},
    Row{GpuFault::kConfidentialComputing, "confidential computing hides the GPU's counters",
        "measure with it turned off"},
    Row{GpuFault::kWsl, "the counters cannot be read under this WSL",
        "allow GPU performance counters to all users in the NVIDIA control panel of Windows"},
    Row{GpuFault::kNoMetric, "CUPTI knows no DRAM byte counters for this GPU", kTimingOnly},
    Row{GpuFault::kTooManyPasses, "the DRAM counters do not fit into one pass on this GPU",
        kTimingOnly},
    Row{GpuFault::kDroppedRange, "CUPTI lost a counted range",
        "run again, with nothing else profiling this GPU"},
    Row{GpuFault::kImplausible, "the DRAM counters do not agree with a read of known size",
        "end other work on this GPU and run again"},
};

}  // namespace

Error gpu_error(GpuFault fault, const std::string& detail) {
  const auto* row = std::ranges::find(kRows, fault, &Row::fault);
  assert(row != kRows.end());
  return {Fault::kUnavailable, detail.empty() ? fmt::format("{}; {}", row->what, row->mend)
                                              : fmt::format("{} ({}); {}", row->what,
                                                            printable(detail, 400), row->mend)};
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
