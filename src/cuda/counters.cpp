#include "cuda/counters.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace fusecalc::cuda {
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

std::unique_ptr<DramMetrics> dram_metrics_of(CUcontext context, int device_index) {
  return std::make_unique<DramMetrics>(chip_name(device_index), counter_availability(context));
}

CounterSession::CounterSession(CUcontext context, const DramMetrics& metrics, std::size_t room)
    : metrics_(metrics), room_(room) {
  FUSECALC_CUPTI_PARAMS(CUpti_RangeProfiler_Enable_Params, params);
  params.ctx = context;
  check(cupti().cuptiRangeProfilerEnable(&params), "cuptiRangeProfilerEnable");
  profiler_ = params.pRangeProfilerObject;
}

CounterSession::~CounterSession() {
  FUSECALC_CUPTI_PARAMS(CUpti_RangeProfiler_Disable_Params, params);
  params.pRangeProfilerObject = profiler_;
  cupti().cuptiRangeProfilerDisable(&params);
}

// The counter data image.
void CounterSession::take_room() {
  DramMetrics::Names names = metrics_.names();
  FUSECALC_CUPTI_PARAMS(CUpti_RangeProfiler_GetCounterDataSize_Params, size);
  size.pRangeProfilerObject = profiler_;
  size.pMetricNames = names.data();
  size.numMetrics = names.size();
  size.maxNumOfRanges = room_;
  size.maxNumRangeTreeNodes = static_cast<std::uint32_t>(room_);
  check(cupti().cuptiRangeProfilerGetCounterDataSize(&size),
        "cuptiRangeProfilerGetCounterDataSize");
  counter_data_.assign(size.counterDataSize, 0);
}

void CounterSession::begin_pass() {
  if (counter_data_.empty()) take_room();
  FUSECALC_CUPTI_PARAMS(CUpti_RangeProfiler_CounterDataImage_Initialize_Params, image);
  image.pRangeProfilerObject = profiler_;
  image.counterDataSize = counter_data_.size();
  image.pCounterData = counter_data_.data();
  check(cupti().cuptiRangeProfilerCounterDataImageInitialize(&image),
        "cuptiRangeProfilerCounterDataImageInitialize");
  of_pass_ = begun_;
  FUSECALC_CUPTI_PARAMS(CUpti_RangeProfiler_SetConfig_Params, config);
  config.pRangeProfilerObject = profiler_;
  config.configSize = metrics_.config().size();
  config.pConfig = metrics_.config().data();
  config.counterDataImageSize = counter_data_.size();
  config.pCounterDataImage = counter_data_.data();
  config.range = CUPTI_UserRange;
  config.replayMode = CUPTI_UserReplay;
  config.maxRangesPerPass = room_;
  config.numNestingLevels = 1;
  config.minNestingLevel = 1;
  config.targetNestingLevel = 1;
  check(cupti().cuptiRangeProfilerSetConfig(&config), "cuptiRangeProfilerSetConfig");
  FUSECALC_CUPTI_PARAMS(CUpti_RangeProfiler_Start_Params, start);
  start.pRangeProfilerObject = profiler_;
  check(cupti().cuptiRangeProfilerStart(&start), "cuptiRangeProfilerStart");
}

void CounterSession::open_range() {
  const std::string name = std::to_string(begun_++);
  FUSECALC_CUPTI_PARAMS(CUpti_RangeProfiler_PushRange_Params, push);
  push.pRangeProfilerObject = profiler_;
  push.pRangeName = name.c_str();
  check(cupti().cuptiRangeProfilerPushRange(&push), "cuptiRangeProfilerPushRange");
}

void CounterSession::close_range() {
  FUSECALC_CUPTI_PARAMS(CUpti_RangeProfiler_PopRange_Params, pop);
  pop.pRangeProfilerObject = profiler_;
  check(cupti().cuptiRangeProfilerPopRange(&pop), "cuptiRangeProfilerPopRange");
}

// How many ranges were kept.
std::size_t CounterSession::stop() {
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
  if (info.numTotalRanges == 0) {
    throw gpu_error(GpuFault::kDroppedRange,
                    fmt::format("{} ranges dropped", decode.numOfRangeDropped));
  }
  return info.numTotalRanges;
}

// Throws Error unless the range at this index has the expected name.
void CounterSession::check_range(std::size_t place, const std::string& name) const {
  FUSECALC_CUPTI_PARAMS(CUpti_RangeProfiler_CounterData_GetRangeInfo_Params, info);
  info.pCounterDataImage = counter_data_.data();
  info.counterDataImageSize = counter_data_.size();
  info.rangeIndex = place;
  info.rangeDelimiter = "/";
  check(cupti().cuptiRangeProfilerCounterDataGetRangeInfo(&info),
        "cuptiRangeProfilerCounterDataGetRangeInfo");
  if (info.rangeName != name) {
    throw gpu_error(GpuFault::kDroppedRange,
                    fmt::format("found range {} in place of {}", info.rangeName, name));
  }
}

std::vector<Bytes> CounterSession::end_pass() {
  const std::size_t kept = stop();
  std::vector<Bytes> counted;
  for (std::size_t i = 0; i < kept; ++i) {
    check_range(i, std::to_string(of_pass_ + i));
    counted.push_back(metrics_.evaluate(counter_data_, i));
  }
  return counted;
}

std::vector<Bytes> CounterSession::count(std::span<const Work> works, const Work& before,
                                         const Work& after) {
  // Ranges that the hardware dropped are counted again.
  std::vector<Bytes> counted;
  while (counted.size() < works.size()) {
    const std::size_t first = counted.size();
    const std::size_t ranges = std::min(kRangesOfPass, works.size() - first);
    begin_pass();
    for (std::size_t i = 0; i < ranges; ++i) {
      before();
      open_range();
      works[first + i]();
      after();
      close_range();
    }
    const std::vector<Bytes> kept = end_pass();
    counted.insert(counted.end(), kept.begin(), kept.end());
  }
  return counted;
}

}  // namespace fusecalc::cuda
