// Reasons at boundaries: between which ops they are, and that they are true.

#include "analysis/reasons.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "analysis/analyze.hpp"
#include "analysis/boundaries.hpp"
#include "core/error.hpp"
#include "graph/graph_text.hpp"
#include "plan/legality.hpp"
#include "plan/random_graph.hpp"
#include "planner/plans.hpp"
#include "support/sanitizers.hpp"

using namespace fusecalc;
using namespace fusecalc::testing;

namespace {

using Reasons = std::vector<std::string>;

// The reasons of a plan's boundaries, each as "kernel|kernel: reason".
Reasons reasons_of(const std::string& text, std::optional<PlanKind> kind = std::nullopt) {
  Analysis analysis = analyze_graph(graph_of(text), "list", known_devices().front(), kind);
  find_boundaries(analysis, BoundaryScope::kHeadline);
  const PlanAnalysis& plan = analysis.graph->plan(analysis.plan);
  Reasons found;
  for (KernelId k = 0; k < plan.kernels.size(); ++k) {
    for (const Boundary& boundary : plan.boundaries->of(k)) {
      found.push_back(fmt::format("{}|{}: {}", plan.kernels[k].name,
                                  plan.kernels[boundary.with].name,
                                  full_reason_of(*analysis.graph, boundary)));
    }
  }
  return found;
}

// Groups of up to four ops, each next to the one before: they cannot form a cycle.
std::vector<Kernel> random_groups(const OpGraph& graph, Dice& dice) {
  std::vector<Kernel> groups;
  OpId next = 0;
  while (next < graph.ops.size()) {
    const std::size_t end = std::min(graph.ops.size(), next + 1 + dice.below(4));
    Kernel& group = groups.emplace_back();
    while (next < end) group.push_back(next++);
  }
  return groups;
}

bool holds(const Kernel& kernel, OpId op) { return std::ranges::find(kernel, op) != kernel.end(); }

// Counts the boundaries whose obstacle lies between ops of one kernel and ops of the other.
std::size_t check_named(const GraphAnalysis& details, const PlanAnalysis& plan, KernelId k,
                        const Boundary& boundary) {
  const Kernel& here = plan.kernels[k].ops;
  const Kernel& there = plan.kernels[boundary.with].ops;
  const Verdict& verdict = boundary.verdict;
  CAPTURE(plan.kernels[k].name);
  CAPTURE(plan.kernels[boundary.with].name);
  const std::string reason = full_reason_of(details, boundary);
  CAPTURE(reason);
  CHECK(reason.size() < 270);
  for (const OpId op : {verdict.first, verdict.second, verdict.third}) {
    if (op != kNone) CHECK((holds(here, op) || holds(there, op)));
  }
  if (verdict.second == kNone || boundary.in != ObstacleIn::kBoth) {
    CHECK(boundary.here == kNone);
    CHECK(boundary.there == kNone);
  } else {
    REQUIRE(boundary.here != kNone);
    REQUIRE(boundary.there != kNone);
    CHECK(holds(here, boundary.here));
    CHECK(holds(there, boundary.there));
    // An op that is recomputed is in both.
    if (!plan.recomputed) CHECK_FALSE(holds(there, boundary.here));
    if (!plan.recomputed) CHECK_FALSE(holds(here, boundary.there));
    const std::vector<OpId> named = {verdict.first, verdict.second, verdict.third};
    CHECK(holds(named, boundary.here));
    CHECK(holds(named, boundary.there));
  }
  if (boundary.in == ObstacleIn::kEither) {
    CHECK(plan.kind == PlanKind::kExplicit);
    CHECK((!plan.kernels[k].launch.legal() || !plan.kernels[boundary.with].launch.legal()));
  }
  return boundary.here == kNone ? 0 : 1;
}

}  // namespace

TEST_CASE("the ops that a reason names are in the two kernels, in random graphs") {
  const char* text = std::getenv("FUSECALC_LONG_TESTS");
  const std::size_t usual = kSanitized ? 20 : 150;
  const std::size_t count = text == nullptr ? usual : static_cast<std::size_t>(std::atoi(text));
  std::size_t graphs = 0;
  std::size_t named = 0;
  std::size_t unions = 0;
  for (std::uint64_t seed = 47'000'000; graphs < count; ++seed) {
    CAPTURE(seed);
    Dice dice(seed);
    std::string list = random_op_list(seed, 5 + seed % 25);
    // Products of 16 bits compute operands as they load them.
    for (std::size_t at = 0; seed % 2 == 0 && at != std::string::npos;) {
      at = list.find("\"f32\"", at);
      if (at != std::string::npos) list.replace(at, 5, "\"bf16\"");
    }
    std::optional<OpGraph> graph;
    try {
      graph = graph_of(list);
    } catch (const Error&) {  // as in search_test.cpp
      continue;
    }
    ++graphs;
    graph->fuse = random_groups(*graph, dice);
    Analysis analysis = analyze_graph(*graph, "list", known_devices().front(), std::nullopt);
    find_boundaries(analysis, BoundaryScope::kEveryPlan);
    for (const PlanAnalysis& plan : analysis.graph->plans) {
      for (KernelId k = 0; k < plan.kernels.size(); ++k) {
        for (const Boundary& boundary : plan.boundaries->of(k)) {
          named += check_named(*analysis.graph, plan, k, boundary);
          unions += boundary.in == ObstacleIn::kUnion ? 1U : 0U;
        }
      }
    }
  }
  CHECK(named > 10 * count);
  // Hardly ever all ops of both are needed to tell why.
  CHECK(unions <= named / 1000);
}

TEST_CASE("what runs as a product loads its operand is no reason against its reductions") {
  // A gather or a sum runs in the main loop, and the reduction stays apart.
  const auto list = [](std::string_view first, std::string_view fuse) {
    return fmt::format(
        R"({{"dtype": "f16", "tensors": {{"x": {{"shape": [128, 256]}}, "r": {{"shape": [128, 256]}},
            "w": {{"shape": [256, 256]}}, "t": {{"shape": [500, 256]}},
            "i": {{"shape": [128], "dtype": "i64"}}}},
          "ops": [{{"name": "a", {}, "output": "p"}},
                  {{"name": "b", "op": "linear", "inputs": ["p", "w"], "output": "y"}},
                  {{"name": "c", "op": "softmax", "inputs": ["y"], "output": "z"}}],
          "fuse": {}}})",
        first, fuse);
  };
  const std::string add = R"("op": "add", "inputs": ["x", "r"])";
  const std::string embedding = R"("op": "embedding", "inputs": ["t", "i"])";
  CHECK(reasons_of(list(add, R"([["a", "b"], ["c"]])")) ==
        Reasons{"a+b|c: linear -> softmax: a kernel that runs add as linear loads its operand "
                "cannot also reduce its result, as softmax does"});
  CHECK(reasons_of(list(embedding, R"([["a"], ["b", "c"]])")) ==
        Reasons{"a|b+c: embedding -> linear: a kernel that runs embedding as linear loads its "
                "operand cannot also reduce its result, as softmax does"});
}

TEST_CASE("a product says which operand it can compute, and what is in the way") {
  const auto reason = [](int rows, std::string_view op, std::string_view inputs,
                         std::string_view product = R"("linear", "inputs": ["x", "p"])") {
    const Reasons found = reasons_of(fmt::format(
        R"({{"dtype": "bf16", "tensors": {{"x": {{"shape": [{0}, 64]}}, "r": {{"shape": [{0}, 64]}},
            "w": {{"shape": [64, 64]}}, "f": {{"shape": [64, 64], "dtype": "f32"}},
            "g": {{"shape": [64, 64], "dtype": "f32"}}}},
          "ops": [{{"name": "a", "op": {1}, "inputs": {2}, "output": "p"}},
                  {{"name": "b", "op": {3}, "output": "y"}}]}})",
        rows, op, inputs, product));
    return found.size() == 1 ? found[0] : "";
  };
  const std::string rule =
      "with more than 64 rows linear can compute its first operand as it loads it, with at most "
      "32 its weights; it has ";
  CHECK(reason(96, R"("relu")", R"(["w"])") ==
        "a|b: relu -> linear: " + rule + "96 rows, and relu makes its weights");
  CHECK(reason(48, R"("relu")", R"(["w"])") ==
        "a|b: relu -> linear: " + rule + "48 rows, and relu makes its weights");
  CHECK(reason(32, R"("relu")", R"(["w"])").empty());
  const std::string first = R"("linear", "inputs": ["p", "w"])";
  CHECK(reason(32, R"("relu")", R"(["x"])", first) ==
        "a|b: relu -> linear: " + rule + "32 rows, and relu makes its first operand");
  CHECK(reason(96, R"("relu")", R"(["x"])", first).empty());
  CHECK(reason(96, R"("relu")", R"(["w"])", R"("matmul", "inputs": ["x", "p"])") ==
        "a|b: relu -> matmul: with more than 64 rows matmul can compute its first operand as it "
        "loads it, but not its second; it has 96 rows, and relu makes its second operand");
  for (const int rows : {32, 96}) {
    CHECK(reason(rows, R"("softmax")", R"(["x"])", first) ==
          "a|b: softmax -> linear: softmax needs whole rows, and the main loop of linear loads "
          "parts of them; at most elementwise ops (casts, activations) and gathers run there");
  }
  // Of f32.
  CHECK(reason(96, R"("neg")", R"(["f"])", R"("matmul", "inputs": ["p", "g"])") ==
        "a|b: neg -> matmul: matmul can compute an operand as it loads it only if both are bf16 or "
        "both f16, the first is not transposed and the result has several columns");
}

TEST_CASE("the two reductions that work on different rows are named, not the one of each kernel") {
  const Reasons found = reasons_of(R"({"dtype": "bf16", "tensors": {"x": {"shape": [64, 256]},
      "w": {"shape": [256, 256]}, "g": {"shape": [256]}},
    "ops": [{"name": "a", "op": "linear", "inputs": ["x", "w", "g"], "output": "t"},
            {"name": "b", "op": "rms_norm", "inputs": ["t", "g"], "output": "n"},
            {"name": "c", "op": "sum", "inputs": ["n"], "output": "s", "axes": [0]}]})");
  CHECK(found == Reasons{"a+b|c: rms_norm -> sum: rms_norm and sum work on different rows, so no "
                         "block holds the data that both need"});
}

TEST_CASE("a transposed order is told with the reduction that needs rows") {
  const Reasons found =
      reasons_of(R"({"tensors": {"x": {"shape": [96, 64]}, "r": {"shape": [64, 96]}},
    "ops": [{"name": "a", "op": "exp", "inputs": ["x"], "output": "e"},
            {"op": "permute_view", "inputs": ["e"], "output": "v", "perm": [1, 0]},
            {"name": "b", "op": "add", "inputs": ["v", "r"], "output": "y"},
            {"name": "c", "op": "softmax", "inputs": ["y"], "output": "z"}],
    "fuse": [["a", "b"], ["c"]]})");
  CHECK(found ==
        Reasons{"a+b|c: add -> softmax: exp and add work in different orders, and a kernel "
                "that holds whole rows for softmax changes their order only as it stores them, or "
                "where views (permute_view) of its inputs do"});
}

TEST_CASE("a group that cannot be launched is the reason where no two ops are") {
  const auto list = [](std::string_view groups) {
    return fmt::format(
        R"({{"tensors": {{"x": {{"shape": [64, 256]}}, "r": {{"shape": [64, 256]}}}},
          "ops": [{{"name": "a", "op": "exp", "inputs": ["r"], "output": "e"}},
                  {{"name": "b", "op": "softmax", "inputs": ["r"], "output": "s"}},
                  {{"name": "c", "op": "sum", "inputs": ["e"], "output": "m", "axes": [0]}},
                  {{"name": "d", "op": "silu", "inputs": ["x"], "output": "y"}}],
          "fuse": {}}})",
        groups);
  };
  CHECK(reasons_of(list(R"([["a", "d"], ["b"], ["c"]])"))[0] ==
        "a+d|c: one of the two kernels cannot be launched alone: exp and silu share no tensor");
  // Two that cannot be fused tell more.
  CHECK(reasons_of(list(R"([["a", "b", "d"], ["c"]])"))[0].starts_with("a+b+d|c: one of the two"));
  CHECK(reasons_of(list(R"([["b", "d"], ["a", "c"]])"))[0] ==
        "a+c|b+d: one of the two kernels cannot be launched alone: softmax and silu share no "
        "tensor");
}

TEST_CASE("what makes the operands of attention is told by the operand") {
  const auto reason = [](std::string_view inputs) {
    const Reasons found = reasons_of(fmt::format(
        R"({{"dtype": "bf16", "tensors": {{"x": {{"shape": [2, 4, 64, 64]}},
            "w": {{"shape": [64, 64]}}, "k": {{"shape": [2, 4, 64, 64]}}}},
          "ops": [{{"name": "a", "op": "linear", "inputs": ["x", "w"], "output": "p"}},
                  {{"name": "b", "op": "attention", "inputs": {}, "output": "y"}}]}})",
        inputs));
    REQUIRE(found.size() == 1);
    return found[0];
  };
  CHECK(reason(R"(["p", "k", "k"])") ==
        "a|b: linear -> attention: attention loads its queries and any mask from memory, and no "
        "other op runs ahead of its main loop; linear must write its result first");
  for (const char* inputs : {R"(["k", "p", "k"])", R"(["k", "k", "p"])"}) {
    CHECK(reason(inputs) ==
          "a|b: linear -> attention: attention loads keys and values from memory, again for each "
          "tile of queries; only a gather of them runs there, so linear must write its result "
          "first");
  }
}
