#include "analysis/boundaries.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <vector>

#include "analysis/analyze.hpp"
#include "analysis/reasons.hpp"
#include "graph/graph_text.hpp"

using namespace fusecalc;
using namespace fusecalc::testing;

namespace {

// Every boundary of a plan as "kernel|kernel:tensor".
std::vector<std::string> boundaries_of(std::string_view text, PlanKind kind) {
  Analysis analysis = analyze_graph(graph_of(text), "list", known_devices().front(), kind);
  find_boundaries(analysis, BoundaryScope::kHeadline);
  const GraphAnalysis& graph = *analysis.graph;
  const PlanAnalysis& plan = graph.plan(kind);
  std::vector<std::string> found;
  for (KernelId k = 0; k < plan.kernels.size(); ++k) {
    for (const Boundary& boundary : plan.boundaries->of(k)) {
      found.push_back(fmt::format("{}|{}:{}", kernel_name(graph.graph, plan.kernels[k].ops),
                                  kernel_name(graph.graph, plan.kernels[boundary.with].ops),
                                  graph.graph.tensors[boundary.tensor].name));
      CHECK(reason_of(graph, boundary) != "");
    }
  }
  return found;
}

}  // namespace

TEST_CASE("two kernels that read what a third one writes have a boundary") {
  CHECK(boundaries_of(R"({"tensors": {"x": {"shape": [8, 8]}, "w": {"shape": [8, 8]}},
    "ops": [{"name": "a", "op": "exp", "inputs": ["x"], "output": "e"},
            {"name": "b", "op": "matmul", "inputs": ["e", "w"], "output": "p"},
            {"name": "c", "op": "softmax", "inputs": ["e"], "output": "s"}]})",
                      PlanKind::kUnfused) == std::vector<std::string>{"a|b:e", "a|c:e", "b|c:e"});
}

TEST_CASE("kernels that share an input are linked in the order in which they first read it") {
  // The second reader's place is between the ops of the first.
  CHECK(boundaries_of(R"({"tensors": {"x": {"shape": [8]}, "z": {"shape": [8]}},
    "ops": [{"name": "a", "op": "exp", "inputs": ["x"], "output": "p"},
            {"name": "b", "op": "neg", "inputs": ["x"], "output": "q"},
            {"name": "c", "op": "add", "inputs": ["p", "z"], "output": "r"},
            {"name": "d", "op": "abs", "inputs": ["x"], "output": "s"},
            {"name": "e", "op": "mul", "inputs": ["r", "x"], "output": "t"}],
    "fuse": [["a", "c", "e"]]})",
                      PlanKind::kExplicit) == std::vector<std::string>{"a+c+e|b:x", "b|d:x"});
}
