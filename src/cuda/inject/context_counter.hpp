#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "backend/injection.hpp"
#include "cuda/counters.hpp"
#include "cuda/inject/record_file.hpp"
#include "cuda/inject/sweep.hpp"

namespace fusecalc::cuda {

enum class Idleness { kIdle, kBusy, kFailed };

// Makes a context of the program current while it exists.
class CurrentContext {
 public:
  explicit CurrentContext(CUcontext context)
      : pushed_(driver().cuCtxPushCurrent(context) == CUDA_SUCCESS) {}
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;
  ~CurrentContext() {
    CUcontext popped = nullptr;
    if (pushed_) driver().cuCtxPopCurrent(&popped);
  }

 private:
  bool pushed_;
};

// Counts the launches of a program in one of its contexts, which must be current in every call. The
// program's work is waited for with a limit: it may wait for something that the program has yet to
// do.
class ContextCounter {
 public:
  // Throws Error if the counters cannot be read.
  ContextCounter(CUcontext context, CUdevice device, const InjectionSettings& settings,
                 RecordFile& records);
  ContextCounter(const ContextCounter&) = delete;
  ContextCounter& operator=(const ContextCounter&) = delete;
  ~ContextCounter();

  Idleness wait(std::chrono::microseconds limit) const;

  // Around a launch: the context is idle before open(), unless a launch is pending, which the next
  // one is then counted with.
  void open(std::uint64_t launch);
  // The launch is done.
  void close();
  // The launch did not end by itself.
  void leave_open() { pending_ = true; }
  // The call failed, so there is nothing to count.
  void forget() { forget_ = true; }

  bool pending() const { return pending_; }
  bool in_pass() const { return in_pass_; }

  // Reads the counters of the launches so far. The context is idle.
  void finish_pass();
  // The same, and drives out what the L2 still has to write.
  void finish();

  // Without a further call to CUDA: the context is gone, or the GPU has failed.
  void abandon();

  CUdevice device() const { return device_; }

 private:
  struct Counted {
    std::uint64_t launch;
    bool with_next;  // it shares the range with the launch after it
    bool forgotten;
  };
  void measure_sweep();
  void begin_pass();
  std::vector<Bytes> end_pass();
  bool pass_is_over() const;

  CUcontext context_;
  CUdevice device_;
  bool isolated_;
  RecordFile& records_;
  CUevent event_ = nullptr;
  std::unique_ptr<DramMetrics> metrics_;
  std::unique_ptr<L2Sweep> sweep_;
  std::unique_ptr<CounterSession> session_;
  Bytes sweep_bytes_{};
  std::vector<Counted> pass_;
  std::size_t capacity_ = 1;  // ranges that a pass keeps here
  std::size_t ranges_ = 0;    // closed ones of the pass
  std::chrono::steady_clock::time_point pass_began_{};
  bool in_pass_ = false;
  bool range_open_ = false;
  bool pending_ = false;
  bool forget_ = false;
};

}  // namespace fusecalc::cuda
