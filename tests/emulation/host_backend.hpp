#pragma once

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "backend/backend.hpp"

namespace fusecalc::testing {

// A backend that runs kernels on the host, compiled by its C++ compiler: slowly, for what they
// compute and not for how long they take. It has no tensor cores, no copy engine, no clusters.
class HostBackend final : public GpuBackend {
 public:
  // Kernels are those of this compute capability, for few multiprocessors.
  explicit HostBackend(ComputeCapability capability);
  ~HostBackend() override;

  const PresentGpu& description() const override { return info_; }
  std::uint64_t free_bytes() override { return info_.device.memory_bytes; }
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
  void finish() override {}
  void profile(bool /*begins*/) override {}
  // Nothing runs: what work leaves behind was there before.
  std::vector<Bytes> count_all(std::span<const Work> works) override;
  TimedRun time_once(const Work& work) override;

  std::size_t launches() const { return launches_; }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  using Memory = std::unique_ptr<std::byte, Free>;  // as it comes, as a device's

  std::byte* address(const BufferAt& at);

  PresentGpu info_;
  std::filesystem::path folder_;  // of translated sources
  std::unordered_map<std::uint64_t, Memory> memory_;
  std::unordered_map<std::uint64_t, void*> functions_;  // of compiled kernels
  std::uint64_t last_id_ = 0;
  std::uint64_t modules_ = 0;
  std::size_t launches_ = 0;
};

}  // namespace fusecalc::testing
