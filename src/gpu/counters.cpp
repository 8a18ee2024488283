#include "gpu/counters.hpp"

#include <fmt/format.h>

#include <utility>

namespace fusecalc::gpu {
namespace {

std::vector<std::uint8_t> counter_availability(CUcontext context) {
  FUSECALC_CUPTI_PARAMS(CUpti_Profiler_GetCounterAvailability_Params, params);
  params.ctx = context;
  check(cupti().cuptiProfilerGetCounterAvailability(&params),
        "cuptiProfilerGetCounterAvailability");
  std::vector<std::uint8_t> image(params.counterAvailabilityImageSize);
  params.pCounterAvailabilityImage = image.data();
  check(cupti().cuptiProfilerGetCounterAvailability(&params),
        "cuptiProfilerGetCounterAvailability");
  return image;
}

void check_supported(CUdevice device) {
  FUSECALC_CUPTI_PARAMS(CUpti_Profiler_DeviceSupported_Params, params);
  params.cuDevice = device;
  params.api = CUPTI_PROFILER_RANGE_PROFILING;
  check(cupti().cuptiProfilerDeviceSupported(&params), "cuptiProfilerDeviceSupported");
  constexpr auto kYes = CUPTI_PROFILER_CONFIGURATION_SUPPORTED;
  if (params.isSupported == kYes) return;
  if (params.confidentialCompute != kYes) throw gpu_error(GpuFault::kConfidentialComputing);
  if (params.vGpu == CUPTI_PROFILER_CONFIGURATION_DISABLED) {
    throw gpu_error(GpuFault::kVirtualGpuNotPermitted);
  }
  if (params.vGpu != kYes) throw gpu_error(GpuFault::kVirtualGpu);
  if (params.wsl != kYes) throw gpu_error(GpuFault::kWsl);
  throw gpu_error(GpuFault::kDeviceNotProfilable);
}

}  // namespace

void prepare_profiler(CUdevice device) {
  FUSECALC_CUPTI_PARAMS(CUpti_Profiler_Initialize_Params, params);
  check(cupti().cuptiProfilerInitialize(&params), "cuptiProfilerInitialize");
  check_supported(device);
}

std::string chip_name(int device_index) {
  FUSECALC_CUPTI_PARAMS(CUpti_Device_GetChipName_Params, params);
  params.deviceIndex = static_cast<std::size_t>(device_index);
  check(cupti().cuptiDeviceGetChipName(&params), "cuptiDeviceGetChipName");
  return params.pChipName;
}

CounterSession::CounterSession(CUcontext context, int device_index)
    : context_(context), metrics_(chip_name(device_index), counter_availability(context)) {
  FUSECALC_CUPTI_PARAMS(CUpti_RangeProfiler_Enable_Params, enable);
  enable.ctx = context_;
  check(cupti().cuptiRangeProfilerEnable(&enable), "cuptiRangeProfilerEnable");
  profiler_ = enable.pRangeProfilerObject;
  DramMetrics::Names names = metrics_.names();
  FUSECALC_CUPTI_PARAMS(CUpti_RangeProfiler_GetCounterDataSize_Params, size);
  size.pRangeProfilerObject = profiler_;
  size.pMetricNames = names.data();
  size.numMetrics = names.size();
  size.maxNumOfRanges = 1;
  size.maxNumRangeTreeNodes = 1;
  const CUptiResult sized = cupti().cuptiRangeProfilerGetCounterDataSize(&size);
  if (sized != CUPTI_SUCCESS) {
    FUSECALC_CUPTI_PARAMS(CUpti_RangeProfiler_Disable_Params, disable);
    disable.pRangeProfilerObject = profiler_;
    cupti().cuptiRangeProfilerDisable(&disable);
    check(sized, "cuptiRangeProfilerGetCounterDataSize");
  }
  counter_data_.resize(size.counterDataSize);
}

CounterSession::~CounterSession() {
  FUSECALC_CUPTI_PARAMS(CUpti_RangeProfiler_Disable_Params, params);
  params.pRangeProfilerObject = profiler_;
  cupti().cuptiRangeProfilerDisable(&params);
}

void CounterSession::clear_counter_data() {
  FUSECALC_CUPTI_PARAMS(CUpti_RangeProfiler_CounterDataImage_Initialize_Params, params);
  params.pRangeProfilerObject = profiler_;
  params.counterDataSize = counter_data_.size();
  params.pCounterData = counter_data_.data();
  check(cupti().cuptiRangeProfilerCounterDataImageInitialize(&params),
        "cuptiRangeProfilerCounterDataImageInitialize");
}

void CounterSession::begin_range() {
  clear_counter_data();
  FUSECALC_CUPTI_PARAMS(CUpti_RangeProfiler_SetConfig_Params, config);
  config.pRangeProfilerObject = profiler_;
  config.configSize = metrics_.config().size();
  config.pConfig = metrics_.config().data();
  config.counterDataImageSize = counter_data_.size();
  config.pCounterDataImage = counter_data_.data();
  config.range = CUPTI_UserRange;
  config.replayMode = CUPTI_UserReplay;
  config.maxRangesPerPass = 1;
  config.numNestingLevels = 1;
  config.minNestingLevel = 1;
  config.targetNestingLevel = 1;
  check(cupti().cuptiRangeProfilerSetConfig(&config), "cuptiRangeProfilerSetConfig");
  FUSECALC_CUPTI_PARAMS(CUpti_RangeProfiler_Start_Params, start);
  start.pRangeProfilerObject = profiler_;
  check(cupti().cuptiRangeProfilerStart(&start), "cuptiRangeProfilerStart");
  FUSECALC_CUPTI_PARAMS(CUpti_RangeProfiler_PushRange_Params, push);
  push.pRangeProfilerObject = profiler_;
  push.pRangeName = "work";
  check(cupti().cuptiRangeProfilerPushRange(&push), "cuptiRangeProfilerPushRange");
}

void CounterSession::end_range() {
  FUSECALC_CUPTI_PARAMS(CUpti_RangeProfiler_PopRange_Params, pop);
  pop.pRangeProfilerObject = profiler_;
  check(cupti().cuptiRangeProfilerPopRange(&pop), "cuptiRangeProfilerPopRange");
  FUSECALC_CUPTI_PARAMS(CUpti_RangeProfiler_Stop_Params, stop);
  stop.pRangeProfilerObject = profiler_;
  check(cupti().cuptiRangeProfilerStop(&stop), "cuptiRangeProfilerStop");
  if (stop.isAllPassSubmitted != 1) throw gpu_error(GpuFault::kTooManyPasses);
  FUSECALC_CUPTI_PARAMS(CUpti_RangeProfiler_DecodeData_Params, decode);
  decode.pRangeProfilerObject = profiler_;
  check(cupti().cuptiRangeProfilerDecodeData(&decode), "cuptiRangeProfilerDecodeData");
  FUSECALC_CUPTI_PARAMS(CUpti_RangeProfiler_GetCounterDataInfo_Params, info);
  info.pCounterDataImage = counter_data_.data();
  info.counterDataImageSize = counter_data_.size();
  check(cupti().cuptiRangeProfilerGetCounterDataInfo(&info),
        "cuptiRangeProfilerGetCounterDataInfo");
  if (decode.numOfRangeDropped != 0 || info.numTotalRanges != 1) {
    throw gpu_error(
        GpuFault::kDroppedRange,
        fmt::format("{} dropped, {} kept", decode.numOfRangeDropped, info.numTotalRanges));
  }
}

Bytes CounterSession::count(const std::function<void()>& work) {
  begin_range();
  work();
  end_range();
  return metrics_.evaluate(counter_data_);
}

}  // namespace fusecalc::gpu
