// The parts of CudaBackend for measuring: kernels/harness.cuh, counters and events.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>

#include "backend/device_buffer.hpp"
#include "core/dtype.hpp"
#include "cuda/cuda_backend.hpp"
#include "cuda/harness_source.hpp"

namespace fusecalc::cuda {
namespace {

constexpr std::uint64_t kMebibyte = std::uint64_t{1} << 20U;

}  // namespace

void CudaBackend::load_harness_kernels() {
  const std::vector<CompiledKernel> kernels = compile(harness_source());
  sweep_kernel_ = kernels[0];
  hold_kernel_ = kernels[1];
  fill_kernel_ = kernels[2];
  compare_kernel_ = kernels[3];
  check(driver().cuEventCreate(&begin_, CU_EVENT_DEFAULT), "cuEventCreate");
  check(driver().cuEventCreate(&end_, CU_EVENT_DEFAULT), "cuEventCreate");
  void* flag = nullptr;
  check(driver().cuMemHostAlloc(&flag, sizeof(unsigned), CU_MEMHOSTALLOC_DEVICEMAP),
        "cuMemHostAlloc");
  flag_ = static_cast<unsigned*>(flag);
  check(driver().cuMemHostGetDevicePointer(&flag_on_device_, flag, 0), "cuMemHostGetDevicePointer");
  // Twice the L2 would suffice for strict LRU replacement; this has a margin.
  const std::uint64_t bytes = std::max(8 * device().l2_bytes, 64 * kMebibyte);
  for (Buffer* buffer : {&before_, &after_}) {
    *buffer = allocate(bytes);
    fill(*buffer, {.dtype = {}, .seed = bytes});
  }
  sink_ = allocate(sizeof(std::uint32_t));
  // Persisting L2 lines would survive every sweep.
  check(driver().cuCtxSetLimit(CU_LIMIT_PERSISTING_L2_CACHE_SIZE, 0), "cuCtxSetLimit");
  finish();
}

void CudaBackend::fill(const Buffer& buffer, const RandomFill& fill) {
  const ElementKind bits = buffer.bytes % kBits64.bytes == 0 ? kBits64 : kBits8;
  const ElementKind element = fill.dtype ? kind_of(*fill.dtype) : bits;
  const std::uint64_t elements = buffer.bytes / element.bytes;
  if (elements == 0) return;
  const std::uint64_t blocks =
      std::min<std::uint64_t>((elements + kHarnessThreads - 1) / kHarnessThreads,
                              std::uint64_t{32} * device().multiprocessors);
  launch({.kernel = fill_kernel_,
          .grid = {static_cast<unsigned>(blocks)},
          .block = {kHarnessThreads},
          .shared_bytes = 0,
          .arguments = {BufferAt{buffer}, elements, element.number, fill.low, fill.high, fill.seed,
                        fill.period}});
}

Difference CudaBackend::compare(const BufferAt& a, const BufferAt& b, DType dtype,
                                std::uint64_t elements, const Allowance& allowed) {
  const unsigned blocks = 8 * device().multiprocessors;
  std::vector<Differences> found(blocks);
  const DeviceBuffer results(*this, blocks * sizeof(Differences));
  launch({.kernel = compare_kernel_,
          .grid = {blocks},
          .block = {kHarnessThreads},
          .shared_bytes = 0,
          .arguments = {a, b, elements, kind_of(dtype).number, allowed.absolute, allowed.relative,
                        results.at(0)}});
  download(std::as_writable_bytes(std::span(found)), results.at(0));
  Difference difference;
  for (const Differences& block : found) {
    const bool first = block.excess == difference.excess && block.worst < difference.worst;
    if (block.excess > difference.excess || first) {
      difference.excess = block.excess;
      difference.worst = block.worst;
    }
    difference.beyond += block.beyond;
    difference.max_magnitude = std::max(difference.max_magnitude, block.magnitude);
  }
  if (difference.excess == 0) difference.worst = 0;
  return difference;
}

void CudaBackend::sweep(const Buffer& buffer) {
  launch({.kernel = sweep_kernel_,
          .grid = {8 * device().multiprocessors},
          .block = {kHarnessThreads},
          .shared_bytes = 0,
          .arguments = {BufferAt{buffer}, buffer.bytes / 16, BufferAt{sink_}}});
}

// Counting.

void CudaBackend::open_counters() {
  check(driver().cuCtxResetPersistingL2Cache(), "cuCtxResetPersistingL2Cache");
  if (metrics_ == nullptr) metrics_ = dram_metrics_of(context_.handle(), info_.index);
  counters_ = std::make_unique<CounterSession>(context_.handle(), *metrics_);
  sweep_bytes_ = {};
  // The first range of a session may include the profiler's own initialisation.
  const std::array<Work, 4> nothing = {[] {}, [] {}, [] {}, [] {}};
  std::vector<Bytes> alone = count_all(nothing);
  alone.erase(alone.begin());
  std::ranges::sort(alone, {}, &Bytes::total);
  sweep_bytes_ = alone[alone.size() / 2];
  // A read of known size verifies the counters.
  if (sweep_bytes_.read < after_.bytes / 10 * 9 || sweep_bytes_.read > after_.bytes / 10 * 11) {
    throw gpu_error(GpuFault::kImplausible,
                    fmt::format("{} bytes read, {} counted", after_.bytes, sweep_bytes_.read));
  }
}

std::vector<Bytes> CudaBackend::count_all(std::span<const Work> works) {
  if (counters_ == nullptr) open_counters();
  const auto swept = [this](const Buffer& buffer) {
    return [this, &buffer] {
      sweep(buffer);
      finish();
    };
  };
  // Closed if a work throws, because its range is still open.
  std::unique_ptr<CounterSession> session = std::move(counters_);
  std::vector<Bytes> counted = session->count(works, swept(before_), swept(after_));
  counters_ = std::move(session);
  for (Bytes& bytes : counted) {
    // Less than the sweep alone is noise on work with almost no traffic.
    bytes.read -= std::min(bytes.read, sweep_bytes_.read);
    bytes.write -= std::min(bytes.write, sweep_bytes_.write);
  }
  return counted;
}

// Timing.

void CudaBackend::raise_flag() noexcept {
  if (flag_ != nullptr) std::atomic_ref<unsigned>(*flag_).store(1);
  holding_ = false;
}

TimedRun CudaBackend::time_once(const Work& work) {
  constexpr std::uint64_t kMostNanoseconds = 1'000'000'000;
  counters_.reset();
  sweep(before_);
  finish();
  std::atomic_ref<unsigned>(*flag_).store(0);
  launch({.kernel = hold_kernel_,
          .grid = {},
          .block = {},
          .shared_bytes = 0,
          .arguments = {static_cast<std::uint64_t>(flag_on_device_), kMostNanoseconds}});
  holding_ = true;
  held_launches_ = 0;
  {
    struct Release {
      CudaBackend* gpu;
      ~Release() { gpu->raise_flag(); }
    } const release{this};
    check(driver().cuEventRecord(begin_, context_.stream()), "cuEventRecord");
    work();
    check(driver().cuEventRecord(end_, context_.stream()), "cuEventRecord");
  }
  finish();
  float milliseconds = 0;
  check(driver().cuEventElapsedTime(&milliseconds, begin_, end_), "cuEventElapsedTime");
  return {.seconds = static_cast<double>(milliseconds) * 1e-3,
          .sm_clock_hz = nvml_.sm_clock_hz(),
          .slowed = nvml_.slowed()};
}

}  // namespace fusecalc::cuda
