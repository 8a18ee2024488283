#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>

#include "backend/injection.hpp"
#include "cuda/inject/context_counter.hpp"
#include "cuda/inject/record_file.hpp"
#include "cuda/inject/turn.hpp"

namespace fusecalc::cuda {

// The GPUs' counters in this process: they serve one context of a GPU at a time, and the processes
// of a program in turns. One thread at a time. Limits are for waiting until a context is idle.
class ProcessCounters {
 public:
  // Work of the program that takes longer may wait for something that the program has yet to do.
  static constexpr std::chrono::microseconds kLongestWait{5'000'000};

  ProcessCounters(std::string folder, const InjectionSettings& settings, RecordFile& records);

  // Those of the current context, opened if need be. Null where they cannot be read now.
  ContextCounter* counter_of(CUcontext context, CUdevice device);
  // The reason for null.
  std::string why_not(CUcontext context) const;

  // Reads what the passes so far have counted. Returns whether there were any.
  bool finish_passes(std::chrono::microseconds limit);
  bool in_pass() const;
  // Lets another process count where one waits and this one has had its share.
  void pass_turn_on(std::chrono::milliseconds share);
  // Before contexts are destroyed, or the process ends. Those that are not idle are abandoned.
  void close(std::chrono::microseconds limit);
  // The same without a call to CUDA.
  void abandon();

  // Nothing more is counted in this context, or in all of those that are counted.
  void lose(CUcontext context, const std::string& why);
  void lose_all(const std::string& why);

  // What opening counters has taken so far, with waiting for turns.
  std::chrono::nanoseconds opening() const { return opening_; }

 private:
  using Row = std::pair<const CUcontext, std::unique_ptr<ContextCounter>>;
  void open(CUcontext context, CUdevice device);
  bool close(const Row& row, std::chrono::microseconds limit);
  Turn& turn_on(CUdevice device);

  std::string folder_;
  const InjectionSettings& settings_;
  RecordFile& records_;
  std::map<CUcontext, std::unique_ptr<ContextCounter>> counters_;
  std::map<CUcontext, std::string> faults_;
  std::map<CUdevice, std::unique_ptr<Turn>> turns_;
  std::chrono::milliseconds patience_;  // with other processes
  bool keeps_turn_ = false;
  std::chrono::nanoseconds opening_{};
};

}  // namespace fusecalc::cuda
