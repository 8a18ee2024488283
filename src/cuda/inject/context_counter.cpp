#include "cuda/inject/context_counter.hpp"

#include <sched.h>

#include <algorithm>
#include <thread>
#include <utility>

namespace fusecalc::cuda {
namespace {

using RecordEvent = CUresult (*)(CUcontext, CUevent);

// CUDA 12.5 and newer.
RecordEvent record_event() {
  static const auto function = reinterpret_cast<RecordEvent>(find_in_driver("cuCtxRecordEvent"));
  return function;
}

// The program must not run out of memory.
bool has_gibibytes_free(std::size_t gibibytes) {
  std::size_t free = 0;
  std::size_t total = 0;
  return driver().cuMemGetInfo(&free, &total) == CUDA_SUCCESS && free >= gibibytes << 30U;
}

bool has_memory_for_sweep() { return has_gibibytes_free(4); }

// Of a pass. To begin and end one takes as long as some 130 launches, and what the L2 writes
// meanwhile is not counted. But on an H200 room for a range takes 1.1 MB of its memory, 1.4 MB of
// the host's, and 1 ms when counters are opened.
std::size_t most_ranges() { return has_gibibytes_free(16) ? 1024 : 128; }

}  // namespace

ContextCounter::ContextCounter(CUcontext context, CUdevice device,
                               const InjectionSettings& settings, RecordFile& records)
    : context_(context), device_(device), isolated_(settings.isolated), records_(records) {
  check(driver().cuEventCreate(&event_, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
  prepare_profiler(device);
  metrics_ = dram_metrics_of(context, device);
  if (isolated_ || has_memory_for_sweep()) sweep_ = std::make_unique<L2Sweep>(device);
  const std::size_t room = most_ranges();
  session_ = std::make_unique<CounterSession>(context, *metrics_, room);
  // The first range of a session may include the profiler's own initialisation.
  session_->begin_pass();
  for (std::size_t i = 0; i < room; ++i) {
    session_->open_range();
    session_->close_range();
  }
  capacity_ = session_->end_pass().size();
  if (sweep_ != nullptr) measure_sweep();
}

void ContextCounter::measure_sweep() {
  const auto sweep = [this] { sweep_->run(); };
  const std::array<Work, 3> works = {sweep, sweep, sweep};
  std::vector<Bytes> alone = session_->count(works, sweep, [] {});
  std::ranges::sort(alone, {}, &Bytes::total);
  sweep_bytes_ = alone[alone.size() / 2];
}

ContextCounter::~ContextCounter() {
  if (event_ != nullptr) driver().cuEventDestroy(event_);
}

void ContextCounter::abandon() {
  event_ = nullptr;
  if (sweep_ != nullptr) sweep_->abandon();
  // Closing the session would call CUDA.
  static_cast<void>(session_.release());
  in_pass_ = false;
}

Idleness ContextCounter::wait(std::chrono::microseconds limit) const {
  if (record_event() == nullptr) {
    return driver().cuCtxSynchronize() == CUDA_SUCCESS ? Idleness::kIdle : Idleness::kFailed;
  }
  if (record_event()(context_, event_) != CUDA_SUCCESS) return Idleness::kFailed;
  constexpr std::chrono::microseconds kSpin{300};
  const auto begin = std::chrono::steady_clock::now();
  while (true) {
    const CUresult result = driver().cuEventQuery(event_);
    if (result == CUDA_SUCCESS) return Idleness::kIdle;
    if (result != CUDA_ERROR_NOT_READY) return Idleness::kFailed;
    const auto waited = std::chrono::steady_clock::now() - begin;
    if (waited > limit) return Idleness::kBusy;
    if (waited > kSpin) std::this_thread::sleep_for(std::chrono::microseconds{30});
  }
}

void ContextCounter::open(std::uint64_t launch) {
  forget_ = false;
  if (range_open_) {
    pass_.back().with_next = true;
  } else {
    if (isolated_) sweep_->run();
    if (!in_pass_) begin_pass();
    session_->open_range();
    range_open_ = true;
  }
  pending_ = false;
  pass_.push_back({.launch = launch, .with_next = false, .forgotten = false});
}

void ContextCounter::begin_pass() {
  session_->begin_pass();
  in_pass_ = true;
  pass_began_ = std::chrono::steady_clock::now();
}

// What a pass holds is lost if the program is killed, so none takes long.
bool ContextCounter::pass_is_over() const {
  constexpr auto kLongestPass = std::chrono::milliseconds{250};
  return ranges_ >= capacity_ || std::chrono::steady_clock::now() - pass_began_ > kLongestPass;
}

void ContextCounter::close() {
  pending_ = false;
  if (!range_open_) return;
  if (isolated_) sweep_->run();
  session_->close_range();
  range_open_ = false;
  pass_.back().forgotten = forget_;
  ++ranges_;
  if (pass_is_over()) finish_pass();
}

void ContextCounter::finish_pass() {
  if (range_open_) close();
  if (in_pass_) end_pass();
}

// Returns the bytes of the ranges after those of launches.
std::vector<Bytes> ContextCounter::end_pass() {
  in_pass_ = false;
  ranges_ = 0;
  const std::vector<Counted> pass = std::move(pass_);
  pass_.clear();
  std::vector<Bytes> kept = session_->end_pass();
  std::size_t range = 0;
  std::uint64_t together = 0;
  for (const Counted& counted : pass) {
    const std::string launch = std::to_string(counted.launch);
    if (counted.with_next) {
      ++together;
      continue;
    }
    const std::size_t place = range++;
    if (counted.forgotten) continue;
    if (place >= kept.size()) {
      records_.write(RecordKind::kUncounted, {launch, "CUPTI dropped its counters"});
    } else {
      Bytes bytes = kept[place];
      if (isolated_) {
        bytes.read -= std::min(bytes.read, sweep_bytes_.read);
        bytes.write -= std::min(bytes.write, sweep_bytes_.write);
      }
      records_.write(RecordKind::kBytes, {launch, std::to_string(bytes.read),
                                          std::to_string(bytes.write), std::to_string(together)});
    }
    together = 0;
  }
  kept.erase(kept.begin(),
             kept.begin() + static_cast<std::ptrdiff_t>(std::min(range, kept.size())));
  return kept;
}

void ContextCounter::finish() {
  if (range_open_) close();
  if (sweep_ != nullptr && !isolated_) {
    if (!in_pass_) begin_pass();
    session_->open_range();
    sweep_->run();
    session_->close_range();
    const std::vector<Bytes> drained = end_pass();
    if (drained.empty()) {
      records_.write(RecordKind::kFault, {"CUPTI dropped the counters of what the L2 wrote last"});
    } else {
      const std::uint64_t write = drained[0].write - std::min(drained[0].write, sweep_bytes_.write);
      records_.write(RecordKind::kDrained, {std::to_string(device_), std::to_string(write)});
    }
  } else {
    finish_pass();
  }
  session_.reset();
  sweep_.reset();
}

}  // namespace fusecalc::cuda
