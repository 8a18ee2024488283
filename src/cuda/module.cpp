#include "backend/module.hpp"

#include "cuda/context.hpp"
#include "cuda/cuda_backend.hpp"
#include "cuda/diagnostics.hpp"
#include "version.hpp"

namespace {

std::unique_ptr<fusecalc::GpuBackend> open_backend(const fusecalc::GpuOptions& options) {
  return std::make_unique<fusecalc::cuda::CudaBackend>(options);
}

std::vector<fusecalc::PresentGpu> devices() {
  std::vector<fusecalc::PresentGpu> found;
  const int count = fusecalc::cuda::device_count();
  if (count == 0) throw fusecalc::gpu_error(fusecalc::GpuFault::kNoDevice);
  for (int index = 0; index < count; ++index) {
    found.push_back(fusecalc::cuda::describe(fusecalc::cuda::device_at(index), index));
  }
  return found;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const fusecalc::GpuModule* fusecalc_gpu_module() {
  static constexpr fusecalc::GpuModule kModule = {.version = fusecalc::kVersion.data(),
                                                  .open = open_backend,
                                                  .diagnose = fusecalc::cuda::diagnose,
                                                  .devices = devices};
  return &kModule;
}
