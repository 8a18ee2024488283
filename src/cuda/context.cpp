#include "cuda/context.hpp"

#include <fmt/format.h>

#include <array>
#include <string>

#include "cuda/compiler.hpp"

namespace fusecalc::cuda {
int device_count() {
  int count = 0;
  check(driver().cuDeviceGetCount(&count), "cuDeviceGetCount");
  return count;
}

CUdevice device_at(int index) {
  const int count = device_count();
  if (count == 0) throw gpu_error(GpuFault::kNoDevice);
  if (index < 0 || index >= count) {
    throw gpu_error(GpuFault::kBadDeviceIndex,
                    fmt::format("index {}, {} GPUs visible", index, count));
  }
  CUdevice device = 0;
  check(driver().cuDeviceGet(&device, index), "cuDeviceGet");
  return device;
}

int attribute(CUdevice device, CUdevice_attribute which) {
  int value = 0;
  check(driver().cuDeviceGetAttribute(&value, which, device), "cuDeviceGetAttribute");
  return value;
}

ComputeCapability capability_of(CUdevice device) {
  const auto part = [&](CUdevice_attribute which) {
    return static_cast<unsigned>(attribute(device, which));
  };
  return {.major = part(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
          .minor = part(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)};
}

PresentGpu describe(CUdevice device, int index) {
  constexpr double kKilohertz = 1e3;
  std::array<char, 256> name{};
  check(driver().cuDeviceGetName(name.data(), static_cast<int>(name.size()), device),
        "cuDeviceGetName");
  std::size_t memory = 0;
  check(driver().cuDeviceTotalMem(&memory, device), "cuDeviceTotalMem");
  const auto count = [&](CUdevice_attribute which) {
    return static_cast<std::uint64_t>(attribute(device, which));
  };
  return {.device = {.name = name.data(),
                     .capability = capability_of(device),
                     .on_chip_bytes = count(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
                     .multiprocessors =
                         static_cast<unsigned>(count(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)),
                     .l2_bytes = count(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE),
                     .memory_bytes = memory},
          .index = index,
          .uuid = uuid_text(device),
          .driver = {},
          .driver_cuda = cuda_version_text(driver().version),
          .toolkit = compiler_version(),
          .sm_clock_hz = attribute(device, CU_DEVICE_ATTRIBUTE_CLOCK_RATE) * kKilohertz,
          .memory_clock_hz = attribute(device, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE) * kKilohertz,
          .ecc = attribute(device, CU_DEVICE_ATTRIBUTE_ECC_ENABLED) != 0};
}

Context::Context(CUdevice device) : device_(device) {
  check(driver().cuDevicePrimaryCtxRetain(&context_, device), "cuDevicePrimaryCtxRetain");
  CUresult result = driver().cuCtxSetCurrent(context_);
  if (result == CUDA_SUCCESS) result = driver().cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING);
  if (result != CUDA_SUCCESS) {
    driver().cuDevicePrimaryCtxRelease(device_);
    check(result, "cuStreamCreate");
  }
}

Context::~Context() {
  driver().cuStreamDestroy(stream_);
  driver().cuDevicePrimaryCtxRelease(device_);
}

}  // namespace fusecalc::cuda
