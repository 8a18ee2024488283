// The library that CUDA loads into a program whose environment names it in CUDA_INJECTION64_PATH.

#include <cstdlib>
#include <exception>
#include <fstream>
#include <iterator>
#include <string>
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

void on_call(void* /*user*/, CUpti_CallbackDomain /*domain*/, CUpti_CallbackId id,
             const void* callback_data) {
  const auto& data = *static_cast<const CUpti_CallbackData*>(callback_data);
  const CallKind kind = id < kinds->size() ? (*kinds)[id] : CallKind::kOther;
  if (data.callbackSite == CUPTI_API_ENTER) {
    if (depth++ > 0) return;
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
