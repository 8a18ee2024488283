#include <doctest/doctest.h>

#include <cmath>
#include <memory>
#include <string>

#include "core/error.hpp"
#include "cuda/cuda_backend.hpp"
#include "graph/size_chain.hpp"
#include "measure/chain_runner.hpp"
#include "skip.hpp"

namespace fusecalc::cuda {
namespace {

constexpr std::uint64_t kMebi = std::uint64_t{1} << 20U;

// Nothing, and a word why, where the counters are out of reach: `fusecalc doctor` says more.
GpuBackend* counting_gpu() {
  static std::unique_ptr<CudaBackend> gpu;
  try {
    if (gpu == nullptr) gpu = std::make_unique<CudaBackend>(GpuOptions{});
  } catch (const Error& error) {
    if (error.fault() != Fault::kUnavailable) throw;
    skip(error.what());
  }
  return gpu.get();
}

// A chain of three operations over 4-byte elements.
Measurement measure(GpuBackend& gpu, std::uint64_t elements) {
  const std::vector<SizedOperation> operations = {
      {"a", elements, elements}, {"b", elements, elements / 2}, {"c", elements / 2, elements}};
  const SizeChain chain{.name = {},
                        .operations = 3,
                        .input_elements = 2 * elements + elements / 2,
                        .output_elements = 2 * elements + elements / 2,
                        .first_input = elements,
                        .last_output = elements,
                        .dtype_bytes = 4};
  return measure_chain(
      gpu, chain, operations, {.runs = 10}, [](const std::string&) {}, "test");
}

void check_exact(const Observed& observed, const Bytes& analytic) {
  REQUIRE(observed.dram);
  CHECK(std::abs(error_percent(observed.dram->read, analytic.read).value()) < 0.05);
  CHECK(std::abs(error_percent(observed.dram->write, analytic.write).value()) < 0.5);
  CHECK(std::abs(error_percent(observed.dram->total(), analytic.total()).value()) < 0.1);
}

TEST_CASE("large tensors: the counted bytes are the analytic ones" *
          doctest::test_suite("undisturbed")) {
  GpuBackend* gpu = counting_gpu();
  if (gpu == nullptr) return;
  const Measurement result = measure(*gpu, 32 * kMebi);  // 128 MiB each
  for (const PlanMeasurement* plan : {&result.unfused, &result.fused}) {
    for (const KernelMeasurement& kernel : plan->kernels) {
      CAPTURE(plan->key);
      CAPTURE(kernel.name);
      check_exact(kernel.observed, kernel.analytic);
    }
    check_exact(plan->isolated, plan->analytic);
    check_exact(plan->pipeline, plan->analytic);
    CHECK(plan->notes.empty());
  }
}

TEST_CASE("small tensors: the L2 keeps intermediates, and the result says so" *
          doctest::test_suite("undisturbed")) {
  GpuBackend* gpu = counting_gpu();
  if (gpu == nullptr) return;
  const Measurement result = measure(*gpu, kMebi / 2);  // 2 MiB each
  REQUIRE(result.unfused.pipeline.dram);
  CHECK(result.unfused.pipeline.dram->read < result.unfused.analytic.read * 3 / 4);
  bool told = false;
  for (const std::string& note : result.unfused.notes) {
    told |= note.find("the L2 of") != std::string::npos;
  }
  CHECK(told);
}

}  // namespace
}  // namespace fusecalc::cuda
