// Generated kernels run on the host, and their results are compared with the reference: those that
// need neither tensor cores nor the copy engine nor clusters.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "emulation/host_backend.hpp"
#include "graph/op_graph.hpp"
#include "input/op_list.hpp"
#include "json/reader.hpp"
#include "measure/graph_runner.hpp"
#include "planner/plans.hpp"
#include "support/files.hpp"
#include "support/plans.hpp"

namespace fusecalc::testing {
namespace {

// Kernels for the first have asynchronous copies to shared memory, and products only by tensor
// cores; those for the second have neither.
constexpr ComputeCapability kWithCopies{8, 0};
constexpr ComputeCapability kWithout{7, 5};

Measurement measured(HostBackend& gpu, const OpGraph& graph) {
  TrafficCounter counter(graph, gpu.device());
  const auto named = [&](const std::string& key, PlanKind kind) {
    NamedPlan plan{.key = key, .kernels = make_plan(counter, kind).kernels, .names = {}};
    for (const Kernel& kernel : plan.kernels) plan.names.push_back(graph.ops[kernel[0]].name);
    return plan;
  };
  const NamedPlan unfused = named("unfused", PlanKind::kUnfused);
  const NamedPlan fused = named("auto", PlanKind::kAuto);
  return measure_graph(
      gpu, counter, unfused, fused,
      {.counters = false, .isolated = false, .pipeline = false, .runs = 1, .all_ways = false},
      std::nullopt, [](const std::string&) {});
}

// Runs `unfused` and `auto` of an op list. Some schedule of `auto` has the words: what the list is
// there for has run.
void check(const std::string& list, ComputeCapability capability, std::string_view words) {
  CAPTURE(list);
  JsonReader reader(ByteSource::from_memory(
      read_file(std::string(FUSECALC_SOURCE_DIR) + "/tests/" + list + ".json"), list));
  const OpGraph graph = build_graph(std::get<WrittenGraph>(read_op_list(reader)), {});
  HostBackend gpu(capability);
  const Measurement result = measured(gpu, graph);
  for (const PlanMeasurement* plan : {&result.unfused, &result.fused}) {
    CAPTURE(plan->key);
    for (const KernelMeasurement& kernel : plan->kernels) {
      CAPTURE(kernel.name);
      CHECK_MESSAGE(!kernel.schedule.empty(), kernel.observed.reason);
    }
    REQUIRE_MESSAGE(plan->verified, plan->verified_reason);
    CHECK_MESSAGE(plan->verified->ok, plan->verified->worst);
  }
  std::vector<std::string> schedules;
  for (const KernelMeasurement& kernel : result.fused.kernels) schedules.push_back(kernel.schedule);
  CAPTURE(fmt::format("{}", fmt::join(schedules, "; ")));
  CHECK(std::ranges::any_of(schedules, [&](const std::string& schedule) {
    return schedule.find(words) != std::string::npos;
  }));
}

TEST_CASE("on the host: lanes exchange values, threads wait, and memory beyond is left alone") {
  HostBackend gpu(kWithCopies);
  const KernelSource source{.text = R"(extern "C" __global__ void fused(float* p, unsigned count) {
      const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
      const float other = __shfl_xor_sync(0xffffffffu, (float)i, 1);
      __shared__ float last;
      if (threadIdx.x == 63) last = i;
      __syncthreads();
      if (i < count) p[i] = other + 1000 * last;
    })",
                            .entries = {"fused"}};
  const Buffer buffer = gpu.allocate(400);
  gpu.poison(buffer);
  gpu.launch({.kernel = gpu.compile(source).front(),
              .grid = {.x = 2},
              .block = {.x = 64},
              .arguments = {BufferAt{.buffer = buffer}, std::uint32_t{99}}});
  std::vector<float> results(100);
  gpu.download(std::as_writable_bytes(std::span(results)), {.buffer = buffer});
  CHECK(results[0] == 63001);
  CHECK(results[65] == 127064);
  CHECK(results[99] != results[99]);  // beyond the count, what was there
  gpu.release(buffer);
}

TEST_CASE("on the host: norms with their statistics") {
  check("cuda/oplists/norms_statistics", kWithCopies, "held in registers");
}
TEST_CASE("on the host: batch norms that go on from running statistics") {
  check("cuda/oplists/batch_norm_running", kWithCopies, "columns by");
}
TEST_CASE("on the host: norms whose rows are stored in another order") {
  check("cuda/oplists/norms_transposed", kWithCopies, "held in registers");
}
TEST_CASE("on the host: rows computed in the place of what is added") {
  check("cuda/oplists/residuals_in_place", kWithCopies, "held in");
}
TEST_CASE("on the host: held rows that are needed again by way of what is computed late") {
  check("emulation/oplists/late_uses", kWithCopies, "held in shared memory");
  check("emulation/oplists/late_reads", kWithCopies, "held in registers");
}
TEST_CASE("on the host: rows that warps share whose number is no power of two") {
  check("emulation/oplists/rows_even", kWithCopies, "rows by 224 threads, held in registers");
}
TEST_CASE("on the host: gradients of norms") {
  check("cuda/oplists/norm_gradients", kWithCopies, "rows by");
}
TEST_CASE("on the host: rows of odd length") {
  check("cuda/oplists/rows_of_odd_length", kWithCopies, "held in shared memory");
}
TEST_CASE("on the host: columns that no whole groups divide") {
  check("cuda/oplists/columns_of_odd_number", kWithCopies, "8 lines as one");
}
TEST_CASE("on the host: tables whose rows are read several times") {
  check("cuda/oplists/tables_read_often", kWithCopies, "elements per thread");
}
TEST_CASE("on the host: transpositions") {
  check("cuda/oplists/transpositions", kWithCopies, "tiles");
}
TEST_CASE("on the host: scattered elements") {
  check("cuda/oplists/scatter_combined", kWithCopies, "per thread");
}
TEST_CASE("on the host: scans with what makes their elements and what follows") {
  check("cuda/oplists/scans_fused", kWithCopies, "a row by 256 threads");
}
TEST_CASE("on the host: narrow integers that leave their range on chip") {
  check("cuda/oplists/integers_on_chip", kWithCopies, "per thread");
}
TEST_CASE("on the host: padding with elements of its own") {
  check("cuda/oplists/padded_borders", kWithCopies, "per thread");
}
TEST_CASE("on the host: pooling") { check("cuda/oplists/pooling_odd", kWithCopies, "per thread"); }
TEST_CASE("on the host: depthwise convolutions of channels last") {
  check("emulation/oplists/depthwise_last", kWithCopies, "channels last");
}
TEST_CASE("on the host: depthwise convolutions of channels last by bands of weights") {
  check("emulation/oplists/depthwise_bands", kWithCopies, "bands of weights, channels last");
}
TEST_CASE("on the host: depthwise convolutions whose channels are put apart first") {
  check("cuda/oplists/convolutions_turned", kWithCopies, "after packing");
}
TEST_CASE("on the host: convolutions of few channels that lie last") {
  check("cuda/oplists/convolutions_last_few", kWithCopies, "windows of few channels");
}
TEST_CASE("on the host: convolutions") {
  check("emulation/oplists/convolutions_small", kWithout, "windows without tensor cores");
}
TEST_CASE("on the host: products") {
  check("emulation/oplists/products_small", kWithout, "without tensor cores");
}
TEST_CASE("on the host: products of packed weights") {
  check("cuda/oplists/weights_int4_groups", kWithout, "without tensor cores");
}
TEST_CASE("on the host: attention") {
  check("cuda/oplists/attention_f32", kWithout, "without tensor cores");
}
TEST_CASE("on the host: curves and losses of single elements") {
  check("cuda/oplists/pointwise_losses", kWithCopies, "elements per thread");
}
TEST_CASE("on the host: products of tensor cores") {
  check("emulation/oplists/products_small", kWithCopies, "mma");
}
TEST_CASE("on the host: products of one input and several matrices") {
  check("cuda/oplists/matmul_siblings", kWithCopies, "mma");
  check("cuda/oplists/matmul_halves", kWithCopies, "mma");
}
TEST_CASE("on the host: products of groups of rows") {
  check("cuda/oplists/products_of_groups", kWithCopies, "mma");
}
TEST_CASE("on the host: products of scaled operands") {
  check("cuda/oplists/scaled_products", kWithCopies, "mma");
}
TEST_CASE("on the host: products of a short k") {
  check("cuda/oplists/products_of_short_k", kWithCopies, "short k");
}
TEST_CASE("on the host: products of tensor cores of views") {
  check("cuda/oplists/views_products_f32", kWithCopies, "mma");
  check("cuda/oplists/linear_heads_apart", kWithCopies, "mma");
}
TEST_CASE("on the host: products of tensor cores with packed weights") {
  check("cuda/oplists/weights_int4_groups", kWithCopies, "mma");
}
TEST_CASE("on the host: products of tensor cores with scaled weights") {
  check("cuda/oplists/weights_scaled_rows_reduced", kWithCopies, "mma");
}
TEST_CASE("on the host: attention on tensor cores") {
  check("cuda/oplists/attention_heads_of_80", kWithCopies, "mma");
}
TEST_CASE("on the host: attention on tensor cores of padded heads") {
  check("cuda/oplists/attention_heads_of_24", kWithCopies, "mma");
}
TEST_CASE("on the host: attention of few queries") {
  check("cuda/oplists/attention_few_queries", kWithCopies, "mma");
}
TEST_CASE("on the host: attention on tensor cores of 32-bit floats") {
  check("cuda/oplists/attention_heads_f32", kWithCopies, "mma");
  check("cuda/oplists/attention_few_queries_f32", kWithCopies, "mma");
}
TEST_CASE("on the host: attention with dropout") {
  check("cuda/oplists/attention_dropout", kWithCopies, "mma");
}

}  // namespace
}  // namespace fusecalc::testing
