#include <doctest/doctest.h>

#include "cuda/cupti.hpp"

namespace fusecalc::cuda {
namespace {

TEST_CASE("every error of CUPTI has its own message") {
  CHECK(fault_of(CUPTI_ERROR_INSUFFICIENT_PRIVILEGES) == GpuFault::kNotPermitted);
  CHECK(fault_of(CUPTI_ERROR_HARDWARE_BUSY) == GpuFault::kCountersBusy);
  CHECK(fault_of(CUPTI_ERROR_MIG_DEVICE_NOT_SUPPORTED) == GpuFault::kMig);
  CHECK(fault_of(CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED) == GpuFault::kVirtualGpu);
  CHECK(fault_of(CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES) ==
        GpuFault::kVirtualGpuNotPermitted);
  CHECK(fault_of(CUPTI_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED) ==
        GpuFault::kConfidentialComputing);
  CHECK(fault_of(CUPTI_ERROR_WSL_DEVICE_NOT_SUPPORTED) == GpuFault::kWsl);
  CHECK(fault_of(CUPTI_ERROR_INVALID_METRIC_NAME) == GpuFault::kNoMetric);
  CHECK(fault_of(CUPTI_ERROR_CUDA_COMPILER_NOT_COMPATIBLE) == GpuFault::kDriverBehindCupti);
  CHECK(fault_of(CUPTI_ERROR_UNKNOWN) == GpuFault::kCupti);
}

}  // namespace
}  // namespace fusecalc::cuda
