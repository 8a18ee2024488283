#include "cuda/inject/activity.hpp"

#include <fmt/format.h>

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

struct TimedWork {
  std::string kind;
  std::string name;
  std::string grid = "0 0 0";
  std::string block = "0 0 0";
};

template <typename Activity>
void write_time(const Activity& activity, const TimedWork& work) {
  if (activity.end <= activity.start) return;
  target->write(RecordKind::kTime,
                {std::to_string(activity.correlationId), std::to_string(activity.start),
                 std::to_string(activity.end), work.kind, work.name, work.grid, work.block});
}

// As the functions that copy have it in their names.
std::string name_of_copy(std::uint8_t kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD:
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOA: return "HtoD";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH:
    case CUPTI_ACTIVITY_MEMCPY_KIND_ATOH: return "DtoH";
    case CUPTI_ACTIVITY_MEMCPY_KIND_UNKNOWN:
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOH: return "";
    default: return "DtoD";
  }
}

void write_record(const CUpti_Activity& record) {
  switch (record.kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
      const auto& kernel = reinterpret_cast<const CUpti_ActivityKernel10&>(record);
      return write_time(
          kernel, {.kind = "kernel",
                   .name = kernel.name == nullptr ? "" : kernel.name,
                   .grid = fmt::format("{} {} {}", kernel.gridX, kernel.gridY, kernel.gridZ),
                   .block = fmt::format("{} {} {}", kernel.blockX, kernel.blockY, kernel.blockZ)});
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY: {
      const auto& copy = reinterpret_cast<const CUpti_ActivityMemcpy6&>(record);
      return write_time(copy, {.kind = "copy", .name = name_of_copy(copy.copyKind)});
    }
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return write_time(reinterpret_cast<const CUpti_ActivityMemset4&>(record),
                        {.kind = "fill", .name = ""});
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
