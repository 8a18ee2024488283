#include "cuda/cuda_backend.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <chrono>
#include <string>
#include <utility>

#include "core/ceil_div.hpp"
#include "cuda/launch_arguments.hpp"

namespace fusecalc::cuda {
namespace {

using Clock = std::chrono::steady_clock;

// The stream's queue is finite: work that does not fit starts before all of it is enqueued.
constexpr std::uint64_t kQueueDepth = 512;

// Kernel ids are the driver's function handles.
CUfunction function_of(const CompiledKernel& kernel) {
  return reinterpret_cast<CUfunction>(static_cast<std::uintptr_t>(kernel.id));
}

// Kernels must opt in to more shared memory than the default limit.
void allow_shared(const Launch& launch) {
  constexpr std::uint32_t kSharedWithoutAsking = 48U << 10U;
  // Static shared memory counts, too.
  const std::uint64_t bytes = launch.shared_bytes + launch.kernel.resources.shared_bytes;
  if (launch.shared_bytes == 0 || bytes <= kSharedWithoutAsking) return;
  check(driver().cuFuncSetAttribute(function_of(launch.kernel),
                                    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                    static_cast<int>(launch.shared_bytes)),
        "cuFuncSetAttribute");
}

unsigned threads_of(const Launch& launch) {
  return launch.block.x * launch.block.y * launch.block.z;
}

}  // namespace

// Delegates, so that the destructor runs if the body throws.
CudaBackend::CudaBackend(const GpuOptions& options) : CudaBackend(Bare{}, options) {
  load_harness_kernels();
  if (options.counters) open_counters();
}

CudaBackend::CudaBackend(Bare /*tag*/, const GpuOptions& options)
    : device_(device_at(options.device_index)),
      context_((options.counters ? prepare_profiler(device_) : void(), device_)),
      info_(describe(device_, options.device_index)),
      nvml_(info_.uuid),
      cache_(KernelCache::default_folder()) {
  info_.driver = nvml_.driver_version();
}

CudaBackend::~CudaBackend() {
  raise_flag();
  counters_.reset();
  driver().cuStreamSynchronize(context_.stream());
  matmuls_.reset();
  for (CUmodule module : modules_) driver().cuModuleUnload(module);
  for (const Buffer& buffer : {before_, after_, sink_}) {
    if (buffer.id != 0) release(buffer);
  }
  if (begin_ != nullptr) driver().cuEventDestroy(begin_);
  if (end_ != nullptr) driver().cuEventDestroy(end_);
  if (flag_ != nullptr) driver().cuMemFreeHost(flag_);
}

std::uint64_t CudaBackend::free_bytes() {
  std::size_t available = 0;
  std::size_t total = 0;
  check(driver().cuMemGetInfo(&available, &total), "cuMemGetInfo");
  return available;
}

std::vector<std::vector<CompiledKernel>> CudaBackend::compile_all(
    std::span<const KernelSource> sources, const std::function<void(std::size_t)>& done) {
  const std::vector<CompiledImage> images =
      compile_images(sources, architecture_for(device().capability), cache_, done);
  std::vector<std::vector<CompiledKernel>> kernels;
  for (std::size_t i = 0; i < sources.size(); ++i) kernels.push_back(load(sources[i], images[i]));
  return kernels;
}

std::vector<CompiledKernel> CudaBackend::load(const KernelSource& source,
                                              const CompiledImage& compiled) {
  const Clock::time_point begin = Clock::now();
  CUmodule module = nullptr;
  check(driver().cuModuleLoadData(&module, compiled.image.c_str()), "cuModuleLoadData");
  modules_.push_back(module);
  const double seconds =
      compiled.seconds + std::chrono::duration<double>(Clock::now() - begin).count();
  std::vector<CompiledKernel> kernels;
  for (const std::string& entry : source.entries) {
    CUfunction function = nullptr;
    check(driver().cuModuleGetFunction(&function, module, entry.c_str()), "cuModuleGetFunction");
    CompiledKernel kernel{.id = reinterpret_cast<std::uintptr_t>(function),
                          .resources = resources_of(function),
                          .module = reinterpret_cast<std::uintptr_t>(module),
                          .compile_seconds = seconds,
                          .cached = compiled.cached};
    if (const auto report = report_of(compiled.log, entry)) {
      kernel.resources.spill_bytes = report->spill_bytes;
    }
    kernels.push_back(kernel);
  }
  return kernels;
}

KernelResources CudaBackend::resources_of(CUfunction function) {
  const auto get = [&](CUfunction_attribute which) {
    int value = 0;
    check(driver().cuFuncGetAttribute(&value, which, function), "cuFuncGetAttribute");
    return static_cast<unsigned>(value);
  };
  return {.registers = get(CU_FUNC_ATTRIBUTE_NUM_REGS),
          .shared_bytes = get(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES),
          .local_bytes = get(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES),
          .spill_bytes = 0,
          .max_block_threads = get(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)};
}

double CudaBackend::occupancy(const Launch& launch) {
  int blocks = 0;
  check(driver().cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function_of(launch.kernel),
                                                             static_cast<int>(threads_of(launch)),
                                                             launch.shared_bytes),
        "cuOccupancyMaxActiveBlocksPerMultiprocessor");
  const int most = attribute(device_, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
  return static_cast<double>(blocks) * threads_of(launch) / most;
}

unsigned CudaBackend::resident_clusters(const Launch& launch, unsigned blocks) {
  allow_shared(launch);
  CUlaunchConfig config{};
  config.gridDimX = blocks;
  config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = launch.block.x;
  config.blockDimY = launch.block.y;
  config.blockDimZ = launch.block.z;
  config.sharedMemBytes = launch.shared_bytes;
  int clusters = 0;
  check(driver().cuOccupancyMaxActiveClusters(&clusters, function_of(launch.kernel), &config),
        "cuOccupancyMaxActiveClusters");
  return static_cast<unsigned>(clusters);
}

Buffer CudaBackend::allocate(std::uint64_t bytes) {
  CUdeviceptr address = 0;
  // Kernels read whole groups of 16 bytes, and combine whole words, a tensor's last, too.
  constexpr std::uint64_t kGroup = 16;
  const std::uint64_t groups = std::max<std::uint64_t>(1, ceil_div(bytes, kGroup));
  check(driver().cuMemAlloc(&address, groups * kGroup), "cuMemAlloc");
  return {.id = address, .bytes = bytes};
}

void CudaBackend::release(const Buffer& buffer) noexcept { driver().cuMemFree(buffer.id); }

void CudaBackend::upload(const BufferAt& to, std::span<const std::byte> from) {
  assert(to.offset + from.size() <= to.buffer.bytes);
  check(driver().cuMemcpyHtoDAsync(address(to), from.data(), from.size(), context_.stream()),
        "cuMemcpyHtoDAsync");
  finish();
}

void CudaBackend::download(std::span<std::byte> to, const BufferAt& from) {
  assert(from.offset + to.size() <= from.buffer.bytes);
  check(driver().cuMemcpyDtoHAsync(to.data(), address(from), to.size(), context_.stream()),
        "cuMemcpyDtoHAsync");
  finish();
}

void CudaBackend::set_bytes(const Buffer& buffer, std::byte value) {
  if (buffer.bytes == 0) return;
  check(driver().cuMemsetD8Async(buffer.id, std::to_integer<unsigned char>(value), buffer.bytes,
                                 context_.stream()),
        "cuMemsetD8Async");
}

void CudaBackend::launch(const Launch& launch) {
  if (holding_ && ++held_launches_ > kQueueDepth) raise_flag();
  CUfunction function = function_of(launch.kernel);
  allow_shared(launch);
  LaunchArguments arguments(launch.arguments);
  if (launch.cooperative) {
    check(driver().cuLaunchCooperativeKernel(
              function, launch.grid.x, launch.grid.y, launch.grid.z, launch.block.x, launch.block.y,
              launch.block.z, launch.shared_bytes, context_.stream(), arguments.pointers()),
          "cuLaunchCooperativeKernel");
    return;
  }
  if (launch.overlaps) {
    CUlaunchAttribute early{};
    early.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    early.value.programmaticStreamSerializationAllowed = 1;
    const CUlaunchConfig config{.gridDimX = launch.grid.x,
                                .gridDimY = launch.grid.y,
                                .gridDimZ = launch.grid.z,
                                .blockDimX = launch.block.x,
                                .blockDimY = launch.block.y,
                                .blockDimZ = launch.block.z,
                                .sharedMemBytes = launch.shared_bytes,
                                .hStream = context_.stream(),
                                .attrs = &early,
                                .numAttrs = 1};
    check(driver().cuLaunchKernelEx(&config, function, arguments.pointers(), nullptr),
          "cuLaunchKernelEx");
    return;
  }
  check(driver().cuLaunchKernel(function, launch.grid.x, launch.grid.y, launch.grid.z,
                                launch.block.x, launch.block.y, launch.block.z, launch.shared_bytes,
                                context_.stream(), arguments.pointers(), nullptr),
        "cuLaunchKernel");
}

std::vector<PreparedMatmul> CudaBackend::prepare(const LibraryMatmul& product,
                                                 const MatmulOperands& operands) {
  if (matmuls_ == nullptr) matmuls_ = std::make_unique<Matmuls>(context_.stream());
  return matmuls_->prepare(product, operands);
}

void CudaBackend::multiply(const PreparedMatmul& product) {
  if (holding_ && (held_launches_ += product.launches) > kQueueDepth) raise_flag();
  matmuls_->run(product);
}

void CudaBackend::copy(const BufferAt& to, const BufferAt& from, std::uint64_t bytes) {
  check(driver().cuMemcpyDtoDAsync(address(to), address(from), bytes, context_.stream()),
        "cuMemcpyDtoDAsync");
}

void CudaBackend::finish() {
  check(driver().cuStreamSynchronize(context_.stream()), "cuStreamSynchronize");
}

// cudaProfiler.h is in none of the packages that a build fetches. That no profiler listens is no
// fault.
void CudaBackend::profile(bool begins) {
  using Call = CUresult (*)();
  void* const call = find_in_driver(begins ? "cuProfilerStart" : "cuProfilerStop");
  if (call != nullptr) reinterpret_cast<Call>(call)();
}

}  // namespace fusecalc::cuda
