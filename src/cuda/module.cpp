#include "backend/module.hpp"

#include "cuda/cuda_backend.hpp"
#include "cuda/diagnostics.hpp"
#include "version.hpp"

namespace {

std::unique_ptr<fusecalc::GpuBackend> open_backend(const fusecalc::GpuOptions& options) {
  return std::make_unique<fusecalc::cuda::CudaBackend>(options);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const fusecalc::GpuModule* fusecalc_gpu_module() {
  static constexpr fusecalc::GpuModule kModule = {.version = fusecalc::kVersion.data(),
                                                  .open = open_backend,
                                                  .diagnose = fusecalc::cuda::diagnose};
  return &kModule;
}
