#pragma once

#include <cuda.h>

#include "backend/gpu_fault.hpp"

namespace fusecalc::cuda {

// The driver's functions. cuda.h renames several to their current version, and the names below
// follow: FUSECALC_NAME(cuMemAlloc) is "cuMemAlloc_v2".
// clang-format off
#define FUSECALC_DRIVER_FUNCTIONS(X) \
  X(cuCtxResetPersistingL2Cache) \
  X(cuCtxSetCurrent) \
  X(cuCtxSetLimit) \
  X(cuDeviceGet) \
  X(cuDeviceGetAttribute) \
  X(cuDeviceGetCount) \
  X(cuDeviceGetName) \
  X(cuDeviceGetUuid) \
  X(cuDevicePrimaryCtxRelease) \
  X(cuDevicePrimaryCtxRetain) \
  X(cuDeviceTotalMem) \
  X(cuEventCreate) \
  X(cuEventDestroy) \
  X(cuEventElapsedTime) \
  X(cuEventRecord) \
  X(cuFuncGetAttribute) \
  X(cuFuncSetAttribute) \
  X(cuGetErrorName) \
  X(cuGetErrorString) \
  X(cuLaunchCooperativeKernel) \
  X(cuLaunchKernel) \
  X(cuMemAlloc) \
  X(cuMemcpyDtoDAsync) \
  X(cuMemcpyDtoHAsync) \
  X(cuMemcpyHtoDAsync) \
  X(cuMemFree) \
  X(cuMemFreeHost) \
  X(cuMemGetInfo) \
  X(cuMemHostAlloc) \
  X(cuMemHostGetDevicePointer) \
  X(cuMemsetD8Async) \
  X(cuModuleGetFunction) \
  X(cuModuleLoadData) \
  X(cuModuleUnload) \
  X(cuOccupancyMaxActiveBlocksPerMultiprocessor) \
  X(cuOccupancyMaxActiveClusters) \
  X(cuStreamCreate) \
  X(cuStreamDestroy) \
  X(cuStreamSynchronize) \
  X(cuTensorMapEncodeTiled)
// clang-format on

// libcuda.so.1, opened at first use and kept open: if it were linked, the module would not load
// without a driver, and could not report that itself.
struct Driver {
  int version = 0;  // of CUDA, as 13000
#define FUSECALC_MEMBER(name) decltype(&::name) name = nullptr;
  FUSECALC_DRIVER_FUNCTIONS(FUSECALC_MEMBER)
#undef FUSECALC_MEMBER
};

// Throws Error if there is no driver, or one too old for this build.
const Driver& driver();

// Throws Error for a driver call that failed; `what` names it.
void check(CUresult result, const char* what);

}  // namespace fusecalc::cuda
