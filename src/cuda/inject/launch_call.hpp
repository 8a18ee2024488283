#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cuda/cupti.hpp"

namespace fusecalc::cuda {

// What a driver call is to the profiler.
enum class CallKind {
  kOther,
  kKernel,
  kCopy,
  kFill,
  kGraph,
  kBeginCapture,
  kEndCapture,
  kProfilerStart,
  kProfilerStop,
  kSynchronize,
  kCloseContext
};

// By the name of the function, without the suffixes of its versions.
CallKind kind_of_call(std::string_view name);

bool is_launch(CallKind kind);

// "kernel", "copy", "fill" or "graph".
std::string_view name_of(CallKind kind);

struct LaunchShape {
  CUstream stream = nullptr;
  std::array<unsigned, 3> grid{};
  std::array<unsigned, 3> block{};
};

// What the arguments of a call say. The stream is null where the call has none, or where it is
// unknown to this build.
LaunchShape shape_of(CUpti_CallbackId id, const void* arguments);

}  // namespace fusecalc::cuda
