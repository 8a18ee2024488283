#include "cuda/driver.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <string>

namespace fusecalc::cuda {
namespace {

#define FUSECALC_TEXT(name) #name
#define FUSECALC_NAME(name) FUSECALC_TEXT(name)

template <typename Function>
Function find(void* library, const char* name) {
  void* symbol = ::dlsym(library, name);
  if (symbol == nullptr) throw gpu_error(GpuFault::kDriverTooOld, std::string("it lacks ") + name);
  return reinterpret_cast<Function>(symbol);
}

Driver open_driver() {
  void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw gpu_error(GpuFault::kNoDriver);
  Driver driver;
  const auto get_version =
      find<decltype(&::cuDriverGetVersion)>(library, FUSECALC_NAME(cuDriverGetVersion));
  if (get_version(&driver.version) != CUDA_SUCCESS) throw gpu_error(GpuFault::kNoDriver);
  if (!driver_runs_toolkit(driver.version, CUDA_VERSION)) {
    throw gpu_error(GpuFault::kDriverTooOld,
                    fmt::format("it supports CUDA {}, this build needs {}.0",
                                cuda_version_text(driver.version), CUDA_VERSION / 1000));
  }
#define FUSECALC_FIND(name) driver.name = find<decltype(&::name)>(library, FUSECALC_NAME(name));
  FUSECALC_DRIVER_FUNCTIONS(FUSECALC_FIND)
#undef FUSECALC_FIND
  const CUresult ready = find<decltype(&::cuInit)>(library, FUSECALC_NAME(cuInit))(0);
  if (ready == CUDA_ERROR_NO_DEVICE) throw gpu_error(GpuFault::kNoDevice);
  if (ready != CUDA_SUCCESS) {
    throw gpu_error(GpuFault::kDriver, fmt::format("cuInit: error {}", static_cast<int>(ready)));
  }
  return driver;
}

}  // namespace

const Driver& driver() {
  static const Driver instance = open_driver();
  return instance;
}

void* find_in_driver(const char* name) {
  void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  return library == nullptr ? nullptr : ::dlsym(library, name);
}

std::string uuid_text(CUdevice device) {
  CUuuid uuid{};
  check(driver().cuDeviceGetUuid(&uuid, device), "cuDeviceGetUuid");
  std::string text = "GPU";
  for (std::size_t i = 0; i < sizeof uuid.bytes; ++i) {
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(uuid.bytes[i]));
  }
  return text;
}

void check(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  const char* name = nullptr;
  const char* text = nullptr;
  driver().cuGetErrorName(result, &name);
  driver().cuGetErrorString(result, &text);
  const std::string detail = fmt::format("{}: {}: {}", what, name == nullptr ? "?" : name,
                                         text == nullptr ? "unknown" : text);
  throw gpu_error(result == CUDA_ERROR_OUT_OF_MEMORY ? GpuFault::kOutOfMemory : GpuFault::kDriver,
                  detail);
}

}  // namespace fusecalc::cuda
