#pragma once

#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "backend/backend.hpp"
#include "backend/kernel_cache.hpp"
#include "backend/module.hpp"
#include "cuda/compiler.hpp"
#include "cuda/context.hpp"
#include "cuda/counters.hpp"
#include "cuda/matmuls.hpp"
#include "cuda/nvml.hpp"

namespace fusecalc::cuda {

// The implementation of GpuBackend on a real GPU; contracts are documented there.
class CudaBackend final : public GpuBackend {
 public:
  explicit CudaBackend(const GpuOptions& options);
  ~CudaBackend() override;

  const PresentGpu& description() const override { return info_; }
  std::uint64_t free_bytes() override;

  std::vector<std::vector<CompiledKernel>> compile_all(
      std::span<const KernelSource> sources, const std::function<void(std::size_t)>& done) override;
  double occupancy(const Launch& launch) override;
  unsigned resident_clusters(const Launch& launch, unsigned blocks) override;

  Buffer allocate(std::uint64_t bytes) override;
  void release(const Buffer& buffer) noexcept override;
  void upload(const BufferAt& to, std::span<const std::byte> from) override;
  void download(std::span<std::byte> to, const BufferAt& from) override;
  void fill(const Buffer& buffer, const RandomFill& fill) override;
  void set_bytes(const Buffer& buffer, std::byte value) override;
  Difference compare(const BufferAt& a, const BufferAt& b, DType dtype, std::uint64_t elements,
                     const Allowance& allowed) override;

  void launch(const Launch& launch) override;
  std::vector<PreparedMatmul> prepare(const LibraryMatmul& product,
                                      const MatmulOperands& operands) override;
  void multiply(const PreparedMatmul& product) override;
  void copy(const BufferAt& to, const BufferAt& from, std::uint64_t bytes) override;
  void finish() override;
  void profile(bool begins) override;

  std::vector<Bytes> count_all(std::span<const Work> works) override;
  TimedRun time_once(const Work& work) override;

  // Empty until the first count.
  const DramMetrics* metrics() const { return metrics_.get(); }

 private:
  struct Bare {};
  CudaBackend(Bare tag, const GpuOptions& options);

  // Buffers are known by their address.
  static CUdeviceptr address(const BufferAt& place) { return place.buffer.id + place.offset; }

  std::vector<CompiledKernel> load(const KernelSource& source, const CompiledImage& compiled);
  void load_harness_kernels();
  void sweep(const Buffer& buffer);
  void open_counters();
  void raise_flag() noexcept;
  static KernelResources resources_of(CUfunction function);

  CUdevice device_;
  Context context_;
  PresentGpu info_;
  Nvml nvml_;
  KernelCache cache_;
  std::vector<CUmodule> modules_;

  // For counting and timing.
  CompiledKernel sweep_kernel_;
  CompiledKernel hold_kernel_;
  CompiledKernel fill_kernel_;
  CompiledKernel compare_kernel_;
  Buffer before_;  // swept to clean the L2 before the work
  Buffer after_;   // swept to drain the L2 after the work: a separate buffer, so that none of it is
                   // cached
  Buffer sink_;    // the target of stores of a sweep, which never happen
  CUevent begin_ = nullptr;
  CUevent end_ = nullptr;
  unsigned* flag_ = nullptr;  // host memory that hold_kernel_ watches
  CUdeviceptr flag_on_device_ = 0;
  std::uint64_t held_launches_ = 0;
  bool holding_ = false;
  std::unique_ptr<Matmuls> matmuls_;      // created for the first product
  std::unique_ptr<DramMetrics> metrics_;  // created for the first count
  std::unique_ptr<CounterSession> counters_;
  Bytes sweep_bytes_;  // the traffic of a range with only the draining sweep
};

}  // namespace fusecalc::cuda
