#pragma once

#include <cuda.h>

#include <string>

#include "backend/gpu_fault.hpp"

namespace fusecalc::cuda {

// The driver's functions. cuda.h renames several to their current version, and the names below
// follow: FUSECALC_NAME(cuMemAlloc) is "cuMemAlloc_v2".
// clang-format off
#define FUSECALC_DRIVER_FUNCTIONS(X) \
  X(cuCtxGetDevice) \
  X(cuCtxPopCurrent) \
  X(cuCtxPushCurrent) \
  X(cuCtxResetPersistingL2Cache) \
  X(cuCtxSetCurrent) \
  X(cuCtxSetLimit) \
  X(cuCtxSynchronize) \
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
  X(cuEventQuery) \
  X(cuEventRecord) \
  X(cuFuncGetAttribute) \
  X(cuFuncGetName) \
  X(cuFuncSetAttribute) \
  X(cuGetErrorName) \
  X(cuGetErrorString) \
  X(cuGraphDestroy) \
  X(cuGraphGetNodes) \
  X(cuGraphKernelNodeGetParams) \
  X(cuGraphNodeGetType) \
  X(cuKernelGetName) \
  X(cuLaunchCooperativeKernel) \
  X(cuLaunchKernel) \
  X(cuLaunchKernelEx) \
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
  X(cuStreamBeginCapture) \
  X(cuStreamCreate) \
  X(cuStreamDestroy) \
  X(cuStreamEndCapture) \
  X(cuStreamIsCapturing) \
  X(cuStreamSynchronize) \
  X(cuTensorMapEncodeIm2col)   \
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

// A function that older drivers of this major version lack; null if this one does.
void* find_in_driver(const char* name);

// "GPU-1a2b3c4d-...", as nvidia-smi and NVML write it.
std::string uuid_text(CUdevice device);

// Throws Error for a driver call that failed; `what` names it.
void check(CUresult result, const char* what);

}  // namespace fusecalc::cuda
