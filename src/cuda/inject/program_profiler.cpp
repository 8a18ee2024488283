#include "cuda/inject/program_profiler.hpp"

#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <exception>
#include <utility>

#include "core/error.hpp"
#include "cuda/inject/activity.hpp"
#include "cuda/inject/nvtx_ranges.hpp"

namespace fusecalc::cuda {
namespace {

using namespace std::chrono_literals;

// A launch that takes longer may wait for another one, which must not wait for it.
constexpr std::chrono::microseconds kLongest = ProcessCounters::kLongestWait;
constexpr std::chrono::microseconds kKnownToWait = 1ms;
constexpr auto kLongestLock = 10s;
// Of a process's turn, while another one waits, and without a launch.
constexpr auto kShare = 500ms;
constexpr auto kIdleShare = 100ms;

constexpr char kGpuError[] = "the GPU reported an error of the program";

thread_local bool holds_background = false;

CUdevice current_device() {
  CUdevice device = 0;
  check(driver().cuCtxGetDevice(&device), "cuCtxGetDevice");
  return device;
}

std::string triple(const std::array<unsigned, 3>& extents) {
  return fmt::format("{} {} {}", extents[0], extents[1], extents[2]);
}

std::string joined(const std::vector<std::string>& ranges) {
  std::string text;
  for (const std::string& range : ranges) text += (text.empty() ? "" : "\x1f") + range;
  return text;
}

}  // namespace

ProgramProfiler::ProgramProfiler(const std::string& folder, const InjectionSettings& settings)
    : settings_(settings),
      records_(folder),
      selection_(settings_),
      pid_(::getpid()),
      counters_(folder, settings_, records_) {
  if (!settings_.counters) record_activity(records_);
}

void ProgramProfiler::enter(CallKind kind, const CUpti_CallbackData& data, CUpti_CallbackId id,
                            CallInProgress& call) noexcept {
  if (::getpid() != pid_) return;
  const auto begin = std::chrono::steady_clock::now();
  try {
    const LaunchShape shape = shape_of(id, data.functionParams);
    switch (kind) {
      case CallKind::kProfilerStart: selection_.set_running(true); break;
      case CallKind::kProfilerStop: selection_.set_running(false); break;
      case CallKind::kCloseContext: {
        const std::unique_lock lock(mutex_, kLongestLock);
        if (!lock.owns_lock()) break;
        idle_ = nullptr;
        if (captures_.empty()) counters_.close(kLongest);
        counters_.abandon();
        break;
      }
      case CallKind::kBeginCapture: {
        const std::unique_lock lock(mutex_, kLongestLock);
        if (!lock.owns_lock()) break;
        if (captures_.empty()) finish_passes(kLongest);
        captures_.insert(shape.stream);
        call.capturing = shape.stream;
        break;
      }
      case CallKind::kEndCapture: call.capturing = shape.stream; break;
      case CallKind::kSynchronize:
      case CallKind::kOther: break;
      default: {
        call.lock = std::unique_lock(mutex_, kLongestLock);
        if (call.lock.owns_lock()) {
          enter_launch(kind, data, shape, call);
        } else {
          records_.write(RecordKind::kOvertaken, {std::to_string(++overtaken_)});
        }
      }
    }
  } catch (const std::exception& error) {
    fail(error.what());
    call.counter = nullptr;
  }
  call.done = std::chrono::steady_clock::now();
  if (call.lock.owns_lock()) {
    cost_ += call.done - begin;
    if (call.counter == nullptr) call.lock.unlock();
  }
}

// A launch in a capture becomes a node of a graph and runs later. Nothing may wait while any stream
// is captured: it would break the capture.
bool ProgramProfiler::is_captured(CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  if (stream == nullptr || stream == CU_STREAM_LEGACY) return false;  // these cannot be captured
  const CUresult result = driver().cuStreamIsCapturing(stream, &status);
  return result != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE;
}

void ProgramProfiler::enter_launch(CallKind kind, const CUpti_CallbackData& data,
                                   const LaunchShape& shape, CallInProgress& call) {
  if (data.context == nullptr) return;
  if (is_captured(shape.stream)) {
    records_.write(RecordKind::kCaptured, {std::to_string(++captured_)});
    return;
  }
  call.name =
      data.symbolName != nullptr && kind == CallKind::kKernel ? data.symbolName : data.functionName;
  const std::vector<std::string> ranges = open_nvtx_ranges();
  if (!selection_.takes(call.name, ranges)) {
    idle_ = nullptr;
    records_.write(RecordKind::kSkipped, {std::to_string(++skipped_)});
    return;
  }
  const CUdevice device = current_device();
  call.launch = launches_++;
  record_launch(kind, data, shape, call, device);
  if (!settings_.counters) {
    untimed_ = true;
    last_launch_ = std::chrono::steady_clock::now();
    return;
  }
  if (!captures_.empty()) {
    return uncounted(call, "another stream was being captured, and waiting would break that");
  }
  ContextCounter* counter = counters_.counter_of(data.context, device);
  if (counter == nullptr) return uncounted(call, counters_.why_not(data.context));
  const bool known = idle_ == data.context && overtaken_ == 0;
  const Idleness before =
      known ? Idleness::kIdle : counter->wait(counter->pending() ? kKnownToWait : limit_before_);
  limit_before_ = before == Idleness::kIdle ? kLongest : kKnownToWait;
  switch (before) {
    case Idleness::kFailed:
      counters_.lose(data.context, kGpuError);
      return uncounted(call, kGpuError);
    case Idleness::kBusy:
      if (!counter->pending()) {
        return uncounted(call, "other work of the program was still running");
      }
      break;
    case Idleness::kIdle:
      if (counter->pending()) counter->close();
      break;
  }
  counter->open(call.launch);
  call.counter = counter;
}

void ProgramProfiler::record_launch(CallKind kind, const CUpti_CallbackData& data,
                                    const LaunchShape& shape, CallInProgress& call,
                                    CUdevice device) {
  if (devices_.insert(device).second) {
    const auto attribute_of = [&](CUdevice_attribute which) {
      int value = 0;
      check(driver().cuDeviceGetAttribute(&value, which, device), "cuDeviceGetAttribute");
      return value;
    };
    records_.write(RecordKind::kDevice,
                   {std::to_string(device), uuid_text(device),
                    fmt::format("{}000", attribute_of(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)),
                    std::to_string(attribute_of(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH))});
  }
  // Streams are numbered in the order of their first launch; 0 is the default stream.
  std::string stream = "0";
  if (shape.stream != nullptr && shape.stream != CU_STREAM_LEGACY) {
    const std::string key = fmt::format("{}", static_cast<const void*>(shape.stream));
    stream = streams_.emplace(key, std::to_string(streams_.size() + 1)).first->second;
  }
  records_.write(RecordKind::kLaunch,
                 {std::to_string(call.launch), std::to_string(::syscall(SYS_gettid)),
                  std::string(name_of(kind)), std::to_string(device),
                  std::to_string(data.contextUid), stream, triple(shape.grid), triple(shape.block),
                  std::to_string(data.correlationId), call.name, joined(open_nvtx_ranges())});
}

void ProgramProfiler::leave(CallKind kind, const CUpti_CallbackData& data,
                            CallInProgress& call) noexcept {
  if (::getpid() != pid_) return;
  const auto result = data.functionReturnValue == nullptr
                          ? CUDA_SUCCESS
                          : *static_cast<const CUresult*>(data.functionReturnValue);
  if (call.capturing != nullptr) {
    const bool over = kind == CallKind::kEndCapture
                          ? result != CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD
                          : result != CUDA_SUCCESS;
    const std::unique_lock lock(mutex_, kLongestLock);
    if (over && lock.owns_lock()) captures_.erase(call.capturing);
    return;
  }
  if (kind == CallKind::kSynchronize) {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (lock.owns_lock()) finish_passes_at_synchronization();
    return;
  }
  if (call.counter == nullptr) return;
  const auto begin = std::chrono::steady_clock::now();
  try {
    if (result != CUDA_SUCCESS) {
      call.counter->forget();
      uncounted(call, fmt::format("the launch failed: CUDA error {}", static_cast<int>(result)));
    }
    leave_launch(data, call);
  } catch (const std::exception& error) {
    fail(error.what());
  }
  last_launch_ = std::chrono::steady_clock::now();
  cost_ += last_launch_ - begin;
  if (call.name.starts_with("cuMemcpyDtoH") && call.name.find("Async") == std::string::npos) {
    finish_passes_at_synchronization();
  }
  constexpr std::uint64_t kSometimes = 16;
  if (++costs_written_ % kSometimes == 0) record_cost();
}

void ProgramProfiler::record_cost() {
  records_.write(RecordKind::kCost,
                 {std::to_string(cost_.count()),
                  std::to_string((std::chrono::steady_clock::now() - begun_).count()),
                  std::to_string(counters_.opening().count())});
}

void ProgramProfiler::leave_launch(const CUpti_CallbackData& data, CallInProgress& call) {
  idle_ = nullptr;
  switch (call.counter->wait(limit_for(call.name))) {
    case Idleness::kIdle:
      call.counter->close();
      idle_ = data.context;
      return counters_.pass_turn_on(kShare);
    case Idleness::kBusy: waiting_.insert(call.name); return call.counter->leave_open();
    case Idleness::kFailed: counters_.lose(data.context, kGpuError); uncounted(call, kGpuError);
  }
}

std::chrono::microseconds ProgramProfiler::limit_for(const std::string& name) const {
  return waiting_.contains(name) ? kKnownToWait : kLongest;
}

void ProgramProfiler::finish_passes(std::chrono::microseconds limit) {
  if (std::exchange(untimed_, false)) flush_activity(false);
  if (counters_.finish_passes(limit)) record_cost();
}

// The program has waited for its results, and may end at once, however it ends. Ending a pass takes
// as long as some hundred launches, so this is done only while it has taken little of all time.
void ProgramProfiler::finish_passes_at_synchronization() {
  constexpr int kLeastTimeBetween = 20;  // in what it has taken
  const auto begin = std::chrono::steady_clock::now();
  if (!captures_.empty() || kLeastTimeBetween * at_synchronizations_ > begin - begun_) return;
  try {
    finish_passes(kKnownToWait);
  } catch (const std::exception& error) {
    fail(error.what());
  }
  const auto took = std::chrono::steady_clock::now() - begin;
  at_synchronizations_ += took;
  cost_ += took;
}

bool ProgramProfiler::work_in_background() noexcept {
  constexpr auto kIdle = 20ms;
  constexpr auto kGlance = 50us;  // launches that are not counted wait for us
  if (::getpid() != pid_) return false;
  const std::lock_guard background(background_);
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return true;
  if (ended_) return false;
  const auto begin = std::chrono::steady_clock::now();
  const auto idle = begin - last_launch_;
  if (idle < kIdle || !captures_.empty()) return true;
  try {
    finish_passes(kGlance);
    if (idle >= kIdleShare) counters_.pass_turn_on(kIdleShare);
  } catch (const std::exception& error) {
    fail(error.what());
  }
  return true;
}

void ProgramProfiler::before_fork() {
  if (::getpid() == pid_) holds_background = background_.try_lock_for(1s);
}

void ProgramProfiler::after_fork_in_parent() {
  if (::getpid() == pid_ && std::exchange(holds_background, false)) background_.unlock();
}

void ProgramProfiler::uncounted(const CallInProgress& call, const std::string& why) {
  idle_ = nullptr;
  records_.write(RecordKind::kUncounted, {std::to_string(call.launch), why});
}

// Something that should not happen: nothing more is counted, and the program goes on as it would.
void ProgramProfiler::fail(const std::string& why) {
  records_.write(RecordKind::kFault, {why});
  counters_.lose_all(why);
}

void ProgramProfiler::end() noexcept {
  if (::getpid() != pid_) return;
  try {
    const std::unique_lock lock(mutex_, 1s);
    if (lock.owns_lock() && captures_.empty()) {
      counters_.close(kLongest);
      flush_activity(true);
    }
    ended_ = true;
  } catch (const std::exception& error) {
    records_.write(RecordKind::kFault, {error.what()});
  }
  record_cost();
  records_.write(RecordKind::kEnd, {});
}

}  // namespace fusecalc::cuda
