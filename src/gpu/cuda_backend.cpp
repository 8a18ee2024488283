#include "gpu/cuda_backend.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <chrono>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>

#include "core/embedded.hpp"
#include "gpu/launch_arguments.hpp"
#include "measure/device_buffer.hpp"

namespace fusecalc::gpu {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kMebibyte = std::uint64_t{1} << 20U;
constexpr unsigned kBlockThreads = 256;
// The stream's queue is finite: work that does not fit starts before it is all queued.
constexpr std::uint64_t kQueueDepth = 512;

// The element kinds of kernels/instruments.cuh, in its order.
enum class ElementKind : std::int32_t {
  kBits64,
  kBits8,
  kFloat64,
  kFloat32,
  kTfloat32,
  kFloat16,
  kBfloat16,
  kFloat8E4m3,
  kFloat8E5m2,
  kFloat4E2m1,
  kInt64,
  kInt32,
  kInt16,
  kInt8,
  kUint8,
  kInt4,
  kUint4,
  kBool
};

struct FillElement {
  ElementKind kind;
  std::uint64_t bytes;  // of what is stored at once: one element, or two of 4 bits
};

FillElement fill_element(const std::optional<DType>& dtype) {
  if (!dtype) return {ElementKind::kBits8, 1};
  switch (*dtype) {
    case DType::kF64: return {ElementKind::kFloat64, 8};
    case DType::kF32: return {ElementKind::kFloat32, 4};
    case DType::kTf32: return {ElementKind::kTfloat32, 4};
    case DType::kF16: return {ElementKind::kFloat16, 2};
    case DType::kBf16: return {ElementKind::kBfloat16, 2};
    case DType::kFp8E4m3: return {ElementKind::kFloat8E4m3, 1};
    case DType::kFp8E5m2: return {ElementKind::kFloat8E5m2, 1};
    case DType::kFp4E2m1: return {ElementKind::kFloat4E2m1, 1};
    case DType::kI64: return {ElementKind::kInt64, 8};
    case DType::kI32: return {ElementKind::kInt32, 4};
    case DType::kI16: return {ElementKind::kInt16, 2};
    case DType::kI8: return {ElementKind::kInt8, 1};
    case DType::kU8: return {ElementKind::kUint8, 1};
    case DType::kI4: return {ElementKind::kInt4, 1};
    case DType::kU4: return {ElementKind::kUint4, 1};
    case DType::kBool: return {ElementKind::kBool, 1};
  }
  return {ElementKind::kBits8, 1};
}

// Kernel ids are the driver's function handles.
CUfunction function_of(const CompiledKernel& kernel) {
  return reinterpret_cast<CUfunction>(static_cast<std::uintptr_t>(kernel.id));
}

// More shared memory than every kernel may have must be asked for.
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

// Delegates, so that the destructor runs where the second half throws.
CudaBackend::CudaBackend(const GpuOptions& options) : CudaBackend(Bare{}, options) {
  prepare_instruments();
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

void CudaBackend::prepare_instruments() {
  const std::vector<CompiledKernel> kernels =
      compile({std::string(embedded_kernel("instruments")), {"sweep", "hold", "fill", "compare"}});
  sweep_kernel_ = kernels[0];
  hold_kernel_ = kernels[1];
  fill_kernel_ = kernels[2];
  compare_kernel_ = kernels[3];
  check(driver().cuEventCreate(&begin_, CU_EVENT_DEFAULT), "cuEventCreate");
  check(driver().cuEventCreate(&end_, CU_EVENT_DEFAULT), "cuEventCreate");
  void* flag = nullptr;
  check(driver().cuMemHostAlloc(&flag, sizeof(unsigned), CU_MEMHOSTALLOC_DEVICEMAP),
        "cuMemHostAlloc");
  flag_ = static_cast<unsigned*>(flag);
  check(driver().cuMemHostGetDevicePointer(&flag_on_device_, flag, 0), "cuMemHostGetDevicePointer");
  // Twice the L2 would do if its replacement were strictly by age; this leaves no doubt.
  const std::uint64_t bytes = std::max(8 * info_.l2_bytes, 64 * kMebibyte);
  for (Buffer* buffer : {&before_, &after_}) {
    *buffer = allocate(bytes);
    fill(*buffer, {.dtype = {}, .seed = bytes});
  }
  sink_ = allocate(sizeof(std::uint32_t));
  // Lines that somebody made persistent would outlive every sweep.
  check(driver().cuCtxSetLimit(CU_LIMIT_PERSISTING_L2_CACHE_SIZE, 0), "cuCtxSetLimit");
  finish();
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
      compile_images(sources, architecture_for(capability_of(device_)), cache_, done);
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
                          .compile_seconds = seconds,
                          .cached = compiled.cached};
    kernel.resources.spill_bytes = spill_bytes(compiled.log, entry);
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
  check(driver().cuMemAlloc(&address, std::max<std::uint64_t>(bytes, 1)), "cuMemAlloc");
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

void CudaBackend::fill(const Buffer& buffer, const RandomFill& fill) {
  FillElement element = fill_element(fill.dtype);
  if (element.kind == ElementKind::kBits8 && buffer.bytes % 8 == 0) {
    element = {ElementKind::kBits64, 8};
  }
  const std::uint64_t elements = buffer.bytes / element.bytes;
  if (elements == 0) return;
  const std::uint64_t blocks = std::min<std::uint64_t>(
      (elements + kBlockThreads - 1) / kBlockThreads, std::uint64_t{32} * info_.sm_count);
  launch({.kernel = fill_kernel_,
          .grid = {static_cast<unsigned>(blocks)},
          .block = {kBlockThreads},
          .shared_bytes = 0,
          .arguments = {BufferAt{buffer}, elements, static_cast<std::int32_t>(element.kind),
                        fill.low, fill.high, fill.seed}});
}

void CudaBackend::poison(const Buffer& buffer) {
  if (buffer.bytes == 0) return;
  check(driver().cuMemsetD8Async(buffer.id, 0xff, buffer.bytes, context_.stream()),
        "cuMemsetD8Async");
}

Difference CudaBackend::compare(const BufferAt& a, const BufferAt& b, DType dtype,
                                std::uint64_t elements, const Allowance& allowed) {
  // As the kernel stores it.
  struct Found {
    double excess;
    std::uint64_t worst;
    std::uint64_t beyond;
    double magnitude;
  };
  const unsigned blocks = 8 * info_.sm_count;
  std::vector<Found> found(blocks);
  const DeviceBuffer results(*this, blocks * sizeof(Found));
  launch({.kernel = compare_kernel_,
          .grid = {blocks},
          .block = {kBlockThreads},
          .shared_bytes = 0,
          .arguments = {a, b, elements, static_cast<std::int32_t>(fill_element(dtype).kind),
                        allowed.absolute, allowed.relative, results.at(0)}});
  download(std::as_writable_bytes(std::span(found)), results.at(0));
  Difference difference;
  for (const Found& block : found) {
    const bool first = block.excess == difference.excess && block.worst < difference.worst;
    if (block.excess > difference.excess || first) {
      difference.excess = block.excess;
      difference.worst = block.worst;
    }
    difference.beyond += block.beyond;
    difference.max_magnitude = std::max(difference.max_magnitude, block.magnitude);
  }
  if (difference.excess == 0) difference.worst = 0;
  return difference;
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
  check(driver().cuLaunchKernel(function, launch.grid.x, launch.grid.y, launch.grid.z,
                                launch.block.x, launch.block.y, launch.block.z, launch.shared_bytes,
                                context_.stream(), arguments.pointers(), nullptr),
        "cuLaunchKernel");
}

PreparedMatmul CudaBackend::prepare(const LibraryMatmul& product) {
  if (matmuls_ == nullptr) matmuls_ = std::make_unique<Matmuls>(context_.stream());
  return matmuls_->prepare(product);
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

void CudaBackend::sweep(const Buffer& buffer) {
  launch({.kernel = sweep_kernel_,
          .grid = {8 * info_.sm_count},
          .block = {kBlockThreads},
          .shared_bytes = 0,
          .arguments = {BufferAt{buffer}, buffer.bytes / 16, BufferAt{sink_}}});
}

// Counting.

void CudaBackend::open_counters() {
  check(driver().cuCtxResetPersistingL2Cache(), "cuCtxResetPersistingL2Cache");
  counters_ = std::make_unique<CounterSession>(context_.handle(), info_.index);
  sweep_bytes_ = {};
  // The first range of a session may pay for the profiler's own setting up.
  const Work nothing = [] {};
  count(nothing);
  std::array<Bytes, 3> alone;
  std::ranges::generate(alone, [&] { return count(nothing); });
  std::ranges::sort(alone, {}, &Bytes::total);
  sweep_bytes_ = alone[alone.size() / 2];
  // A read of known size shows whether the counters count what this relies on.
  if (sweep_bytes_.read < after_.bytes / 10 * 9 || sweep_bytes_.read > after_.bytes / 10 * 11) {
    throw gpu_error(GpuFault::kImplausible,
                    fmt::format("{} bytes read, {} counted", after_.bytes, sweep_bytes_.read));
  }
}

Bytes CudaBackend::count(const Work& work) {
  if (counters_ == nullptr) open_counters();
  sweep(before_);
  finish();
  const Bytes counted = counters_->count([&] {
    work();
    sweep(after_);
    finish();
  });
  // Less than the sweep alone is noise on work that moves next to nothing.
  return {.read = counted.read - std::min(counted.read, sweep_bytes_.read),
          .write = counted.write - std::min(counted.write, sweep_bytes_.write)};
}

// Timing.

void CudaBackend::raise_flag() noexcept {
  if (flag_ != nullptr) std::atomic_ref<unsigned>(*flag_).store(1);
  holding_ = false;
}

TimedRun CudaBackend::time_once(const Work& work) {
  constexpr std::uint64_t kMostNanoseconds = 1'000'000'000;
  counters_.reset();
  sweep(before_);
  finish();
  std::atomic_ref<unsigned>(*flag_).store(0);
  launch({.kernel = hold_kernel_,
          .grid = {},
          .block = {},
          .shared_bytes = 0,
          .arguments = {static_cast<std::uint64_t>(flag_on_device_), kMostNanoseconds}});
  holding_ = true;
  held_launches_ = 0;
  {
    struct Release {
      CudaBackend* gpu;
      ~Release() { gpu->raise_flag(); }
    } const release{this};
    check(driver().cuEventRecord(begin_, context_.stream()), "cuEventRecord");
    work();
    check(driver().cuEventRecord(end_, context_.stream()), "cuEventRecord");
  }
  finish();
  float milliseconds = 0;
  check(driver().cuEventElapsedTime(&milliseconds, begin_, end_), "cuEventElapsedTime");
  return {.seconds = static_cast<double>(milliseconds) * 1e-3,
          .sm_clock_hz = nvml_.sm_clock_hz(),
          .slowed = nvml_.slowed()};
}

}  // namespace fusecalc::gpu
