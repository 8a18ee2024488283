#include "analysis/boundaries.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <vector>

#include "analysis/analyze.hpp"
#include "analysis/reasons.hpp"
#include "graph/graph_text.hpp"
#include "support/sanitizers.hpp"

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

// The reasons of a plan's boundaries, each as "kernel|kernel: reason".
std::vector<std::string> reasons_of(std::string_view text, PlanKind kind = PlanKind::kAuto) {
  Analysis analysis = analyze_graph(graph_of(text), "list", known_devices().front(), kind);
  find_boundaries(analysis, BoundaryScope::kHeadline);
  const PlanAnalysis& plan = analysis.graph->plan(kind);
  std::vector<std::string> found;
  for (KernelId k = 0; k < plan.kernels.size(); ++k) {
    for (const Boundary& boundary : plan.boundaries->of(k)) {
      found.push_back(fmt::format("{}|{}: {}", plan.kernels[k].name,
                                  plan.kernels[boundary.with].name,
                                  full_reason_of(*analysis.graph, boundary)));
    }
  }
  return found;
}

using Reasons = std::vector<std::string>;

// Two kernels of `first` and `second` sums with one number, each of a tensor of its own: together
// they read and write 2 (first + second) + 1 tensors. What prevents fusing them; `last` is the op
// that the second one ends with.
Obstacle obstacle_between(int first, int second, std::string_view last = "exp") {
  std::string tensors = R"("s": {"shape": [8, 8]})";
  std::string ops;
  std::string groups[2];
  for (int i = 0; i < first + second; ++i) {
    tensors += fmt::format(R"(, "x{}": {{"shape": [8, 8]}})", i);
    ops += fmt::format(
        R"({{"name": "a{0}", "op": "add", "inputs": ["x{0}", "s"], "output": "y{0}"}}, )", i);
    std::string& group = groups[i < first ? 0 : 1];
    group += fmt::format(R"({}"a{}")", group.empty() ? "" : ", ", i);
  }
  const std::string text = fmt::format(
      R"({{"tensors": {{{}, "e": {{"shape": [8, 8]}}}},
           "ops": [{}{{"name": "last", "op": "{}", "inputs": ["s"], "output": "e"}}],
           "fuse": [[{}], [{}, "last"]]}})",
      tensors, ops, last, groups[0], groups[1]);
  Analysis analysis = analyze_graph(graph_of(text), "list", known_devices().front(), std::nullopt);
  find_boundaries(analysis, BoundaryScope::kHeadline);
  const auto boundaries = analysis.graph->plan(PlanKind::kExplicit).boundaries->of(0);
  REQUIRE(boundaries.size() == 1);
  return boundaries[0].verdict.obstacle;
}

}  // namespace

TEST_CASE("a boundary says so where two kernels have more tensors than one may") {
  // With e, 2 * 47 + 2 = 96 is the most.
  CHECK(obstacle_between(23, 24) == Obstacle::kNothing);
  CHECK(obstacle_between(23, 25) == Obstacle::kTooManyTensors);
  if (kSanitized) return;  // plans of so many ops take a minute
  CHECK(obstacle_between(24, 25) == Obstacle::kTooManyTensors);
  CHECK(obstacle_between(47, 47) == Obstacle::kTooManyTensors);
  // One op alone is reason enough.
  CHECK(obstacle_between(40, 40, "custom") == Obstacle::kCustom);
}

TEST_CASE("two kernels that read what a third one writes have a boundary") {
  CHECK(boundaries_of(R"({"tensors": {"x": {"shape": [8, 8]}, "w": {"shape": [8, 8]}},
    "ops": [{"name": "a", "op": "exp", "inputs": ["x"], "output": "e"},
            {"name": "b", "op": "matmul", "inputs": ["e", "w"], "output": "p"},
            {"name": "c", "op": "softmax", "inputs": ["e"], "output": "s"}]})",
                      PlanKind::kUnfused) == std::vector<std::string>{"a|b:e", "a|c:e", "b|c:e"});
}

TEST_CASE("kernels that share an input are linked in the order in which they run") {
  // The second reader's place is between the ops of the first.
  CHECK(boundaries_of(R"({"tensors": {"x": {"shape": [8]}, "z": {"shape": [8]}},
    "ops": [{"name": "a", "op": "exp", "inputs": ["x"], "output": "p"},
            {"name": "b", "op": "neg", "inputs": ["x"], "output": "q"},
            {"name": "c", "op": "add", "inputs": ["p", "z"], "output": "r"},
            {"name": "d", "op": "abs", "inputs": ["x"], "output": "s"},
            {"name": "e", "op": "mul", "inputs": ["r", "x"], "output": "t"}],
    "fuse": [["a", "c", "e"]]})",
                      PlanKind::kExplicit) ==
        std::vector<std::string>{"a+c+e|b:x", "a+c+e|d:x", "b|d:x"});
  // The first kernel begins with another op.
  CHECK(boundaries_of(R"({"tensors": {"x": {"shape": [8]}, "z": {"shape": [8]}},
    "ops": [{"name": "a", "op": "exp", "inputs": ["z"], "output": "p"},
            {"name": "b", "op": "neg", "inputs": ["x"], "output": "q"},
            {"name": "c", "op": "add", "inputs": ["p", "x"], "output": "r"}],
    "fuse": [["a", "c"]]})",
                      PlanKind::kExplicit) == std::vector<std::string>{"a+c|b:x"});
}

TEST_CASE("a kernel that writes a tensor and uses it has one boundary with another reader") {
  CHECK(boundaries_of(R"({"tensors": {"x": {"shape": [8]}},
    "ops": [{"name": "a", "op": "exp", "inputs": ["x"], "output": "p"},
            {"name": "b", "op": "neg", "inputs": ["p"], "output": "q"},
            {"name": "c", "op": "abs", "inputs": ["p"], "output": "r"}],
    "fuse": [["a", "c"]]})",
                      PlanKind::kExplicit) == std::vector<std::string>{"a+c|b:p"});
}

TEST_CASE("of a few kernels every pair has a boundary, however many ops read what they share") {
  std::string ops;
  for (int i = 0; i < 12; ++i) {
    ops += fmt::format(R"({}{{"name": "{}{}", "op": "mul", "inputs": ["x", {}], "output": "y{}"}})",
                       i == 0 ? "" : ", ", "abc"[i / 4], i % 4, i, i);
  }
  CHECK(boundaries_of(fmt::format(R"({{"tensors": {{"x": {{"shape": [8]}}}}, "ops": [{}],
    "fuse": [["a0", "a1", "a2", "a3"], ["b0", "b1", "b2", "b3"], ["c0", "c1", "c2", "c3"]]}})",
                                  ops),
                      PlanKind::kExplicit) ==
        std::vector<std::string>{"a0+a1+a2+1 more|b0+b1+b2+1 more:x",
                                 "a0+a1+a2+1 more|c0+c1+c2+1 more:x",
                                 "b0+b1+b2+1 more|c0+c1+c2+1 more:x"});
}

TEST_CASE("kernels that only read the same weight are told so") {
  // An embedding and a head with tied weights, on other indices.
  const Reasons reasons = reasons_of(R"({"tensors": {"i": {"shape": [64], "dtype": "i64"},
      "w": {"shape": [512, 32]}, "m": {"shape": [64, 32]}},
    "ops": [{"name": "embed", "op": "embedding", "inputs": ["i", "w"], "output": "e"},
            {"name": "head", "op": "linear", "inputs": ["m", "w"], "output": "y"}]})");
  CHECK(reasons == Reasons{"embed|head: embedding and linear: embedding does not use the result of "
                           "linear; the other ops of a contraction's kernel work on its result"});
}

TEST_CASE("a kernel between two others is the reason, whatever else there is") {
  const Reasons reasons = reasons_of(R"({"tensors": {"i": {"shape": [64], "dtype": "i64"},
      "w": {"shape": [512, 32]}, "u": {"shape": [32, 32]}},
    "ops": [{"name": "embed", "op": "embedding", "inputs": ["i", "w"], "output": "e"},
            {"name": "mix", "op": "linear", "inputs": ["e", "u"], "output": "m"},
            {"name": "head", "op": "linear", "inputs": ["m", "w"], "output": "y"}]})");
  REQUIRE(reasons.size() == 3);
  CHECK(reasons[0] ==
        "embed|mix: embedding -> linear: linear can compute an operand as it loads it only if both "
        "are bf16 or both f16, the first is not transposed and the result has several columns");
  CHECK(
      reasons[1] ==
      "embed|head: embedding and linear: another kernel must run between them: it uses the result "
      "of one, and the other uses its result");
  CHECK(reasons[2].starts_with("mix|head: linear -> linear: the second contraction needs whole"));
}

TEST_CASE("what feeds nothing of a contraction's kernel is a bystander, whatever it does") {
  for (const std::string_view op :
       {R"("op": "transpose", "inputs": ["x"])", R"("op": "relu", "inputs": ["x"])",
        R"("op": "softmax", "inputs": ["x"])",
        R"("op": "slice", "inputs": ["x"], "starts": [1])"}) {
    CAPTURE(op);
    const Reasons reasons = reasons_of(
        fmt::format(R"({{"tensors": {{"x": {{"shape": [64, 32]}}, "w": {{"shape": [16, 32]}}}},
        "ops": [{{"name": "a", "op": "linear", "inputs": ["x", "w"], "output": "y"}},
                {{"name": "b", {}, "output": "z"}}]}})",
                    op));
    REQUIRE(reasons.size() == 1);
    CHECK(reasons[0].find("does not use the result of linear; the other ops") != std::string::npos);
  }
}

TEST_CASE("only attention has scores") {
  const auto reason = [](std::string_view between, std::string_view outputs) {
    const Reasons reasons =
        reasons_of(fmt::format(R"({{"dtype": "bf16", "tensors": {{"q": {{"shape": [4, 64, 64]}},
        "k": {{"shape": [4, 64, 64]}}, "v": {{"shape": [4, 64, 64]}}}},
      "ops": [{{"name": "a", "op": "matmul", "inputs": ["q", "k"], "output": "s"}},
              {{"name": "m", "op": "{}", "inputs": ["s"], "output": "p"}},
              {{"name": "b", "op": "matmul", "inputs": ["p", "v"], "output": "o"}}],
      "outputs": [{}]}})",
                               between, outputs));
    return reasons.empty() ? "" : reasons.back();
  };
  CHECK(reason("relu", R"("o")").find("needs whole rows of the first") != std::string::npos);
  CHECK(reason("relu", R"("o", "s")").find("needs whole rows of the first") != std::string::npos);
  CHECK(reason("relu", R"("o", "p")").find("needs whole rows of the first") != std::string::npos);
  CHECK(reason("softmax", R"("o", "p")").find("the scores between the two contractions are used") !=
        std::string::npos);
  CHECK(reason("softmax", R"("o")").empty());
}

TEST_CASE("beside an attention, a third contraction is the one that is refused") {
  const Reasons reasons = reasons_of(R"({"dtype": "bf16", "tensors": {"q": {"shape": [4, 64, 64]},
      "k": {"shape": [4, 64, 64]}, "v": {"shape": [4, 64, 64]}, "w": {"shape": [32, 64]}},
    "ops": [{"name": "a", "op": "matmul", "inputs": ["q", "k"], "output": "s"},
            {"name": "m", "op": "softmax", "inputs": ["s"], "output": "p"},
            {"name": "b", "op": "matmul", "inputs": ["p", "v"], "output": "o"},
            {"name": "c", "op": "linear", "inputs": ["o", "w"], "output": "y"}]})");
  REQUIRE(reasons.size() == 1);
  CHECK(reasons[0].starts_with("a+m+b|c: matmul -> linear: the second contraction needs whole"));
}
