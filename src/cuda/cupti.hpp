#pragma once

#include <cuda.h>
#include <cupti_activity.h>
#include <cupti_callbacks.h>
#include <cupti_profiler_host.h>
#include <cupti_profiler_target.h>
#include <cupti_range_profiler.h>
#include <cupti_result.h>
#include <cupti_target.h>
#include <cupti_version.h>

#include "backend/gpu_fault.hpp"

namespace fusecalc::cuda {

// clang-format off
#define FUSECALC_CUPTI_FUNCTIONS(X) \
  X(cuptiActivityEnable) \
  X(cuptiActivityFlushAll) \
  X(cuptiActivityFlushPeriod) \
  X(cuptiActivityGetNextRecord) \
  X(cuptiActivityRegisterCallbacks) \
  X(cuptiDeviceGetChipName) \
  X(cuptiEnableCallback) \
  X(cuptiGetCallbackName) \
  X(cuptiGetResultString) \
  X(cuptiGetVersion) \
  X(cuptiProfilerDeInitialize) \
  X(cuptiProfilerDeviceSupported) \
  X(cuptiProfilerGetCounterAvailability) \
  X(cuptiProfilerInitialize) \
  X(cuptiProfilerHostConfigAddMetrics) \
  X(cuptiProfilerHostDeinitialize) \
  X(cuptiProfilerHostEvaluateToGpuValues) \
  X(cuptiProfilerHostGetConfigImage) \
  X(cuptiProfilerHostGetConfigImageSize) \
  X(cuptiProfilerHostGetNumOfPasses) \
  X(cuptiProfilerHostInitialize) \
  X(cuptiRangeProfilerCounterDataGetRangeInfo) \
  X(cuptiRangeProfilerCounterDataImageInitialize) \
  X(cuptiRangeProfilerDecodeData) \
  X(cuptiRangeProfilerDisable) \
  X(cuptiRangeProfilerEnable) \
  X(cuptiRangeProfilerGetCounterDataInfo) \
  X(cuptiRangeProfilerGetCounterDataSize) \
  X(cuptiRangeProfilerPopRange) \
  X(cuptiRangeProfilerPushRange) \
  X(cuptiRangeProfilerSetConfig) \
  X(cuptiRangeProfilerStart) \
  X(cuptiRangeProfilerStop) \
  X(cuptiSubscribe)
// clang-format on

// libcupti, opened when counters are first used: timing works without it.
struct Cupti {
#define FUSECALC_MEMBER(name) decltype(&::name) name = nullptr;
  FUSECALC_CUPTI_FUNCTIONS(FUSECALC_MEMBER)
#undef FUSECALC_MEMBER
};

// Throws Error if CUPTI is missing or too old.
const Cupti& cupti();

// The fault that a failed CUPTI call is reported as.
GpuFault fault_of(CUptiResult result);

// Throws Error for a CUPTI call that failed; `what` names it.
void check(CUptiResult result, const char* what);

// A parameter struct of CUPTI's with its size filled in: Params holds a structSize member first.
#define FUSECALC_CUPTI_PARAMS(type, name) \
  type name{};                            \
  name.structSize = type##_STRUCT_SIZE

}  // namespace fusecalc::cuda
