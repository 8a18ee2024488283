// Graphs so large that several threads analyse them.

#include "core/threads.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <thread>
#include <vector>

#include "analysis/analyze.hpp"
#include "analysis/boundaries.hpp"
#include "graph/graph_text.hpp"
#include "report/writers.hpp"
#include "support/plans.hpp"

using namespace fusecalc;
using namespace fusecalc::testing;

namespace {

// Layers of four ops, each on the result of the one before and on the first one's input.
std::string residual_layers(std::size_t count) {
  std::vector<std::string> ops;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string input = i == 0 ? "x" : fmt::format("y{}", i - 1);
    ops.push_back(fmt::format(
        R"({{"op": "rms_norm", "inputs": ["{1}", "g"], "output": "n{0}"}},
           {{"op": "linear", "inputs": ["n{0}", "w"], "output": "l{0}"}},
           {{"op": "gelu", "inputs": ["l{0}"], "output": "a{0}"}},
           {{"op": "add", "inputs": ["a{0}", "x"], "output": "y{0}"}})",
        i, input));
  }
  return fmt::format(
      R"({{"tensors": {{"x": {{"shape": [4096, 256]}}, "g": {{"shape": [256]}},
          "w": {{"shape": [256, 256]}}}}, "ops": [{}]}})",
      fmt::join(ops, ",\n"));
}

}  // namespace

TEST_CASE("several threads make the plans that one makes, and find every boundary") {
  constexpr std::size_t kLayers = 600;
  const Device& device = known_devices().front();
  Analysis analysis =
      analyze_graph(graph_of(residual_layers(kLayers)), "layers", device, std::nullopt);
  const GraphAnalysis& details = *analysis.graph;
  REQUIRE(threads_for(details.graph.ops.size()) == std::thread::hardware_concurrency());
  TrafficCounter counter(details.graph, device);
  for (const PlanKind kind : {PlanKind::kCompiler, PlanKind::kAuto, PlanKind::kFastest}) {
    CHECK(details.plan(kind).planned_kernels() == make_plan(counter, kind).kernels);
  }
  find_boundaries(analysis, BoundaryScope::kEveryPlan);
  for (const PlanKind kind : {PlanKind::kUnfused, PlanKind::kCompiler, PlanKind::kAuto}) {
    const PlanAnalysis& plan = details.plan(kind);
    REQUIRE(plan.boundaries);
    REQUIRE(plan.boundaries->first.size() == plan.kernels.size() + 1);
    CHECK(plan.boundaries->first.back() == plan.boundaries->all.size());
    // All layers but the last few are alike, and so are the boundaries of their kernels.
    const auto kernels = static_cast<KernelId>(plan.kernels.size());
    const auto in_layer = static_cast<KernelId>(kernels / kLayers);
    REQUIRE(in_layer > 0);
    for (KernelId k = 8; k + 8 < kernels; ++k) {
      CHECK(plan.boundaries->of(k).size() == plan.boundaries->of(8 + (k - 8) % in_layer).size());
      CHECK_FALSE(plan.boundaries->of(k).empty());
    }
  }
}

TEST_CASE("several threads write the kernels of a plan in their order, each once") {
  Analysis analysis = analyze_graph(graph_of(residual_layers(600)), "layers",
                                    known_devices().front(), std::nullopt);
  find_boundaries(analysis, BoundaryScope::kEveryPlan);
  Output output = Output::memory();
  write_json(analysis, Style{}, output);
  const std::string text = output.take();
  // Kernels of one op are named after it.
  const PlanAnalysis& unfused = analysis.graph->plan(PlanKind::kUnfused);
  REQUIRE(unfused.kernels.size() == 2400);
  std::size_t place = text.find("\"unfused\": {");
  for (std::size_t k = 0; k < unfused.kernels.size() && place != std::string::npos; ++k) {
    const std::string before = k == 0 ? "[\n" : "},\n";
    place = text.find(
        fmt::format("{}        {{\n          \"name\": \"{}\",\n", before, unfused.kernels[k].name),
        place);
    CHECK(place != std::string::npos);
  }
  std::size_t kernels = 0;
  for (const PlanAnalysis& plan : analysis.graph->plans) kernels += plan.kernels.size();
  std::size_t written = 0;
  for (std::size_t at = text.find("\"boundary\": ["); at != std::string::npos;
       at = text.find("\"boundary\": [", at + 1)) {
    ++written;
  }
  CHECK(written == kernels);
}
