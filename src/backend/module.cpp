#include "backend/module.hpp"

#include <dlfcn.h>

#include <array>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "backend/gpu_fault.hpp"
#include "version.hpp"

namespace fusecalc {
namespace {

namespace fs = std::filesystem;

// Next to the executable in the build tree; when installed, at its path relative to the executable.
fs::path find_module() {
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (const fs::path& candidate :
       {folder / kGpuModuleFile, folder / FUSECALC_MODULE_FOLDER / kGpuModuleFile}) {
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
  static const GpuModule& module = open_module(find_module());
  return module;
}

}  // namespace fusecalc
