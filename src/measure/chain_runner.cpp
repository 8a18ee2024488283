#include "measure/chain_runner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "backend/device_buffer.hpp"
#include "codegen/kernel_facts.hpp"
#include "core/embedded.hpp"
#include "core/error.hpp"
#include "core/format.hpp"
#include "core/interrupt.hpp"
#include "measure/graph_memory.hpp"
#include "plan/plan_kind.hpp"
#include "traffic/chain.hpp"

namespace fusecalc {
namespace {

constexpr unsigned kBlockThreads = 256;  // kThreads in kernels/stream.cuh
constexpr std::uint64_t kRounds = 4;     // of 16 bytes per thread
constexpr std::uint64_t kBytesPerBlock = 16 * kRounds * kBlockThreads;

// The bytes of the tensors between the operations: tensor k is what operation k - 1 writes and
// operation k reads, so it holds the larger of the two.
std::vector<std::uint64_t> tensor_bytes(const std::vector<Bytes>& traffic) {
  std::vector<std::uint64_t> bytes(traffic.size() + 1);
  for (std::size_t k = 0; k < traffic.size(); ++k) {
    bytes[k] = std::max(bytes[k], traffic[k].read);
    bytes[k + 1] = traffic[k].write;
  }
  return bytes;
}

void check_fit(GpuBackend& gpu, const std::vector<std::uint64_t>& bytes,
               const std::string& document) {
  std::uint64_t needed = 0;
  for (const std::uint64_t each : bytes) needed += each;  // part of the checked total traffic
  if (needed <= usable_bytes(gpu)) return;
  throw Error(Fault::kBadInput,
              fmt::format("{}: its tensors need {} of device memory, and {} has {} free of {}; "
                          "measure a smaller list",
                          document, human_bytes(needed), gpu.device().name,
                          human_bytes(gpu.free_bytes()), human_bytes(gpu.device().memory_bytes)));
}

// The tensors and kernels of a chain on one device.
class ChainBench {
 public:
  ChainBench(GpuBackend& gpu, const std::vector<std::uint64_t>& bytes, std::uint64_t seed)
      : kernel_(gpu.compile(stream_source()).front()) {
    for (const std::uint64_t each : bytes) {
      tensors_.emplace_back(gpu, each);
      gpu.fill(tensors_.back(), {.dtype = {}, .seed = seed + tensors_.size()});
    }
    gpu.finish();
  }

  // A kernel that moves `traffic` from tensor `from` to tensor `to`.
  PreparedKernel kernel(std::string name, std::uint64_t operations, const Bytes& traffic,
                        std::size_t from, std::size_t to) const {
    const std::uint64_t blocks =
        (std::max(traffic.read, traffic.write) + kBytesPerBlock - 1) / kBytesPerBlock;
    constexpr std::uint64_t kMostBlocks = 0x7fffffff;
    return {.name = std::move(name),
            .operations = operations,
            .analytic = traffic,
            .steps = {Launch{
                .kernel = kernel_,
                .grid = {static_cast<unsigned>(std::clamp<std::uint64_t>(blocks, 1, kMostBlocks))},
                .block = {kBlockThreads},
                .shared_bytes = 0,
                .arguments = {tensors_[from].at(0), traffic.read, tensors_[to].at(0), traffic.write,
                              std::uint32_t{0x5bd1e995}}}},
            .schedule = "stream"};
  }

 private:
  CompiledKernel kernel_;
  std::vector<DeviceBuffer> tensors_;
};

}  // namespace

KernelSource stream_source() {
  return {std::string(embedded_kernel("stream")) + static_asserts({{"kThreads", kBlockThreads}}),
          {"stream"}};
}

Measurement measure_chain(GpuBackend& gpu, const SizeChain& chain,
                          const std::vector<SizedOperation>& operations,
                          const MeasureOptions& options, const Progress& progress,
                          const std::string& document) {
  const ChainTraffic total = count_bytes(chain, document);
  std::vector<Bytes> traffic;
  for (const SizedOperation& operation : operations) {
    traffic.push_back(bytes_of(operation, chain.dtype_bytes));
  }
  const std::vector<std::uint64_t> bytes = tensor_bytes(traffic);
  check_fit(gpu, bytes, document);

  Measurement result{.operations = operations.size(),
                     .dtype_bytes = chain.dtype_bytes,
                     .seed = options.seed,
                     .gpu = gpu.description()};
  progress("preparing tensors");
  {
    const ChainBench bench(gpu, bytes, options.seed);
    PreparedPlan unfused{.key = std::string(name_of(PlanKind::kUnfused)),
                         .analytic = total.unfused};
    for (std::size_t k = 0; k < traffic.size(); ++k) {
      const std::string& name = operations[k].name;
      unfused.kernels.push_back(
          bench.kernel(name.empty() ? fmt::format("op#{}", k) : name, 1, traffic[k], k, k + 1));
      if (k > 0) unfused.largest_intermediate = std::max(unfused.largest_intermediate, bytes[k]);
    }
    PreparedPlan fused{.key = std::string(name_of(PlanKind::kAuto)), .analytic = total.fused};
    fused.kernels.push_back(
        bench.kernel("fused", operations.size(), total.fused, 0, traffic.size()));
    std::vector<PlanMeasurement> plans =
        run_plans(gpu, std::vector{std::move(unfused), std::move(fused)}, options, progress);
    for (PlanMeasurement& plan : plans) {
      plan.verified_reason = "synthetic kernels compute nothing that could be wrong";
    }
    result.unfused = std::move(plans[0]);
    result.fused = std::move(plans[1]);
  }
  result.interrupted = interrupted();
  if (result.interrupted) return result;
  progress("timing a device-to-device copy");
  result.copy_bytes_per_s = copy_ceiling(gpu);
  return result;
}

}  // namespace fusecalc
