// The library that CUDA loads into a program whose environment names it in CUDA_INJECTION64_PATH.

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "core/per_thread.hpp"
#include "cuda/cupti.hpp"
#include "cuda/inject/program_profiler.hpp"

namespace fusecalc::cuda {
namespace {

// Neither is ever destroyed: threads of the program may launch until the very end.
ProgramProfiler* profiler = nullptr;
std::vector<CallKind>* kinds = nullptr;  // by callback

// Calls of our own, and those that a call of the program makes inside, are not the program's.
thread_local int depth = 0;

// Without the thread less is counted where the program idles or is killed.
void* work_in_background(void* /*nothing*/) {
  constexpr std::chrono::milliseconds kPause{10};
  ++depth;
  do {
    std::this_thread::sleep_for(kPause);
  } while (profiler->work_in_background());
  return nullptr;
}

// Signals are the program's own threads' to handle.
void start_background() {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread{};
  if (::pthread_create(&thread, nullptr, work_in_background, nullptr) == 0) {
    ::pthread_detach(thread);
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void on_call(void* /*user*/, CUpti_CallbackDomain /*domain*/, CUpti_CallbackId id,
             const void* callback_data) {
  const auto& data = *static_cast<const CUpti_CallbackData*>(callback_data);
  const CallKind kind = id < kinds->size() ? (*kinds)[id] : CallKind::kOther;
  if (data.callbackSite == CUPTI_API_ENTER) {
    if (depth++ > 0) return;
    static std::atomic_flag started;
    if (is_launch(kind) && !started.test_and_set()) start_background();
    CallInProgress& call = PerThread<CallInProgress>::get();
    call = {};
    profiler->enter(kind, data, id, call);
    return;
  }
  if (depth == 1) {
    CallInProgress& call = PerThread<CallInProgress>::get();
    profiler->leave(kind, data, call);
    call = {};
  }
  --depth;
}

void subscribe() {
  const Cupti& api = cupti();
  CUpti_SubscriberHandle subscriber = nullptr;
  check(api.cuptiSubscribe(&subscriber, on_call, nullptr), "cuptiSubscribe");
  // Functions that are newer than this build are taken by their names, too.
  constexpr CUpti_CallbackId kMostCallbacks = 2000;
  for (CUpti_CallbackId id = 1; id < kMostCallbacks; ++id) {
    const char* name = nullptr;
    if (api.cuptiGetCallbackName(CUPTI_CB_DOMAIN_DRIVER_API, id, &name) != CUPTI_SUCCESS) break;
    const CallKind kind = name == nullptr ? CallKind::kOther : kind_of_call(name);
    kinds->resize(id + 1, CallKind::kOther);
    (*kinds)[id] = kind;
    if (kind == CallKind::kOther) continue;
    check(api.cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API, id),
          "cuptiEnableCallback");
  }
}

void inject(const std::string& folder) {
  std::ifstream file(folder + "/" + kSettingsFile);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  kinds = new std::vector<CallKind>;
  try {
    profiler = new ProgramProfiler(folder, read_settings(text));
    subscribe();
  } catch (const std::exception& error) {
    RecordFile(folder).write(RecordKind::kFault, {error.what()});
    return;
  }
  ::pthread_atfork([] { profiler->before_fork(); }, [] { profiler->after_fork_in_parent(); },
                   nullptr);
  std::atexit([] {
    ++depth;
    profiler->end();
  });
}

}  // namespace
}  // namespace fusecalc::cuda

// CUDA calls it in cuInit. No call of the driver is possible yet.
extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  const char* folder = std::getenv(fusecalc::kInjectionFolderVariable);
  if (folder != nullptr && fusecalc::cuda::profiler == nullptr) fusecalc::cuda::inject(folder);
  return 1;
}
