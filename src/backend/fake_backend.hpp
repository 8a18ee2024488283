#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <unordered_map>
#include <vector>

#include "backend/backend.hpp"
#include "backend/gpu_fault.hpp"
#include "reference/element.hpp"

namespace fusecalc {

// Of two tensors in the memory of the host.
inline Difference difference_of(DType dtype, std::uint64_t elements,
                                std::span<const std::byte> left, std::span<const std::byte> right,
                                const Allowance& allowed) {
  Difference difference;
  for (std::uint64_t i = 0; i < elements; ++i) {
    const double x = decode(dtype, left, i);
    const double y = decode(dtype, right, i);
    if (std::isfinite(x))
      difference.max_magnitude = std::max(difference.max_magnitude, std::abs(x));
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    const double most = std::max(std::abs(x), std::abs(y));
    const double apart = std::abs(x - y);
    const double excess = std::isfinite(apart)
                              ? apart / (allowed.absolute + allowed.relative * most)
                              : std::numeric_limits<double>::infinity();
    if (excess > 1) ++difference.beyond;
    if (excess > difference.excess) difference.worst = i;
    difference.excess = std::max(difference.excess, excess);
  }
  return difference;
}

// A backend that runs nothing: it records calls and returns configured results. Its memory holds
// what was uploaded, and 0 elsewhere.
class FakeBackend final : public GpuBackend {
 public:
  using Launches = std::vector<Launch>;

  PresentGpu info{.device = fake_device(),
                  .uuid = "GPU-0",
                  .driver = "1.2.3",
                  .driver_cuda = "13.0",
                  .toolkit = "13.0",
                  .sm_clock_hz = 2e9,
                  .memory_clock_hz = 3e9,
                  .ecc = true};
  std::uint64_t memory_left = std::uint64_t{4} << 30U;
  std::function<Bytes(const Launches&)> counted = [](const Launches&) { return Bytes{}; };
  std::function<TimedRun(const Launches&)> timed = [](const Launches&) {
    return TimedRun{.seconds = 1e-3, .sm_clock_hz = 2e9};
  };

  std::vector<std::string> log;  // "compile", "allocate 64", "count 3", "time 3", ...
  std::vector<KernelSource> sources;
  std::vector<LibraryMatmul> products;   // that were prepared
  std::vector<MatmulOperands> operands;  // of each
  bool has_library = true;
  std::vector<PreparedMatmul> library_algorithms =
      std::vector<PreparedMatmul>(1);  // that it proposes for each product
  double compile_seconds = 0;          // of every source
  std::size_t live_buffers = 0;

  const PresentGpu& description() const override { return info; }
  std::uint64_t free_bytes() override { return memory_left; }
  std::vector<std::vector<CompiledKernel>> compile_all(
      std::span<const KernelSource> wanted, const std::function<void(std::size_t)>& done) override {
    std::vector<std::vector<CompiledKernel>> kernels;
    for (const KernelSource& source : wanted) {
      sources.push_back(source);
      log.push_back("compile");
      kernels.emplace_back(source.entries.size());
      const std::uint64_t module = ++last_id_;
      for (CompiledKernel& kernel : kernels.back()) {
        kernel = {.id = ++last_id_,
                  .resources = {.registers = 32},
                  .module = module,
                  .compile_seconds = compile_seconds};
      }
      done(kernels.size());
    }
    return kernels;
  }
  double occupancy(const Launch& /*launch*/) override { return 0.5; }
  unsigned resident_clusters(const Launch& /*launch*/, unsigned blocks) override {
    return info.device.multiprocessors / blocks;
  }
  Buffer allocate(std::uint64_t bytes) override {
    log.push_back("allocate " + std::to_string(bytes));
    memory_left -= bytes;
    ++live_buffers;
    return {.id = ++last_id_, .bytes = bytes};
  }
  void release(const Buffer& buffer) noexcept override {
    memory_left += buffer.bytes;
    --live_buffers;
  }
  void upload(const BufferAt& to, std::span<const std::byte> from) override {
    std::vector<std::byte>& bytes = memory_[to.buffer.id];
    bytes.resize(to.buffer.bytes);
    std::ranges::copy(from, bytes.begin() + static_cast<std::ptrdiff_t>(to.offset));
  }
  void download(std::span<std::byte> to, const BufferAt& from) override {
    const std::vector<std::byte>& bytes = memory_[from.buffer.id];
    for (std::size_t i = 0; i < to.size(); ++i) {
      to[i] = from.offset + i < bytes.size() ? bytes[from.offset + i] : std::byte{0};
    }
  }
  void fill(const Buffer& /*buffer*/, const RandomFill& /*fill*/) override {}
  void set_bytes(const Buffer& buffer, std::byte value) override {
    if (value == std::byte{0}) log.push_back("zero " + std::to_string(buffer.bytes));
  }
  Difference compare(const BufferAt& a, const BufferAt& b, DType dtype, std::uint64_t elements,
                     const Allowance& allowed) override {
    std::vector<std::byte> left(bytes_of(dtype, elements));
    std::vector<std::byte> right(left.size());
    download(left, a);
    download(right, b);
    return difference_of(dtype, elements, left, right, allowed);
  }
  void launch(const Launch& launch) override { queued_.push_back(launch); }
  std::vector<PreparedMatmul> prepare(const LibraryMatmul& product,
                                      const MatmulOperands& at) override {
    if (!has_library) throw gpu_error(GpuFault::kNoCublas, "libcublasLt.so.13: no such file");
    products.push_back(product);
    operands.push_back(at);
    log.push_back("prepare");
    std::vector<PreparedMatmul> algorithms = library_algorithms;
    for (PreparedMatmul& algorithm : algorithms) algorithm.id = ++last_id_;
    return algorithms;
  }
  // Recorded as a launch of a kernel of that id.
  void multiply(const PreparedMatmul& product) override {
    Launch launch{};
    launch.kernel.id = product.id;
    queued_.push_back(launch);
  }
  void copy(const BufferAt& /*to*/, const BufferAt& /*from*/, std::uint64_t /*bytes*/) override {}
  void finish() override {}
  void profile(bool begins) override {
    log.emplace_back(begins ? "profile begins" : "profile ends");
  }
  std::vector<Bytes> count_all(std::span<const Work> works) override {
    std::vector<Bytes> bytes;
    for (const Work& work : works) {
      const Launches launches = run(work);
      log.push_back("count " + std::to_string(launches.size()));
      bytes.push_back(counted(launches));
    }
    return bytes;
  }
  TimedRun time_once(const Work& work) override {
    const Launches launches = run(work);
    log.push_back("time " + std::to_string(launches.size()));
    return timed(launches);
  }

 private:
  static Device fake_device() {
    return {.name = "Fake GPU",
            .capability = kHopper,
            .on_chip_bytes = 232448,
            .multiprocessors = 132,
            .l2_bytes = 1U << 20U,
            .memory_bytes = std::uint64_t{8} << 30U};
  }

  Launches run(const Work& work) {
    queued_.clear();
    work();
    return std::move(queued_);
  }

  Launches queued_;
  std::unordered_map<std::uint64_t, std::vector<std::byte>> memory_;
  std::uint64_t last_id_ = 0;
};

// The bytes that the streaming kernels of a sizes-form list move: their second and fourth argument.
inline Bytes streamed_bytes(const FakeBackend::Launches& launches) {
  Bytes total;
  for (const Launch& launch : launches) {
    total.read += std::get<std::uint64_t>(launch.arguments[1]);
    total.write += std::get<std::uint64_t>(launch.arguments[3]);
  }
  return total;
}

}  // namespace fusecalc
