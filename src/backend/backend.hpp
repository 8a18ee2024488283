#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "backend/buffer.hpp"
#include "backend/results.hpp"
#include "codegen/generated.hpp"
#include "codegen/library_matmul.hpp"
#include "core/bytes.hpp"
#include "core/dtype.hpp"
#include "reference/random.hpp"

namespace fusecalc {

struct CompiledKernel {
  std::uint64_t id = 0;
  KernelResources resources;
  std::uint64_t module = 0;    // entries of the same source share one
  double compile_seconds = 0;  // of its module alone; of the original compilation if it is cached
  bool cached = false;
};

struct Extent {
  unsigned x = 1;
  unsigned y = 1;
  unsigned z = 1;
};

// A tensor of which the TMA engine (compute capability 9.0 and higher) copies boxes, as TensorMap
// in kernels/hopper.cuh: fastest dimension first, 128-byte swizzle, zeros outside. The address and
// the strides are multiples of 16 bytes, the rows of a box 128 bytes.
struct TensorMap {
  BufferAt at;
  DType dtype = DType::kBf16;
  std::array<std::uint64_t, 4> extents{};
  std::array<std::uint64_t, 3> strides{};  // bytes, of all but the fastest
  std::array<std::uint32_t, 4> box{};
  std::optional<MappedWindows> windows{};
};

using Argument = std::variant<BufferAt, std::uint64_t, std::int64_t, std::uint32_t, std::int32_t,
                              float, double, TensorMap>;

// One kernel launch. The arguments have the kernel's parameter types, in order.
struct Launch {
  CompiledKernel kernel;
  Extent grid;
  Extent block;
  std::uint32_t shared_bytes = 0;  // dynamic
  std::vector<Argument> arguments;
  bool cooperative = false;  // its blocks wait for each other: all must be resident
  bool overlaps = false;     // may start before the launch before it has ended, for which it waits
};

// The memory of the operands and the result of a library product. The bias has n elements of the
// result's type.
struct MatmulOperands {
  BufferAt a{};
  BufferAt b{};
  BufferAt result{};
  std::optional<BufferAt> bias{};
  std::vector<MatmulOperands> siblings{};  // of equal products of the same a, in the same call
};

// A product with one of the library's algorithms.
struct PreparedMatmul {
  std::uint64_t id = 0;
  std::uint64_t workspace_bytes = 0;
  std::uint64_t launches = 1;  // calls of the library
  // The name of the kernel that a call launches; empty if unknown. It tells the library's choice.
  std::string kernel{};
};

// The allowed difference of two correct results a and b: absolute + relative * max(|a|, |b|).
struct Allowance {
  double absolute = 0;
  double relative = 0;
};

// The differences of two tensors. An infinity equals only itself and a NaN only a NaN; their
// difference to anything else is infinite.
struct Difference {
  double excess = 0;         // the largest |a - b| over the allowed difference; 0 if all are equal
  std::uint64_t worst = 0;   // the first element with that excess
  std::uint64_t beyond = 0;  // elements that differ by more than is allowed
  double max_magnitude = 0;  // the largest finite |a|
};

// Enqueues only launches and copies, so it can be run any number of times.
using Work = std::function<void()>;

// The interface of one GPU for measuring, free of CUDA types. The GPU module implements it, and so
// does a fake for the tests. Work is enqueued in order on one stream. Every fault is an Error; a
// device fault is reported by the next call that synchronizes.
class GpuBackend {
 public:
  GpuBackend() = default;
  GpuBackend(const GpuBackend&) = delete;
  GpuBackend& operator=(const GpuBackend&) = delete;
  virtual ~GpuBackend() = default;

  virtual const PresentGpu& description() const = 0;
  const Device& device() const { return description().device; }
  virtual std::uint64_t free_bytes() = 0;

  std::vector<CompiledKernel> compile(const KernelSource& source) {
    return compile_all(std::span(&source, 1), [](std::size_t) {}).front();
  }
  // Compiles all entries of each source, several sources in parallel. Calls `done` with the number
  // of sources compiled so far; after a Ctrl-C it finishes those in progress and throws.
  virtual std::vector<std::vector<CompiledKernel>> compile_all(
      std::span<const KernelSource> sources, const std::function<void(std::size_t)>& done) = 0;
  // Resident threads over the maximum of a multiprocessor.
  virtual double occupancy(const Launch& launch) = 0;
  // How many clusters of `blocks` blocks of the launch's kernel are resident at once: the largest
  // useful grid of a persistent kernel. (A cluster stays within a group of multiprocessors, and
  // leaves some of it idle where its size does not divide theirs: 132 hold 39 clusters of 3.)
  virtual unsigned resident_clusters(const Launch& launch, unsigned blocks) = 0;

  virtual Buffer allocate(std::uint64_t bytes) = 0;
  virtual void release(const Buffer& buffer) noexcept = 0;
  virtual void upload(const BufferAt& to, std::span<const std::byte> from) = 0;
  virtual void download(std::span<std::byte> to, const BufferAt& from) = 0;
  virtual void fill(const Buffer& buffer, const RandomFill& fill) = 0;
  virtual void set_bytes(const Buffer& buffer, std::byte value) = 0;
  // Bytes of 0xff: NaN in every float dtype, and a value that kernels do not write by chance.
  void poison(const Buffer& buffer) { set_bytes(buffer, std::byte{0xff}); }
  // Synchronizes.
  virtual Difference compare(const BufferAt& a, const BufferAt& b, DType dtype,
                             std::uint64_t elements, const Allowance& allowed) = 0;

  virtual void launch(const Launch& launch) = 0;
  // The algorithms that the vendor's library proposes for a product, the one that it expects to be
  // fastest first; they are valid as long as the backend. Throws Error if the library is missing or
  // has none.
  virtual std::vector<PreparedMatmul> prepare(const LibraryMatmul& product,
                                              const MatmulOperands& operands) = 0;
  virtual void multiply(const PreparedMatmul& product) = 0;
  virtual void copy(const BufferAt& to, const BufferAt& from, std::uint64_t bytes) = 0;
  virtual void finish() = 0;
  // Tells a profiler that waits for it (ncu --profile-from-start off) to begin, or to end.
  virtual void profile(bool begins) = 0;

  // The DRAM traffic of running each work once from a clean L2 that holds none of its data,
  // including the write-back of everything that it wrote. Counting many together is much faster
  // than one by one; if one throws, none has a result.
  virtual std::vector<Bytes> count_all(std::span<const Work> works) = 0;
  Bytes count(const Work& work) { return count_all(std::span(&work, 1)).front(); }

  // Runs the work once from such an L2, with no profiler, and times it on the device. The gaps
  // between launches due to the CPU are excluded, up to a few hundred launches.
  virtual TimedRun time_once(const Work& work) = 0;
};

}  // namespace fusecalc
