// A driver with one GPU, which does nothing. It loads the library that CUDA_INJECTION64_PATH names,
// as CUDA does, and reports launches to the fake CUPTI.
#include <cuda.h>
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>

#include "fakes/callback.hpp"

extern "C" {

FakeCallback fake_callback = nullptr;
FakeSynchronization fake_synchronization = nullptr;

CUresult cuDriverGetVersion(int* version) {
  *version = CUDA_VERSION;
  return CUDA_SUCCESS;
}

CUresult cuInit(unsigned /*flags*/) {
  static bool initialized = false;
  if (initialized) return CUDA_SUCCESS;
  initialized = true;
  const char* path = std::getenv("CUDA_INJECTION64_PATH");
  void* library = path == nullptr ? nullptr : ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return CUDA_SUCCESS;
  if (auto* begin = reinterpret_cast<int (*)()>(::dlsym(library, "InitializeInjection"))) begin();
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* count) {
  *count = 1;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char* name, int bytes, CUdevice /*device*/) {
  std::strncpy(name, "fake", static_cast<std::size_t>(bytes));
  return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem(std::size_t* bytes, CUdevice /*device*/) {
  *bytes = std::size_t{8} << 30U;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute /*which*/, CUdevice /*device*/) {
  *value = 9;
  return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction /*kernel*/, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                        unsigned by, unsigned bz, unsigned /*shared*/, CUstream stream,
                        void** /*arguments*/, void** /*extra*/) {
  if (fake_callback != nullptr) fake_callback(true, gx, gy, gz, bx, by, bz, stream);
  if (fake_callback != nullptr) fake_callback(false, gx, gy, gz, bx, by, bz, stream);
  return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize() {
  if (fake_synchronization != nullptr) fake_synchronization(true);
  if (fake_synchronization != nullptr) fake_synchronization(false);
  return CUDA_SUCCESS;
}

}  // extern "C"
