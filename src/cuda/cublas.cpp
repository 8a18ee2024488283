#include "cuda/cublas.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include "backend/gpu_fault.hpp"

namespace fusecalc::cuda {
namespace {

// Tries the version of the toolkit of this build, and those before and after it.
void* open_library() {
  constexpr int kMajor = CUDA_VERSION / 1000;
  std::string reason;
  for (const int major : {kMajor, kMajor - 1, kMajor + 1}) {
    const std::string name = fmt::format("libcublasLt.so.{}", major);
    if (void* library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    const char* text = ::dlerror();
    if (reason.empty() && text != nullptr) reason = text;
  }
  throw gpu_error(GpuFault::kNoCublas, reason);
}

template <typename Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function == nullptr) throw gpu_error(GpuFault::kNoCublas, std::string("it lacks ") + name);
}

Cublas open_cublas() {
  void* library = open_library();
  Cublas cublas;
  find(library, "cublasLtGetVersion", cublas.version);
  find(library, "cublasLtGetStatusString", cublas.status_text);
  find(library, "cublasLtCreate", cublas.create);
  find(library, "cublasLtDestroy", cublas.destroy);
  find(library, "cublasLtMatmulDescCreate", cublas.create_desc);
  find(library, "cublasLtMatmulDescSetAttribute", cublas.set_desc);
  find(library, "cublasLtMatmulDescDestroy", cublas.destroy_desc);
  find(library, "cublasLtMatrixLayoutCreate", cublas.create_layout);
  find(library, "cublasLtMatrixLayoutSetAttribute", cublas.set_layout);
  find(library, "cublasLtMatrixLayoutDestroy", cublas.destroy_layout);
  find(library, "cublasLtMatmulPreferenceCreate", cublas.create_preference);
  find(library, "cublasLtMatmulPreferenceSetAttribute", cublas.set_preference);
  find(library, "cublasLtMatmulPreferenceDestroy", cublas.destroy_preference);
  find(library, "cublasLtMatmulAlgoGetHeuristic", cublas.find_algorithms);
  find(library, "cublasLtMatmul", cublas.multiply);
  return cublas;
}

}  // namespace

const Cublas& cublas() {
  static const Cublas instance = open_cublas();
  return instance;
}

std::string cublas_version() {
  // 130002 for 13.0.2; 120903 for 12.9.3.
  const std::size_t version = cublas().version();
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

void check_cublas(CublasStatus status, const char* what) {
  if (status == 0) return;
  const char* text = cublas().status_text(status);
  throw gpu_error(GpuFault::kCublas, fmt::format("{}: {}", what, text == nullptr ? "?" : text));
}

}  // namespace fusecalc::cuda
