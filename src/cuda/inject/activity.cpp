#include "cuda/inject/activity.hpp"

#include <cstdint>
#include <cstdlib>
#include <string>

#include "cuda/cupti.hpp"

namespace fusecalc::cuda {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{256} << 10U;
constexpr std::size_t kAlignment = 8;

RecordFile* target = nullptr;

void give_buffer(std::uint8_t** buffer, std::size_t* bytes, std::size_t* most_records) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(kAlignment, kBufferBytes));
  *bytes = *buffer == nullptr ? 0 : kBufferBytes;
  *most_records = 0;
}

template <typename Activity>
void write_time(const Activity& activity, const std::string& name) {
  if (activity.end <= activity.start) return;
  target->write(RecordKind::kTime,
                {std::to_string(activity.correlationId), std::to_string(activity.start),
                 std::to_string(activity.end), name, activity.graphNodeId == 0 ? "0" : "1"});
}

void write_record(const CUpti_Activity& record) {
  switch (record.kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
      const auto& kernel = reinterpret_cast<const CUpti_ActivityKernel10&>(record);
      return write_time(kernel, kernel.name == nullptr ? "" : kernel.name);
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return write_time(reinterpret_cast<const CUpti_ActivityMemcpy6&>(record), "copy");
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return write_time(reinterpret_cast<const CUpti_ActivityMemset4&>(record), "fill");
    default: return;
  }
}

void take_buffer(CUcontext /*context*/, std::uint32_t /*stream*/, std::uint8_t* buffer,
                 std::size_t /*bytes*/, std::size_t valid) {
  CUpti_Activity* record = nullptr;
  while (valid > 0 && cupti().cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
    write_record(*record);
  }
  std::free(buffer);
}

}  // namespace

void record_activity(RecordFile& records) {
  target = &records;
  check(cupti().cuptiActivityRegisterCallbacks(give_buffer, take_buffer),
        "cuptiActivityRegisterCallbacks");
  for (const CUpti_ActivityKind kind : {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                        CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET}) {
    check(cupti().cuptiActivityEnable(kind), "cuptiActivityEnable");
  }
  // So that little is lost where the process is killed.
  constexpr std::uint32_t kMilliseconds = 250;
  check(cupti().cuptiActivityFlushPeriod(kMilliseconds), "cuptiActivityFlushPeriod");
}

void flush_activity(bool everything) {
  if (target == nullptr) return;
  cupti().cuptiActivityFlushAll(everything ? CUPTI_ACTIVITY_FLAG_FLUSH_FORCED : 0);
}

}  // namespace fusecalc::cuda
