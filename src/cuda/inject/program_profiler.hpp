#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <unordered_set>

#include "cuda/inject/launch_call.hpp"
#include "cuda/inject/process_counters.hpp"
#include "cuda/inject/record_file.hpp"
#include "cuda/inject/selection.hpp"

namespace fusecalc::cuda {

// One driver call of the program, between its two callbacks, which come in the same thread.
struct CallInProgress {
  std::unique_lock<std::timed_mutex> lock{};  // held where the launch is counted
  ContextCounter* counter = nullptr;          // of the launch that is counted
  std::string name{};
  std::uint64_t launch = 0;
  CUstream capturing = nullptr;                  // a capture that this call begins or ends
  std::chrono::steady_clock::time_point done{};  // when the program's call itself began
};

// Counts the launches of this process: one at a time, each alone on its context. Every wait has a
// limit, after which launches are let through, or counted together.
class ProgramProfiler {
 public:
  ProgramProfiler(const std::string& folder, const InjectionSettings& settings);

  void enter(CallKind kind, const CUpti_CallbackData& data, CUpti_CallbackId id,
             CallInProgress& call) noexcept;
  void leave(CallKind kind, const CUpti_CallbackData& data, CallInProgress& call) noexcept;
  // The program ends.
  void end() noexcept;

  // Called every few milliseconds in a thread of ours. While the program launches nothing, it does
  // what the next launch would do. Returns whether it is to be called again.
  bool work_in_background() noexcept;
  // While the program forks, our thread calls nothing of CUDA and CUPTI: the child would have their
  // locks as they are then, without the thread that holds them.
  void before_fork();
  void after_fork_in_parent();

 private:
  void enter_launch(CallKind kind, const CUpti_CallbackData& data, const LaunchShape& shape,
                    CallInProgress& call);
  void leave_launch(const CUpti_CallbackData& data, CallInProgress& call);
  bool is_captured(CUstream stream);
  void record_launch(CallKind kind, const CUpti_CallbackData& data, const LaunchShape& shape,
                     CallInProgress& call, CUdevice device);
  void finish_passes(std::chrono::microseconds limit);
  void finish_passes_at_synchronization();
  void record_cost();
  void uncounted(const CallInProgress& call, const std::string& why);
  void fail(const std::string& why);
  std::chrono::microseconds limit_for(const std::string& name) const;

  InjectionSettings settings_;
  RecordFile records_;
  Selection selection_;
  int pid_;
  std::timed_mutex background_;  // held by our thread while it works
  std::timed_mutex mutex_;
  ProcessCounters counters_;
  CUcontext idle_ = nullptr;  // whose last launch has ended, and nothing was launched since
  // For work that runs already.
  std::chrono::microseconds limit_before_ = ProcessCounters::kLongestWait;
  std::set<CUdevice> devices_;
  std::set<CUstream> captures_;              // streams whose launches are recorded into a graph
  std::unordered_set<std::string> waiting_;  // kernels that did not end by themselves
  std::map<std::string, std::string> streams_;
  std::uint64_t launches_ = 0;
  std::uint64_t captured_ = 0;
  std::uint64_t skipped_ = 0;
  std::atomic<std::uint64_t> overtaken_ = 0;
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point last_launch_{};  // that was counted or timed
  bool untimed_ = false;  // there are launches whose times may not have been recorded
  bool ended_ = false;
  std::chrono::nanoseconds cost_{};
  std::chrono::nanoseconds at_synchronizations_{};  // of it
  std::uint64_t costs_written_ = 0;
};

}  // namespace fusecalc::cuda
