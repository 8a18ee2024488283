#include "cuda/dram_metrics.hpp"

#include <fmt/format.h>

#include <cmath>

namespace fusecalc::cuda {
namespace {

constexpr std::array kCandidates = {
    DramMetrics::Names{"dram__bytes_read.sum", "dram__bytes_write.sum"},
    DramMetrics::Names{"dram__bytes_op_read.sum", "dram__bytes_op_write.sum"},
};

CUpti_Profiler_Host_Object* open_host(const std::string& chip,
                                      const std::vector<std::uint8_t>& availability) {
  FUSECALC_CUPTI_PARAMS(CUpti_Profiler_Host_Initialize_Params, params);
  params.profilerType = CUPTI_PROFILER_TYPE_RANGE_PROFILER;
  params.pChipName = chip.c_str();
  params.pCounterAvailabilityImage = availability.empty() ? nullptr : availability.data();
  check(cupti().cuptiProfilerHostInitialize(&params), "cuptiProfilerHostInitialize");
  return params.pHostObject;
}

void close_host(CUpti_Profiler_Host_Object* host) {
  if (host == nullptr) return;
  FUSECALC_CUPTI_PARAMS(CUpti_Profiler_Host_Deinitialize_Params, params);
  params.pHostObject = host;
  cupti().cuptiProfilerHostDeinitialize(&params);
}

std::vector<std::uint8_t> config_image(CUpti_Profiler_Host_Object* host) {
  FUSECALC_CUPTI_PARAMS(CUpti_Profiler_Host_GetConfigImageSize_Params, size);
  size.pHostObject = host;
  check(cupti().cuptiProfilerHostGetConfigImageSize(&size), "cuptiProfilerHostGetConfigImageSize");
  std::vector<std::uint8_t> image(size.configImageSize);
  FUSECALC_CUPTI_PARAMS(CUpti_Profiler_Host_GetConfigImage_Params, params);
  params.pHostObject = host;
  params.configImageSize = image.size();
  params.pConfigImage = image.data();
  check(cupti().cuptiProfilerHostGetConfigImage(&params), "cuptiProfilerHostGetConfigImage");
  return image;
}

std::size_t pass_count(std::vector<std::uint8_t>& image) {
  FUSECALC_CUPTI_PARAMS(CUpti_Profiler_Host_GetNumOfPasses_Params, params);
  params.configImageSize = image.size();
  params.pConfigImage = image.data();
  check(cupti().cuptiProfilerHostGetNumOfPasses(&params), "cuptiProfilerHostGetNumOfPasses");
  return params.numOfPasses;
}

}  // namespace

DramMetrics::DramMetrics(const std::string& chip, std::span<const std::uint8_t> availability)
    : chip_(chip), availability_(availability.begin(), availability.end()) {
  for (const Names& names : kCandidates) {
    if (!configure(names)) continue;
    if (passes_ == 1) return;
    close_host(host_);
    throw gpu_error(GpuFault::kTooManyPasses, fmt::format("{}: {} passes", chip, passes_));
  }
  throw gpu_error(GpuFault::kNoMetric, chip);
}

DramMetrics::~DramMetrics() { close_host(host_); }

// Whether the chip has these metrics; a host object cannot be used after it rejected one.
bool DramMetrics::configure(const Names& names) {
  names_ = names;
  host_ = open_host(chip_, availability_);
  FUSECALC_CUPTI_PARAMS(CUpti_Profiler_Host_ConfigAddMetrics_Params, params);
  params.pHostObject = host_;
  params.ppMetricNames = names_.data();
  params.numMetrics = names_.size();
  if (cupti().cuptiProfilerHostConfigAddMetrics(&params) != CUPTI_SUCCESS) {
    close_host(std::exchange(host_, nullptr));
    return false;
  }
  config_ = config_image(host_);
  passes_ = pass_count(config_);
  return true;
}

Bytes DramMetrics::evaluate(const std::vector<std::uint8_t>& counter_data,
                            std::size_t range) const {
  std::array<double, kMetrics> values{};
  values.fill(std::nan(""));
  Names names = names_;
  FUSECALC_CUPTI_PARAMS(CUpti_Profiler_Host_EvaluateToGpuValues_Params, params);
  params.pHostObject = host_;
  params.pCounterDataImage = counter_data.data();
  params.counterDataImageSize = counter_data.size();
  params.rangeIndex = range;
  params.ppMetricNames = names.data();
  params.numMetrics = names.size();
  params.pMetricValues = values.data();
  check(cupti().cuptiProfilerHostEvaluateToGpuValues(&params),
        "cuptiProfilerHostEvaluateToGpuValues");
  for (const double value : values) {
    if (!std::isfinite(value) || value < 0) {
      throw gpu_error(GpuFault::kDroppedRange, fmt::format("a counter reads {}", value));
    }
  }
  return {.read = static_cast<std::uint64_t>(std::llround(values[0])),
          .write = static_cast<std::uint64_t>(std::llround(values[1]))};
}

}  // namespace fusecalc::cuda
