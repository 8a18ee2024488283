// The arguments of all versions of a function are declared for this only.
#define __CUDA_API_VERSION_INTERNAL

#include "cuda/inject/launch_call.hpp"

#include <cupti_driver_cbid.h>
#include <generated_cuda_meta.h>

#include <algorithm>

namespace fusecalc::cuda {
namespace {

template <typename Arguments>
LaunchShape kernel_shape(const void* arguments) {
  const auto& call = *static_cast<const Arguments*>(arguments);
  return {.stream = call.hStream,
          .grid = {call.gridDimX, call.gridDimY, call.gridDimZ},
          .block = {call.blockDimX, call.blockDimY, call.blockDimZ}};
}

template <typename Arguments>
LaunchShape configured_shape(const void* arguments) {
  const CUlaunchConfig* call = static_cast<const Arguments*>(arguments)->config;
  if (call == nullptr) return {};
  return {.stream = call->hStream,
          .grid = {call->gridDimX, call->gridDimY, call->gridDimZ},
          .block = {call->blockDimX, call->blockDimY, call->blockDimZ}};
}

// The default stream of functions whose name ends in _ptsz is the thread's own.
LaunchShape per_thread(LaunchShape shape) {
  if (shape.stream == nullptr) shape.stream = CU_STREAM_PER_THREAD;
  return shape;
}

// clang-format off
#define FUSECALC_STREAM_FUNCTIONS(X) \
  X(cuMemcpyAsync) X(cuMemcpyPeerAsync) X(cuMemcpyHtoDAsync_v2) X(cuMemcpyDtoHAsync_v2) \
  X(cuMemcpyDtoDAsync_v2) X(cuMemcpyHtoAAsync_v2) X(cuMemcpyAtoHAsync_v2) X(cuMemcpy2DAsync_v2) \
  X(cuMemcpy3DAsync_v2) X(cuMemcpy3DPeerAsync) X(cuMemsetD8Async) X(cuMemsetD16Async) \
  X(cuMemsetD32Async) X(cuMemsetD2D8Async) X(cuMemsetD2D16Async) X(cuMemsetD2D32Async) \
  X(cuMemPrefetchAsync) X(cuGraphLaunch) X(cuStreamBeginCapture_v2) X(cuStreamEndCapture)
// clang-format on

}  // namespace

CallKind kind_of_call(std::string_view name) {
  const auto is = [&](std::string_view start) { return name.starts_with(start); };
  if (is("cuGraphLaunch")) return CallKind::kGraph;
  if (is("cuLaunchHostFunc")) return CallKind::kOther;
  if (is("cuLaunch")) return CallKind::kKernel;
  if (is("cuMemcpy") || is("cuMemPrefetch")) return CallKind::kCopy;
  if (is("cuMemset")) return CallKind::kFill;
  if (is("cuStreamBeginCapture")) return CallKind::kBeginCapture;
  if (is("cuStreamEndCapture")) return CallKind::kEndCapture;
  if (is("cuProfilerStart")) return CallKind::kProfilerStart;
  if (is("cuProfilerStop")) return CallKind::kProfilerStop;
  if (is("cuCtxSynchronize") || is("cuStreamSynchronize") || is("cuEventSynchronize")) {
    return CallKind::kSynchronize;
  }
  if (is("cuCtxDestroy") || is("cuDevicePrimaryCtxRe")) {
    // Release and Reset, but not Retain.
    return is("cuDevicePrimaryCtxRet") ? CallKind::kOther : CallKind::kCloseContext;
  }
  return CallKind::kOther;
}

bool is_launch(CallKind kind) {
  return kind == CallKind::kKernel || kind == CallKind::kCopy || kind == CallKind::kFill ||
         kind == CallKind::kGraph;
}

std::string_view name_of(CallKind kind) {
  switch (kind) {
    case CallKind::kCopy: return "copy";
    case CallKind::kFill: return "fill";
    case CallKind::kGraph: return "graph";
    default: return "kernel";
  }
}

LaunchShape shape_of(CUpti_CallbackId id, const void* arguments) {
  if (arguments == nullptr) return {};
  switch (id) {
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel:
      return kernel_shape<cuLaunchKernel_params>(arguments);
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz:
      return per_thread(kernel_shape<cuLaunchKernel_ptsz_params>(arguments));
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel:
      return kernel_shape<cuLaunchCooperativeKernel_params>(arguments);
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel_ptsz:
      return per_thread(kernel_shape<cuLaunchCooperativeKernel_ptsz_params>(arguments));
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx:
      return configured_shape<cuLaunchKernelEx_params>(arguments);
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz:
      return per_thread(configured_shape<cuLaunchKernelEx_ptsz_params>(arguments));
#define FUSECALC_CASE(name)                                                   \
  case CUPTI_DRIVER_TRACE_CBID_##name:                                        \
    return {.stream = static_cast<const name##_params*>(arguments)->hStream}; \
  case CUPTI_DRIVER_TRACE_CBID_##name##_ptsz:                                 \
    return per_thread({.stream = static_cast<const name##_ptsz_params*>(arguments)->hStream});
      FUSECALC_STREAM_FUNCTIONS(FUSECALC_CASE)
#undef FUSECALC_CASE
    case CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCaptureToGraph:
      return {.stream = static_cast<const cuStreamBeginCaptureToGraph_params*>(arguments)->hStream};
    default: return {};
  }
}

}  // namespace fusecalc::cuda
