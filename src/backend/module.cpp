#include "backend/module.hpp"

#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "backend/gpu_fault.hpp"
#include "backend/injection.hpp"
#include "version.hpp"

namespace fusecalc {
namespace {

namespace fs = std::filesystem;

// Next to the executable in the build tree; when installed, at its path relative to the executable.
fs::path find_file(const char* name) {
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (const fs::path& candidate : {folder / name, folder / FUSECALC_MODULE_FOLDER / name}) {
    if (fs::exists(candidate, error)) return candidate;
  }
  throw gpu_error(GpuFault::kNoModule);
}

const GpuModule& open_module(const fs::path& path) {
  void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const std::string reason = ::dlerror();
    throw gpu_error(fault_of_load_failure(reason), reason);
  }
  void* symbol = ::dlsym(handle, kGpuModuleSymbol);
  if (symbol == nullptr) throw gpu_error(GpuFault::kForeignModule);
  const GpuModule* module = reinterpret_cast<GpuModuleFunction*>(symbol)();
  if (std::string_view(module->version) != kVersion) {
    throw gpu_error(GpuFault::kForeignModule, module->version);
  }
  return *module;
}

}  // namespace

const GpuModule& load_gpu_module() {
  static const GpuModule& module = open_module(find_file(kGpuModuleFile));
  return module;
}

Check check_injection() {
  constexpr std::string_view kName = "injection";
  const char* other = std::getenv("CUDA_INJECTION64_PATH");
  if (other != nullptr && *other != '\0') {
    return {Check::State::kFail, std::string(kName),
            "another profiler is attached: CUDA_INJECTION64_PATH is " + std::string(other)};
  }
  try {
    // CUDA drops a library that does not load without a word.
    const std::string path = injected_library();
    if (::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr) {
      return {Check::State::kFail, std::string(kName), ::dlerror()};
    }
    return {Check::State::kOk, std::string(kName), path};
  } catch (const Error& error) {
    return {Check::State::kFail, std::string(kName), error.what()};
  }
}

std::string injected_library() { return find_file(kInjectionFile).string(); }

}  // namespace fusecalc
