#include "measure/graph_runner.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>

#include "analysis/analyze.hpp"
#include "backend/fake_backend.hpp"
#include "core/error.hpp"
#include "graph/graph_text.hpp"
#include "planner/plans.hpp"

namespace fusecalc {
namespace {

using testing::graph_of;

// Its kernels write nothing, so every result is 0.
Measurement measured(FakeBackend& gpu, const OpGraph& graph, const MeasureOptions& options) {
  TrafficCounter counter(graph, known_devices().front());
  NamedPlan unfused{.key = "unfused", .kernels = unfused_plan(graph).kernels, .names = {}};
  for (const Kernel& kernel : unfused.kernels) unfused.names.push_back(graph.ops[kernel[0]].name);
  NamedPlan fused{.key = "auto", .kernels = {{}}, .names = {"all"}};
  for (OpId id = 0; id < graph.ops.size(); ++id) fused.kernels[0].push_back(id);
  return measure_graph(gpu, counter, unfused, fused, options, std::nullopt,
                       [](const std::string&) {});
}

const char* const kChain = R"({"format": "fusecalc.ops/1", "dtype": "f32",
    "tensors": {"x": {"shape": [1024]}},
    "ops": [{"name": "a", "op": "add", "inputs": ["x", 3], "output": "s"},
            {"name": "b", "op": "square", "inputs": ["s"], "output": "y"}]})";

TEST_CASE("a kernel that writes wrong numbers is detected in both plans") {
  FakeBackend gpu;
  const OpGraph graph = graph_of(kChain);
  const Measurement result = measured(gpu, graph, {.runs = 10});
  // (x + 3)^2 is at least 4, and the device says 0.
  REQUIRE(result.unfused.verified);
  CHECK(!result.unfused.verified->ok);
  REQUIRE(result.fused.verified);
  CHECK(!result.fused.verified->ok);
  CHECK(result.fused.verified->worst.find("y[") != std::string::npos);
  CHECK(gpu.live_buffers == 0);
}

TEST_CASE("a result that is right passes") {
  FakeBackend gpu;
  const OpGraph graph = graph_of(R"({"format": "fusecalc.ops/1", "dtype": "f32",
      "tensors": {"x": {"shape": [64]}},
      "ops": [{"name": "a", "op": "mul", "inputs": ["x", 0], "output": "z"},
              {"name": "b", "op": "abs", "inputs": ["z"], "output": "y"}]})");
  const Measurement result = measured(gpu, graph, {.runs = 10});
  REQUIRE(result.fused.verified);
  CHECK(result.fused.verified->ok);
}

TEST_CASE("an input that only an unused result needs has no memory, and the rest is verified") {
  FakeBackend gpu;
  const OpGraph graph = graph_of(R"({"format": "fusecalc.ops/1", "dtype": "f32",
      "tensors": {"x": {"shape": [64]}, "z": {"shape": [64]}},
      "ops": [{"name": "a", "op": "mul", "inputs": ["x", 0], "output": "y"},
              {"name": "unused", "op": "add", "inputs": ["y", "z"], "output": "w"}],
      "outputs": ["y"]})");
  const Measurement result = measured(gpu, graph, {.runs = 10});
  CHECK(result.unfused.kernels[1].schedule.empty());
  REQUIRE(result.fused.verified);
  CHECK(result.fused.verified->ok);
}

TEST_CASE("both plans are counted and timed, kernel by kernel and back to back") {
  FakeBackend gpu;
  gpu.counted = [](const FakeBackend::Launches& launches) {
    return Bytes{.read = 4096 * launches.size(), .write = 4096 * launches.size()};
  };
  const Measurement result = measured(gpu, graph_of(kChain), {.runs = 10});
  CHECK(result.unfused.analytic.total() == 4 * 4096);
  CHECK(result.unfused.isolated.dram->total() == 4 * 4096);
  CHECK(result.unfused.pipeline.dram->total() == 4 * 4096);
  CHECK(result.fused.analytic.total() == 2 * 4096);
  CHECK(result.fused.isolated.dram->total() == 2 * 4096);
  CHECK(!result.synthetic);
}

TEST_CASE("a plan with an op in two kernels is run and verified in terms of its own graph") {
  FakeBackend gpu;
  const Analysis analysis = analyze_graph(graph_of(R"({"tensors": {"x": {"shape": [64, 64]}},
          "ops": [{"name": "a", "op": "mul", "inputs": ["x", 0], "output": "z"},
                  {"name": "rows", "op": "sum", "inputs": ["z"], "output": "r", "axis": 1},
                  {"name": "columns", "op": "sum", "inputs": ["z"], "output": "c", "axis": 0}],
          "fuse": [["a", "rows"], ["a", "columns"]]})"),
                                          "t", known_devices().front(), std::nullopt);
  const GraphAnalysis& details = *analysis.graph;
  TrafficCounter counter(details.graph, details.device);
  const Measurement result =
      measure_graph(gpu, counter, named_plan(details.plan(PlanKind::kUnfused)),
                    named_plan(details.plan(PlanKind::kExplicit)), {.runs = 10}, std::nullopt,
                    [](const std::string&) {});
  REQUIRE(result.fused.kernels.size() == 2);
  CHECK(result.fused.kernels[0].name == "a+rows");
  CHECK(result.fused.kernels[1].name == "a+columns");
  CHECK(result.fused.analytic.total() == 2 * (64 * 64 + 64) * 4);
  // The fake device's results are 0, and so are the right ones.
  REQUIRE(result.fused.verified);
  CHECK(result.fused.verified->ok);
}

TEST_CASE("a source shared by two kernels counts once in the compile time") {
  FakeBackend gpu;
  gpu.compile_seconds = 1;
  gpu.timed = [](const FakeBackend::Launches& launches) {
    return TimedRun{.seconds = 1e-3 * static_cast<double>(launches.size())};
  };
  const OpGraph graph = graph_of(R"({"format": "fusecalc.ops/1", "dtype": "f32",
      "tensors": {"x": {"shape": [1024]}, "u": {"shape": [1024]}},
      "ops": [{"op": "add", "inputs": ["x", 3], "output": "s"},
              {"op": "square", "inputs": ["s"], "output": "y"},
              {"op": "add", "inputs": ["u", 3], "output": "t"},
              {"op": "square", "inputs": ["t"], "output": "z"}]})");
  TrafficCounter counter(graph, known_devices().front());
  const NamedPlan unfused{
      .key = "unfused", .kernels = {{0}, {1}, {2}, {3}}, .names = {"a", "b", "c", "d"}};
  const NamedPlan fused{.key = "auto", .kernels = {{0, 1}, {2, 3}}, .names = {"first", "second"}};
  const Measurement result = measure_graph(gpu, counter, unfused, fused, {.runs = 10}, std::nullopt,
                                           [](const std::string&) {});
  // 4 ms against 2 ms: a second of compiling is 500 gains of 2 ms.
  CHECK(result.payback_runs().value() == doctest::Approx(500));
}

TEST_CASE("a profiler is told of one run of the fused plan") {
  FakeBackend gpu;
  measured(gpu, graph_of(R"({"format": "fusecalc.ops/1", "dtype": "f32",
      "tensors": {"x": {"shape": [1024]}},
      "ops": [{"op": "relu", "inputs": ["x"], "output": "y"}]})"),
           {.runs = 10});
  const auto begins = std::ranges::find(gpu.log, "profile begins");
  REQUIRE(begins != gpu.log.end());
  CHECK(std::ranges::find(begins, gpu.log.end(), "profile ends") != gpu.log.end());
  CHECK(std::ranges::count(gpu.log, "profile begins") == 1);
}

TEST_CASE("blocks that share a row begin with a workspace of zeros") {
  FakeBackend gpu;
  measured(gpu, graph_of(R"({"format": "fusecalc.ops/1", "dtype": "f32",
      "tensors": {"x": {"shape": [1, 4194304]}},
      "ops": [{"op": "sum", "inputs": ["x"], "output": "y", "axes": [-1]}]})"),
           {.runs = 10});
  const auto zeroed = [](const std::string& entry) { return entry.starts_with("zero "); };
  CHECK(std::ranges::any_of(gpu.log, zeroed));
}

TEST_CASE("a kernel without code is skipped with its reason, and the others are measured") {
  FakeBackend gpu;
  const OpGraph graph = graph_of(R"({"format": "fusecalc.ops/1", "dtype": "f32",
      "tensors": {"x": {"shape": [1, 4, 8, 8]}, "w": {"shape": [4, 4, 3, 3]}},
      "ops": [{"name": "conv", "op": "conv_transpose2d", "inputs": ["x", "w"], "output": "c"},
              {"name": "act", "op": "relu", "inputs": ["c"], "output": "y"}]})");
  const Measurement result = measured(gpu, graph, {.runs = 10});
  const std::vector<KernelMeasurement>& kernels = result.unfused.kernels;
  CHECK(!kernels[0].observed.time);
  CHECK(kernels[0].observed.reason.find("\"conv\" (conv_transpose2d)") != std::string::npos);
  CHECK(kernels[1].observed.time);
  CHECK(!result.unfused.isolated.time);
  CHECK(result.unfused.isolated.reason.find("no code for 1 of its 2 kernels") != std::string::npos);
  CHECK(!result.measured_speedup());
}

TEST_CASE("an explicit group that analyze cannot launch is not measured, for the same reason") {
  // The mean of the rows and the largest of the columns: no block has both.
  const char* const list = R"({"format": "fusecalc.ops/1", "dtype": "f32",
      "tensors": {"x": {"shape": [64, 32]}},
      "ops": [{"name": "rows", "op": "mean", "inputs": ["x"], "output": "r", "axes": [1]},
              {"name": "columns", "op": "max", "inputs": ["x"], "output": "c", "axes": [0]},
              {"name": "act", "op": "relu", "inputs": ["x"], "output": "y"}],
      "fuse": [["rows", "columns"]]})";
  const OpGraph graph = graph_of(list);
  FakeBackend gpu;
  TrafficCounter counter(graph, known_devices().front());
  const std::string reason =
      "mean and max work on different rows, so no block holds the data that "
      "both need";
  const Analysis analysis =
      analyze_graph(graph_of(list), "", counter.device(), PlanKind::kExplicit);
  const PlanAnalysis& plan = analysis.graph->plan(PlanKind::kExplicit);
  CHECK(explain(graph, plan.kernels.at(0).launch) == reason);
  const NamedPlan unfused{.key = "unfused",
                          .kernels = unfused_plan(graph).kernels,
                          .names = {"rows", "columns", "act"}};
  const NamedPlan fused{
      .key = "explicit", .kernels = explicit_plan(graph).kernels, .names = {"rows+columns", "act"}};
  const Measurement result = measure_graph(gpu, counter, unfused, fused, {.runs = 10}, std::nullopt,
                                           [](const std::string&) {});
  REQUIRE(result.fused.kernels.size() == 2);
  CHECK(!result.fused.kernels[0].observed.time);
  CHECK(result.fused.kernels[0].observed.reason ==
        "not measured: \"rows\" (mean) cannot be generated: " + reason);
  CHECK(result.fused.kernels[1].observed.time);
  CHECK(result.fused.isolated.reason.find("no code for 1 of its 2 kernels") != std::string::npos);
  CHECK(result.unfused.isolated.time);
}

const char* const kLinearRelu = R"({"format": "fusecalc.ops/1", "dtype": "bf16",
    "tensors": {"x": {"shape": [64, 64]}, "w": {"shape": [64, 64]}, "b": {"shape": [64]}},
    "ops": [{"name": "up", "op": "linear", "inputs": ["x", "w", "b"], "output": "h"},
            {"name": "act", "op": "relu", "inputs": ["h"], "output": "y"}]})";

// A device on which the library's products take so long, and everything else a millisecond. The
// fake prepares products before it compiles: lone and fused product have ids of their own.
void library_takes(FakeBackend& gpu, double seconds) {
  gpu.timed = [seconds](const FakeBackend::Launches& launches) {
    // A launch of ours has arguments.
    const bool library = launches.size() == 1 && launches[0].arguments.empty();
    return TimedRun{.seconds = library ? seconds : 1e-3, .sm_clock_hz = 2e9};
  };
}

TEST_CASE(
    "a fused product runs in the library if that is faster, and in a generated kernel otherwise") {
  FakeBackend gpu;
  library_takes(gpu, 0.8e-3);
  Measurement result = measured(gpu, graph_of(kLinearRelu), {.runs = 10});
  CHECK(result.fused.kernels[0].schedule == "cuBLASLt with its bias and relu epilogue");
  CHECK(result.fused.kernels[0].choice == "25 % faster than the generated kernel");
  CHECK(result.fused.isolated.time->median == doctest::Approx(0.8e-3));
  REQUIRE(gpu.products.size() == 2);
  CHECK(gpu.products[1].epilogue == MatmulEpilogue::kReluBias);

  FakeBackend slow;
  library_takes(slow, 1.5e-3);
  result = measured(slow, graph_of(kLinearRelu), {.runs = 10});
  CHECK(result.fused.kernels[0].schedule.starts_with("wgmma, tiles of "));
  CHECK(result.fused.kernels[0].choice == "50 % faster than cuBLASLt");
  CHECK(result.fused.isolated.time->median == doctest::Approx(1e-3));
  // Alone, the product is the library's however long it takes, and nothing is compiled for it.
  CHECK(result.unfused.kernels[0].schedule == "cuBLASLt with its bias epilogue");
  CHECK(result.unfused.kernels[0].choice == "");
  CHECK(slow.sources.size() == 2);  // relu alone, and the fused kernel
}

TEST_CASE("a product alone whose lines are odd runs where it is faster, in both plans") {
  const OpGraph graph = graph_of(R"({"format": "fusecalc.ops/1", "dtype": "bf16",
      "tensors": {"x": {"shape": [256, 128]}, "w": {"shape": [255, 128]}},
      "ops": [{"op": "linear", "inputs": ["x", "w"], "output": "y"}]})");
  FakeBackend fast;
  library_takes(fast, 0.8e-3);
  Measurement result = measured(fast, graph, {.runs = 10});
  CHECK(result.unfused.kernels[0].schedule == "cuBLASLt");
  FakeBackend slow;
  library_takes(slow, 5e-3);
  result = measured(slow, graph, {.runs = 10});
  for (const PlanMeasurement* plan : {&result.unfused, &result.fused}) {
    CHECK(plan->kernels[0].schedule.starts_with("wgmma, tiles of "));
    CHECK(plan->isolated.time->median == doctest::Approx(1e-3));
  }
}

TEST_CASE("of the algorithms that the library proposes the fastest runs") {
  FakeBackend gpu;
  gpu.library_algorithms = {{.kernel = "wide"}, {.kernel = "narrow"}, {.kernel = "split"}};
  gpu.timed = [](const FakeBackend::Launches& launches) {
    // A product's algorithms have ids of their own, one after the other; the second is fastest.
    constexpr std::array kSeconds = {1e-3, 0.5e-3, 2e-3};
    const bool library = launches.size() == 1 && launches[0].arguments.empty();
    return TimedRun{.seconds = library ? kSeconds.at(launches[0].kernel.id % 3) : 3e-3,
                    .sm_clock_hz = 2e9};
  };
  const Measurement result = measured(gpu, graph_of(kLinearRelu), {.runs = 10});
  const KernelMeasurement& lone = result.unfused.kernels[0];
  CHECK(lone.schedule == "cuBLASLt with its bias epilogue, narrow");
  CHECK(lone.choice == "2.0 times as fast as cuBLASLt's next algorithm");
  CHECK(result.fused.kernels[0].schedule == "cuBLASLt with its bias and relu epilogue, narrow");
  CHECK(result.fused.kernels[0].choice == "2.0 times as fast as cuBLASLt's next algorithm");
}

TEST_CASE("equal products of the same rows run as one call where it is faster") {
  FakeBackend gpu;
  gpu.library_algorithms = {{.kernel = "batched"}};
  const OpGraph graph = graph_of(R"({"format": "fusecalc.ops/1", "dtype": "bf16",
      "tensors": {"x": {"shape": [256, 128]}, "g": {"shape": [128, 128]},
                  "u": {"shape": [128, 128]}},
      "ops": [{"op": "linear", "inputs": ["x", "g"], "output": "k"},
              {"op": "linear", "inputs": ["x", "u"], "output": "v"}]})");
  library_takes(gpu, 0.5e-3);
  const Measurement result = measured(gpu, graph, {.runs = 10});
  REQUIRE(result.fused.kernels.size() == 1);
  CHECK(result.fused.kernels[0].schedule == "cuBLASLt, 2 products as a batch, batched");
  REQUIRE(gpu.operands.size() == 3);
  const MatmulOperands& call = gpu.operands[2];
  REQUIRE(call.siblings.size() == 1);
  CHECK(call.siblings[0].a.buffer.id == call.a.buffer.id);
  CHECK(call.siblings[0].b.buffer.id == gpu.operands[1].b.buffer.id);
  CHECK(call.siblings[0].result.buffer.id == gpu.operands[1].result.buffer.id);
}

TEST_CASE("without the library an unfused product is generated, with the reason") {
  FakeBackend gpu;
  gpu.has_library = false;
  const Measurement result = measured(gpu, graph_of(kLinearRelu), {.runs = 10});
  const KernelMeasurement& lone = result.unfused.kernels[0];
  CHECK(lone.schedule.starts_with("wgmma, tiles of "));
  CHECK(lone.choice.starts_with("generated, because cuBLASLt"));
  CHECK(lone.choice.find("libcublasLt.so.13: no such file") != std::string::npos);
  CHECK(lone.choice.find("LD_LIBRARY_PATH") != std::string::npos);
  CHECK(lone.observed.time);
  CHECK(result.fused.kernels[0].choice == "");
  CHECK(gpu.sources.size() == 3);
}

TEST_CASE("a kernel's resources are not those of the packing of its operand") {
  // Heads that lie apart are no columns with one stride.
  const OpGraph graph = graph_of(R"({"format": "fusecalc.ops/1", "dtype": "bf16",
      "tensors": {"x": {"shape": [2, 4, 64, 32]}, "w": {"shape": [256, 128]}},
      "ops": [{"op": "permute_view", "inputs": ["x"], "output": "p", "perm": [0, 2, 1, 3]},
              {"op": "reshape", "inputs": ["p"], "output": "r", "shape": [128, 128]},
              {"op": "linear", "inputs": ["r", "w"], "output": "y"}]})");
  FakeBackend gpu;
  const KernelMeasurement lone = measured(gpu, graph, {.runs = 10}).unfused.kernels.back();
  CHECK(lone.schedule == "cuBLASLt, after packing an operand");
  CHECK(lone.resources.registers == 0);  // the library keeps its own to itself
  FakeBackend without;
  without.has_library = false;
  const KernelMeasurement ours = measured(without, graph, {.runs = 10}).unfused.kernels.back();
  CHECK(ours.schedule.ends_with(", after packing an operand"));
  CHECK(ours.resources.registers == 32);
}

TEST_CASE("whole rows of a product come in two tilings, of which the faster runs") {
  FakeBackend gpu;
  gpu.timed = [](const FakeBackend::Launches& launches) {
    // 40 pieces of 128 rows, for clusters of 2 or 3 blocks.
    const bool of_three = launches.size() == 1 && launches[0].grid.x == 120;
    return TimedRun{.seconds = of_three ? 1e-3 : 2e-3, .sm_clock_hz = 2e9};
  };
  const OpGraph graph = graph_of(R"({"format": "fusecalc.ops/1", "dtype": "bf16",
      "tensors": {"x": {"shape": [5120, 64]}, "w": {"shape": [384, 64]}},
      "ops": [{"op": "linear", "inputs": ["x", "w"], "output": "h"},
              {"op": "softmax", "inputs": ["h"], "output": "y"}]})");
  const Measurement result = measured(gpu, graph, {.runs = 10});
  CHECK(result.fused.kernels[0].schedule == "wgmma, rows of 128 x 128 in clusters of 3");
  CHECK(result.fused.kernels[0].choice ==
        "2.0 times as fast as wgmma, rows of 128 x 192 in clusters of 2");
}

TEST_CASE("a persistent grid of clusters is no larger than what is resident at once") {
  FakeBackend gpu;
  std::set<unsigned> grids;
  gpu.timed = [&](const FakeBackend::Launches& launches) {
    if (launches.size() == 1) grids.insert(launches[0].grid.x);
    return TimedRun{.seconds = 1e-3, .sm_clock_hz = 2e9};
  };
  // 200 pieces of 128 rows of 768 columns: clusters of 4, of which 132 / 4 run at once.
  measured(gpu, graph_of(R"({"format": "fusecalc.ops/1", "dtype": "bf16",
      "tensors": {"x": {"shape": [25600, 64]}, "w": {"shape": [768, 64]}},
      "ops": [{"op": "linear", "inputs": ["x", "w"], "output": "h"},
              {"op": "softmax", "inputs": ["h"], "output": "y"}]})"),
           {.runs = 10});
  CHECK(grids.contains(132));
  CHECK(!grids.contains(800));
}

TEST_CASE("tensors that do not fit are refused with what they need") {
  FakeBackend gpu;
  gpu.memory_left = (std::uint64_t{256} << 20U) + 12000;  // the reserve, and less than 4 tensors
  try {
    measured(gpu, graph_of(kChain), {.runs = 10});
    FAIL("measured");
  } catch (const Error& error) {
    CHECK(error.fault() == Fault::kBadInput);
    // x, s, y and a second y.
    CHECK(std::string(error.what()).find("need 16.38 kB") != std::string::npos);
  }
  CHECK(gpu.live_buffers == 0);
}

}  // namespace
}  // namespace fusecalc
