#include "cuda/diagnostics.hpp"

#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <memory>
#include <string>

#include "backend/device_buffer.hpp"
#include "backend/kernel_cache.hpp"
#include "core/format.hpp"
#include "cuda/compiler.hpp"
#include "cuda/context.hpp"
#include "cuda/counters.hpp"
#include "cuda/cublas.hpp"
#include "cuda/cuda_backend.hpp"

namespace fusecalc::cuda {
namespace {

// Runs checks in order; each returns its finding or throws the Error to report.
class Diagnosis {
 public:
  // Returns whether the check passed. Skipped if `needed` is false.
  bool run(const std::string& name, bool needed, const std::function<std::string()>& find) {
    if (!needed) {
      checks_.push_back({Check::State::kSkip, name, "depends on a failed check"});
      return false;
    }
    try {
      checks_.push_back({Check::State::kOk, name, find()});
      return true;
    } catch (const Error& error) {
      checks_.push_back({Check::State::kFail, name, error.what()});
      return false;
    }
  }
  void note(Check::State state, const std::string& name, const std::string& finding) {
    checks_.push_back({state, name, finding});
  }
  std::vector<Check> take() { return std::move(checks_); }

 private:
  std::vector<Check> checks_;
};

std::string find_device(int index) {
  const PresentGpu gpu = describe(device_at(index), index);
  const Device& device = gpu.device;
  return fmt::format("{} of {}: {}, compute capability {}, {}, L2 {}, {}", index, device_count(),
                     device.name, to_string(device.capability), human_bytes(device.memory_bytes),
                     human_bytes(device.l2_bytes), gpu.uuid);
}

void diagnose_management(Diagnosis& diagnosis, int index) {
  const Nvml nvml(describe(device_at(index), index).uuid);
  diagnosis.note(
      nvml.available() ? Check::State::kOk : Check::State::kSkip, "clocks",
      nvml.available()
          ? fmt::format("driver {}, clocks and throttling are monitored", nvml.driver_version())
          : "NVML (libnvidia-ml.so.1) is not available: throttling is not detected");
}

void diagnose_library(Diagnosis& diagnosis) {
  try {
    diagnosis.note(Check::State::kOk, "cuBLASLt", cublas_version());
  } catch (const Error& error) {
    diagnosis.note(Check::State::kSkip, "cuBLASLt", error.what());
  }
}

void diagnose_cache(Diagnosis& diagnosis) {
  const auto folder = KernelCache::default_folder();
  const bool usable = KernelCache(folder).usable();
  diagnosis.note(usable ? Check::State::kOk : Check::State::kSkip, "kernel cache",
                 usable ? folder->string()
                        : "no private cache folder (XDG_CACHE_HOME or HOME): every run recompiles");
}

std::string permission_text() {
  const std::optional<bool> admin_only = counters_for_admin_only();
  if (!admin_only) return "the driver does not report who may read counters";
  return *admin_only ? "RmProfilingAdminOnly is 1: only CAP_SYS_ADMIN may read counters"
                     : "RmProfilingAdminOnly is 0: all users may read counters";
}

// Copies 64 MiB and compares the counters with that.
std::string count_known_bytes(CudaBackend& gpu) {
  constexpr std::uint64_t kBytes = std::uint64_t{64} << 20U;
  const DeviceBuffer from(gpu, kBytes);
  const DeviceBuffer to(gpu, kBytes);
  gpu.fill(from, {.dtype = {}, .seed = 1});
  const Bytes counted = gpu.count([&] { gpu.copy(to.at(0), from.at(0), kBytes); });
  const auto error = [](std::uint64_t measured) {
    return 100 * (static_cast<double>(measured) / static_cast<double>(kBytes) - 1);
  };
  const std::string text =
      fmt::format("copying {}: read {:+.3f} %, written {:+.3f} %", human_bytes(kBytes),
                  error(counted.read), error(counted.write));
  constexpr double kMostPercent = 5;
  if (std::abs(error(counted.read)) > kMostPercent ||
      std::abs(error(counted.write)) > kMostPercent) {
    throw Error(Fault::kUnavailable,
                text + "; other work is using this GPU's memory: stop it and try again");
  }
  return text;
}

}  // namespace

std::vector<Check> diagnose(const GpuOptions& options) {
  Diagnosis diagnosis;
  const int index = options.device_index;
  diagnosis.run("compiler", true, [] { return "NVRTC " + compiler_version(); });
  const bool has_driver = diagnosis.run(
      "driver", true, [] { return "runs CUDA " + cuda_version_text(driver().version); });
  const bool has_device = diagnosis.run("device", has_driver, [&] { return find_device(index); });
  diagnosis.run("architecture", has_device,
                [&] { return architecture_for(capability_of(device_at(index))); });
  if (has_device) diagnose_management(diagnosis, index);
  diagnose_library(diagnosis);
  diagnose_cache(diagnosis);
  const bool has_cupti = diagnosis.run("CUPTI", true, [] {
    std::uint32_t version = 0;
    check(cupti().cuptiGetVersion(&version), "cuptiGetVersion");
    return fmt::format("API version {}", version);
  });
  const bool supported = diagnosis.run("profiling", has_device && has_cupti, [&] {
    prepare_profiler(device_at(index));
    return "supported on " + chip_name(index) + "; " + permission_text();
  });
  std::unique_ptr<CudaBackend> gpu;
  const bool counting = diagnosis.run("counters", supported, [&] {
    gpu = std::make_unique<CudaBackend>(options);
    const DramMetrics::Names names = gpu->metrics()->names();
    return fmt::format("{} and {} in one pass", names[0], names[1]);
  });
  diagnosis.run("counting", counting, [&] { return count_known_bytes(*gpu); });
  return diagnosis.take();
}

}  // namespace fusecalc::cuda
