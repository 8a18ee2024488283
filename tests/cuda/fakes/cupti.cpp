// A CUPTI in which every range moves 1,000 bytes in and 500 out. FAKE_CUPTI names a function, and
// FAKE_ERROR the error that it returns; FAKE_KEPT is how many ranges of a pass are kept.
// The arguments of all versions of a function are declared for this only.
#define __CUDA_API_VERSION_INTERNAL

#include <cupti_callbacks.h>
#include <cupti_driver_cbid.h>
#include <cupti_profiler_host.h>
#include <cupti_profiler_target.h>
#include <cupti_range_profiler.h>
#include <cupti_target.h>
#include <dlfcn.h>
#include <generated_cuda_meta.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "fakes/callback.hpp"

namespace {

CUpti_CallbackFunc subscriber = nullptr;
void* subscriber_data = nullptr;
std::vector<std::string> ranges;  // of the pass

CUptiResult answer(std::string_view function) {
  const char* failing = std::getenv("FAKE_CUPTI");
  if (failing == nullptr || failing != function) return CUPTI_SUCCESS;
  return static_cast<CUptiResult>(std::atoi(std::getenv("FAKE_ERROR")));
}

void on_launch(bool before, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
               unsigned bz, CUstream stream) {
  static std::uint32_t launches = 0;
  launches += before ? 1 : 0;
  cuLaunchKernel_params arguments{};
  arguments.gridDimX = gx;
  arguments.gridDimY = gy;
  arguments.gridDimZ = gz;
  arguments.blockDimX = bx;
  arguments.blockDimY = by;
  arguments.blockDimZ = bz;
  arguments.hStream = stream;
  CUresult result = CUDA_SUCCESS;
  CUpti_CallbackData data{};
  data.callbackSite = before ? CUPTI_API_ENTER : CUPTI_API_EXIT;
  data.functionName = "cuLaunchKernel";
  data.functionParams = &arguments;
  data.functionReturnValue = &result;
  data.symbolName = "kernel";
  data.context = reinterpret_cast<CUcontext>(std::uintptr_t{1});
  data.correlationId = launches;
  subscriber(subscriber_data, CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel,
             &data);
}

void on_synchronization(bool before) {
  CUresult result = CUDA_SUCCESS;
  CUpti_CallbackData data{};
  data.callbackSite = before ? CUPTI_API_ENTER : CUPTI_API_EXIT;
  data.functionName = "cuCtxSynchronize";
  data.functionReturnValue = &result;
  subscriber(subscriber_data, CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuCtxSynchronize,
             &data);
}

}  // namespace

extern "C" {

CUptiResult cuptiSubscribe(CUpti_SubscriberHandle* /*handle*/, CUpti_CallbackFunc callback,
                           void* data) {
  const CUptiResult result = answer("cuptiSubscribe");
  if (result != CUPTI_SUCCESS) return result;
  subscriber = callback;
  subscriber_data = data;
  void* driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  *static_cast<FakeCallback*>(::dlsym(driver, "fake_callback")) = on_launch;
  *static_cast<FakeSynchronization*>(::dlsym(driver, "fake_synchronization")) = on_synchronization;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiGetCallbackName(CUpti_CallbackDomain /*domain*/, std::uint32_t id,
                                 const char** name) {
  switch (id) {
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel: *name = "cuLaunchKernel"; break;
    case CUPTI_DRIVER_TRACE_CBID_cuCtxSynchronize: *name = "cuCtxSynchronize"; break;
    default: *name = "other";
  }
  return id < CUPTI_DRIVER_TRACE_CBID_SIZE ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER;
}

CUptiResult cuptiGetResultString(CUptiResult /*result*/, const char** text) {
  *text = "as the test asked";
  return CUPTI_SUCCESS;
}

CUptiResult cuptiProfilerDeviceSupported(CUpti_Profiler_DeviceSupported_Params* params) {
  params->isSupported = CUPTI_PROFILER_CONFIGURATION_SUPPORTED;
  return answer("cuptiProfilerDeviceSupported");
}

CUptiResult cuptiDeviceGetChipName(CUpti_Device_GetChipName_Params* params) {
  params->pChipName = "GH100";
  return CUPTI_SUCCESS;
}

CUptiResult cuptiProfilerHostGetNumOfPasses(CUpti_Profiler_Host_GetNumOfPasses_Params* params) {
  params->numOfPasses = 1;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiProfilerHostEvaluateToGpuValues(
    CUpti_Profiler_Host_EvaluateToGpuValues_Params* params) {
  params->pMetricValues[0] = 1000;
  params->pMetricValues[1] = 500;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiRangeProfilerEnable(CUpti_RangeProfiler_Enable_Params* /*params*/) {
  return answer("cuptiRangeProfilerEnable");
}

CUptiResult cuptiRangeProfilerStart(CUpti_RangeProfiler_Start_Params* /*params*/) {
  ranges.clear();
  return answer("cuptiRangeProfilerStart");
}

CUptiResult cuptiRangeProfilerPushRange(CUpti_RangeProfiler_PushRange_Params* params) {
  ranges.emplace_back(params->pRangeName);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiRangeProfilerStop(CUpti_RangeProfiler_Stop_Params* params) {
  params->isAllPassSubmitted = 1;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiRangeProfilerGetCounterDataSize(
    CUpti_RangeProfiler_GetCounterDataSize_Params* params) {
  params->counterDataSize = 64;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiRangeProfilerGetCounterDataInfo(
    CUpti_RangeProfiler_GetCounterDataInfo_Params* params) {
  const char* kept = std::getenv("FAKE_KEPT");
  params->numTotalRanges = ranges.size();
  if (kept != nullptr) {
    params->numTotalRanges = std::min<std::size_t>(ranges.size(), std::strtoul(kept, nullptr, 10));
  }
  return CUPTI_SUCCESS;
}

CUptiResult cuptiRangeProfilerCounterDataGetRangeInfo(
    CUpti_RangeProfiler_CounterData_GetRangeInfo_Params* params) {
  params->rangeName = ranges[params->rangeIndex].c_str();
  return CUPTI_SUCCESS;
}

}  // extern "C"
