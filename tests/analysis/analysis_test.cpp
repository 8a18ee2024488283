#include "analysis/analysis.hpp"

#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <vector>

#include "analysis/analyze.hpp"
#include "analysis/boundaries.hpp"
#include "graph/graph_text.hpp"

using namespace fusecalc;
using namespace fusecalc::testing;

namespace {

// 64 f32: x -> e -> y, and e is an output only where it is listed.
constexpr std::string_view kPair = R"({"tensors": {"x": {"shape": [64]}},
  "ops": [{"name": "a", "op": "exp", "inputs": ["x"], "output": "e"},
          {"name": "b", "op": "neg", "inputs": ["e"], "output": "y"}])";

Analysis analysis_of(const std::string& rest) {
  return analyze_graph(graph_of(std::string(kPair) + rest), "pair", known_devices().front(),
                       std::nullopt);
}

}  // namespace

TEST_CASE("a tensor that fusion keeps on chip is saved whole, one that it still writes in part") {
  // e is written and read, 256 bytes each.
  const Analysis gone = analysis_of("}");
  const auto saved = saved_tensors(*gone.graph, gone.graph->plan(PlanKind::kAuto));
  REQUIRE(saved.size() == 1);
  CHECK(gone.graph->graph.tensors[saved[0].tensor].name == "e");
  CHECK(saved[0].bytes == 512);
  CHECK(saved[0].never_in_memory);

  const Analysis kept = analysis_of(R"(, "outputs": ["e", "y"]})");
  const auto part = saved_tensors(*kept.graph, kept.graph->plan(PlanKind::kAuto));
  REQUIRE(part.size() == 1);
  CHECK(part[0].bytes == 256);
  CHECK_FALSE(part[0].never_in_memory);

  CHECK(saved_tensors(*gone.graph, gone.graph->plan(PlanKind::kUnfused)).empty());
}

TEST_CASE("what a plan reads more often is told beside what it saves") {
  // Two kernels read x, 40,000 elements a row, twice: for its sum, and again.
  const Analysis more =
      analyze_graph(graph_of(R"({"dtype": "f32", "tensors": {"x": {"shape": [64, 400000]}},
        "ops": [{"name": "e", "op": "exp", "inputs": ["x"], "output": "y"},
                {"name": "s", "op": "softmax", "inputs": ["y"], "output": "z"}],
        "fuse": [["e", "s"]]})"),
                    "more", known_devices().front(), std::nullopt);
  std::int64_t sum = 0;
  for (const SavedTensor& tensor :
       saved_tensors(*more.graph, more.graph->plan(PlanKind::kExplicit))) {
    const auto bytes = static_cast<std::int64_t>(tensor.bytes);
    sum += tensor.moved_more ? -bytes : bytes;
    CHECK(tensor.moved_more == (more.graph->graph.tensors[tensor.tensor].name == "x"));
  }
  CHECK(sum == more.savings().bytes());
}

TEST_CASE("boundaries are found only for the plans whose boundaries a report shows") {
  Analysis analysis = analysis_of("}");
  const auto known = [&](PlanKind kind) {
    return analysis.graph->plan(kind).boundaries.has_value();
  };
  find_boundaries(analysis, BoundaryScope::kNoPlan);
  CHECK_FALSE(known(PlanKind::kAuto));
  find_boundaries(analysis, BoundaryScope::kHeadline);
  CHECK(known(PlanKind::kAuto));
  CHECK_FALSE(known(PlanKind::kUnfused));
  find_boundaries(analysis, BoundaryScope::kEveryPlan);
  REQUIRE(known(PlanKind::kUnfused));
  const auto of_a = analysis.graph->plan(PlanKind::kUnfused).boundaries->of(0);
  REQUIRE(of_a.size() == 1);
  CHECK(of_a[0].with == 1);
  // Two kernels move x, e, e and y; one moves x and y.
  CHECK(of_a[0].bytes_saved == 512);
  CHECK(analysis.graph->plan(PlanKind::kLimit).boundaries->of(0).empty());
}

TEST_CASE("kernels whose first three ops are alike have names of their own") {
  GraphAnalysis details;
  details.graph = graph_of(R"({"tensors": {"x": {"shape": [64]}}, "ops": [
    {"name": "a", "op": "exp", "inputs": ["x"], "output": "y1"},
    {"name": "b", "op": "exp", "inputs": ["y1"], "output": "y2"},
    {"name": "c", "op": "exp", "inputs": ["y2"], "output": "y3"},
    {"name": "d", "op": "exp", "inputs": ["y3"], "output": "y4"},
    {"name": "e", "op": "exp", "inputs": ["y3"], "output": "y5"},
    {"name": "f", "op": "exp", "inputs": ["y4"], "output": "y6"}]})");
  std::vector<KernelAnalysis> kernels;
  for (const Kernel& ops : std::vector<Kernel>{{0}, {0, 1, 2, 3}, {0, 1, 2, 4}, {5}, {0}}) {
    kernels.emplace_back().ops = ops;
  }
  name_kernels(details.graph, kernels);
  std::vector<std::string> names;
  for (const KernelAnalysis& kernel : kernels) names.push_back(kernel.name);
  CHECK(names == std::vector<std::string>{"a", "a+b+c+1 more (with d)", "a+b+c+1 more (with e)",
                                          "f", "a #2"});
}

TEST_CASE("a graph of views alone has a speedup of 0, one of nothing has none") {
  const auto of = [](const std::string& ops) {
    return analyze_graph(graph_of(R"({"tensors": {"x": {"shape": [4, 8]}}, "ops": [)" + ops + "]}"),
                         "views", known_devices().front(), std::nullopt);
  };
  const Analysis views = of(R"({"op": "reshape", "inputs": ["x"], "output": "y", "shape": [32]})");
  CHECK(views.operations == 0);
  CHECK_FALSE(views.lists_nothing());
  CHECK(of("").lists_nothing());
}
