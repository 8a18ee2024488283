#include "planner/recompute.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "analysis/analyze.hpp"
#include "analysis/boundaries.hpp"
#include "analysis/reasons.hpp"
#include "codegen/random_ops.hpp"
#include "core/error.hpp"
#include "graph/graph_text.hpp"
#include "measure/graph_check.hpp"
#include "measure/inputs.hpp"
#include "measure/verify.hpp"
#include "plan/partition.hpp"
#include "plan/random_graph.hpp"
#include "planner/plans.hpp"
#include "planner/search.hpp"
#include "support/sanitizers.hpp"

using namespace fusecalc;
using namespace fusecalc::testing;

namespace {

Analysis analysis_of(const std::string& text) {
  return analyze_graph(graph_of(text), "t", known_devices().front(), std::nullopt);
}

// "a+b, b+c": the ops of each kernel.
std::string kernels_of(const Analysis& analysis, PlanKind kind) {
  std::string text;
  for (const KernelAnalysis& kernel : analysis.graph->plan(kind).kernels) {
    text += (text.empty() ? "" : ", ") + kernel_name(analysis.graph->graph, kernel.ops);
  }
  return text;
}

// The gradient of a layer_norm's input, of primitives, on [8192, 4096] bf16, which needs rows, and
// the largest values of columns.
const char* const kLayerNormBackward = R"({"dtype": "bf16",
 "tensors": {"x": {"shape": [8192, 4096]}, "dy": {"shape": [8192, 4096]}, "w": {"shape": [4096]},
             "mean": {"shape": [8192, 1], "dtype": "f32"},
             "rstd": {"shape": [8192, 1], "dtype": "f32"},
             "dx": {"dtype": "bf16"}},
 "ops": [
  {"name": "center", "op": "sub", "inputs": ["x", "mean"], "output": "c"},
  {"name": "normalise", "op": "mul", "inputs": ["c", "rstd"], "output": "n"},
  {"name": "weigh", "op": "mul", "inputs": ["dy", "w"], "output": "g"},
  {"name": "total", "op": "sum", "inputs": ["g"], "output": "s1", "axis": -1, "keepdim": true},
  {"name": "product", "op": "mul", "inputs": ["g", "n"], "output": "gn"},
  {"name": "dot", "op": "sum", "inputs": ["gn"], "output": "s2", "axis": -1, "keepdim": true},
  {"name": "along", "op": "mul", "inputs": ["n", "s2"], "output": "ns"},
  {"name": "both", "op": "add", "inputs": ["ns", "s1"], "output": "b"},
  {"name": "share", "op": "div", "inputs": ["b", 4096], "output": "h"},
  {"name": "rest", "op": "sub", "inputs": ["g", "h"], "output": "r"},
  {"name": "scale", "op": "mul", "inputs": ["r", "rstd"], "output": "dx"},
  {"name": "weight", "op": "mul", "inputs": ["dy", "n"], "output": "dyn"},
  {"name": "dw", "op": "max", "inputs": ["dyn"], "output": "of_weight", "axis": 0},
  {"name": "db", "op": "max", "inputs": ["dy"], "output": "of_bias", "axis": 0}]})";

// `first` and `second` read p, and cannot be one kernel: rows and columns.
std::string with_fuse(const std::string& fuse) {
  return R"({"tensors": {"x": {"shape": [4096, 4096]}},
      "ops": [{"name": "a", "op": "exp", "inputs": ["x"], "output": "p"},
              {"name": "first", "op": "softmax", "inputs": ["p"], "output": "q"},
              {"name": "second", "op": "softmax", "inputs": ["p"], "output": "r", "axis": 0},
              {"name": "third", "op": "relu", "inputs": ["p"], "output": "z"}],
      "fuse": )" +
         fuse + "}";
}

constexpr std::uint64_t kWhole = 4096ULL * 4096 * 4;

}  // namespace

TEST_CASE("plans compute two cheap ops again instead of storing what they make") {
  const Analysis analysis = analysis_of(kLayerNormBackward);
  for (const PlanKind kind : {PlanKind::kCompiler, PlanKind::kAuto}) {
    const PlanAnalysis& plan = analysis.graph->plan(kind);
    // x and dy for the rows, x and dy for the columns, dx; and what is small.
    constexpr std::uint64_t kTensor = 8192ULL * 4096 * 2;
    CHECK(plan.bytes.total() > 5 * kTensor);
    CHECK(plan.bytes.total() < 5 * kTensor + kTensor / 100);
    std::size_t ops = 0;
    for (const KernelAnalysis& kernel : plan.kernels) {
      ops += kernel.ops.size();
      CHECK(kernel.launch.legal());
    }
    CHECK(ops == 14 + 2);
  }
}

TEST_CASE("one element of each row is computed again instead of storing all of them") {
  const auto picking = [](const std::string& pick) {
    return analysis_of(R"({"tensors": {"x": {"shape": [8192, 4096]},
                                       "t": {"shape": [8192, 1], "dtype": "i64"}}, "ops": [
      {"name": "max", "op": "max", "inputs": ["x"], "axis": 1, "keepdim": true, "output": "m"},
      {"name": "sub", "op": "sub", "inputs": ["x", "m"], "output": "d"},
      {"name": "exp", "op": "exp", "inputs": ["d"], "output": "e"},
      {"name": "sum", "op": "sum", "inputs": ["e"], "axis": 1, "keepdim": true, "output": "s"},
      {"name": "lp", "op": "div", "inputs": ["d", "s"], "output": "l"}, )" +
                       pick + "]}");
  };
  for (const Analysis& analysis :
       {picking(R"({"op": "gather_elements", "inputs": ["l", "t"], "axis": 1, "output": "y"})"),
        picking(R"({"op": "slice", "inputs": ["l"], "axis": 1, "end": 1, "output": "y"})")}) {
    const PlanAnalysis& plan = analysis.graph->plan(PlanKind::kAuto);
    constexpr std::uint64_t kRead = 8192ULL * 4096 * 4;
    CHECK(plan.bytes.total() > kRead);
    CHECK(plan.bytes.total() < kRead + kRead / 100);
    // The second kernel computes what it needs and no more.
    CHECK(plan.predicted.time_us < 60);
  }
}
TEST_CASE("what cannot be computed again keeps nothing else from it") {
  // To compute the quotient again would save most, but topk runs alone.
  const Analysis analysis = analysis_of(R"({"tensors": {"x": {"shape": [16, 32000]},
                                       "t": {"shape": [16, 64], "dtype": "i64"}}, "ops": [
      {"name": "div", "op": "div", "inputs": ["x", 0.8], "output": "l"},
      {"name": "topk", "op": "topk", "inputs": ["l"], "k": 1, "outputs": ["v", "i"]},
      {"name": "lt", "op": "lt", "inputs": ["l", "v"], "output": "m"},
      {"name": "mask", "op": "where", "inputs": ["m", 0, "l"], "output": "h"},
      {"name": "softmax", "op": "softmax", "inputs": ["h"], "output": "p"},
      {"name": "gather", "op": "gather_elements", "inputs": ["h", "t"], "axis": 1, "output": "y"}],
     "outputs": ["p", "y"]})");
  // All elements: x and l; l; l and p. Of each row: what topk writes and both others read, and the
  // indices, as many elements of l, and y.
  constexpr std::uint64_t kAll = 16ULL * 32000 * 4;
  for (const PlanKind kind : {PlanKind::kCompiler, PlanKind::kAuto}) {
    CHECK(kernels_of(analysis, kind) == "div, topk, lt+mask+softmax, lt+mask+gather");
    CHECK(analysis.graph->plan(kind).bytes.total() == 5 * kAll + 16 * (3 * 4 + 64 * (8 + 4 + 4)));
  }
}

TEST_CASE("a kernel that cannot compute one of its operands again computes another one") {
  // A product of many rows computes those as it reads them, but not its weights.
  const Analysis analysis = analysis_of(R"({"dtype": "f16",
    "tensors": {"x": {"shape": [1000, 96]}, "z": {"shape": [1000, 96]},
                "w": {"shape": [2048, 96], "dtype": "f32"}}, "ops": [
      {"name": "mul", "op": "mul", "inputs": ["x", 2], "output": "h"},
      {"name": "mask", "op": "triu", "inputs": ["h"], "output": "m"},
      {"name": "cast", "op": "cast", "inputs": ["w"], "to": "f16", "output": "v"},
      {"name": "linear", "op": "linear", "inputs": ["h", "v"], "output": "y"}]})");
  // x twice and the mask; the weights read, and stored and loaded as halves; y.
  CHECK(kernels_of(analysis, PlanKind::kAuto) == "mul+mask, cast, mul+linear");
  CHECK(analysis.graph->plan(PlanKind::kAuto).bytes.total() ==
        3 * 1000 * 96 * 2 + 2048 * 96 * (4 + 2 + 2) + 1000 * 2048 * 2);
}

TEST_CASE("what nobody stores is not read by its maker either") {
  // The parts have different numbers of elements, so that they cannot be one kernel.
  const Analysis analysis = analysis_of(R"({"dtype": "bf16",
    "tensors": {"x": {"shape": [4096, 1000], "dtype": "f32"}}, "ops": [
      {"name": "cast", "op": "cast", "inputs": ["x"], "to": "bf16", "output": "h"},
      {"name": "first", "op": "slice", "inputs": ["h"], "axis": 1, "end": 400, "output": "a"},
      {"name": "rest", "op": "slice", "inputs": ["h"], "axis": 1, "start": 400, "end": 1000,
       "output": "b"}]})");
  // x, of which each kernel reads its part, and the halves of it.
  for (const PlanKind kind : {PlanKind::kCompiler, PlanKind::kAuto, PlanKind::kFastest}) {
    CHECK(analysis.graph->plan(kind).kernels.size() == 2);
    CHECK(analysis.graph->plan(kind).bytes.total() == 4096 * 1000 * (4 + 2));
  }
}

TEST_CASE("what copies load is computed again, too") {
  const Analysis analysis = analysis_of(R"({"dtype": "f16",
    "tensors": {"w": {"shape": [256, 1024], "dtype": "u8"}, "s": {"shape": [256, 1]}}, "ops": [
      {"name": "cast", "op": "cast", "inputs": ["w"], "to": "f16", "output": "h"},
      {"name": "mul", "op": "mul", "inputs": ["h", "s"], "output": "m"},
      {"name": "square", "op": "linear", "inputs": ["m", "m"], "output": "y"},
      {"name": "both", "op": "concat", "inputs": ["m", "h"], "axis": 1, "output": "c"},
      {"name": "most", "op": "amax_abs", "inputs": ["c"], "axis": 1, "output": "a"},
      {"name": "pad", "op": "pad", "inputs": ["c"], "before": [3, 3], "after": [0, 0],
       "output": "p"}]})");
  // To pad what is concatenated takes the weights, and with them the product, which is stored for
  // the other kernels.
  constexpr std::uint64_t kWeights = 256ULL * 1024;
  for (const PlanKind kind : {PlanKind::kCompiler, PlanKind::kAuto}) {
    CHECK(kernels_of(analysis, kind) == "cast+mul+both+1 more, cast+mul+both+1 more, square");
    CHECK(analysis.graph->plan(kind).bytes.total() ==
          2 * (kWeights + 256 * 2) + 2 * 2 * kWeights + 256 * 256 * 2 + 256 * 2 + 259 * 2051 * 2);
  }
}

TEST_CASE("one reader computes again what another one cannot") {
  const Analysis analysis = analysis_of(R"({
    "tensors": {"x": {"shape": [100, 512]}}, "ops": [
      {"name": "pad", "op": "pad", "inputs": ["x"], "before": [300, 1], "after": [0, 0],
       "output": "p"},
      {"name": "rows", "op": "softmax", "inputs": ["p"], "output": "q"},
      {"name": "columns", "op": "argmax", "inputs": ["p"], "axis": 0, "output": "c"},
      {"name": "sort", "op": "sort", "inputs": ["p"], "outputs": ["s", "i"]}]})");
  // x twice; the padding stored and loaded for the sort alone, which makes values and 64-bit
  // indices; the softmax, and the index of each column.
  constexpr std::uint64_t kPadded = 400ULL * 513;
  for (const PlanKind kind : {PlanKind::kCompiler, PlanKind::kAuto}) {
    CHECK(analysis.graph->plan(kind).kernels.size() == 3);
    CHECK(analysis.graph->plan(kind).bytes.total() ==
          2 * 100 * 512 * 4 + kPadded * (4 + 4 + 4 + 8 + 4) + 513 * 8);
  }
}

TEST_CASE("what recomputing leaves of a kernel may be one with another") {
  // The quotient belongs to the columns, until its rows compute it again: then their kernel can
  // make the sum that divides it, too.
  const Analysis analysis = analysis_of(R"({"dtype": "bf16",
    "tensors": {"x": {"shape": [4096, 512]}, "z": {"shape": [4096, 512]}}, "ops": [
      {"name": "below", "op": "sum", "inputs": ["x"], "axis": 0, "output": "c"},
      {"name": "scale", "op": "sum", "inputs": ["z"], "axis": 1, "keepdim": true, "output": "s"},
      {"name": "div", "op": "div", "inputs": ["x", "s"], "output": "d"},
      {"name": "rows", "op": "sum", "inputs": ["d"], "axis": 1, "keepdim": true, "output": "r"},
      {"name": "columns", "op": "max", "inputs": ["d"], "axis": 0, "output": "m"}]})");
  // x twice and z; the scales written and read once, sums of rows, and two of columns.
  constexpr std::uint64_t kMatrix = 4096ULL * 512 * 2;
  for (const PlanKind kind : {PlanKind::kCompiler, PlanKind::kAuto}) {
    CHECK(kernels_of(analysis, kind) == "scale+div+rows, below+div+columns");
    CHECK(analysis.graph->plan(kind).bytes.total() == 3 * kMatrix + 2 * (3 * 4096 + 2 * 512));
  }
}

TEST_CASE("as many bytes in fewer kernels are better once ops are recomputed") {
  // Padding again takes each kernel the half that it reads, and so does the slice beside it.
  const Analysis analysis = analysis_of(R"({
    "tensors": {"x": {"shape": [4096, 64]}}, "ops": [
      {"name": "half", "op": "slice", "inputs": ["x"], "axis": 0, "end": 2048, "output": "h"},
      {"name": "pad", "op": "pad", "inputs": ["x"], "before": [1, 0], "after": [0, 0],
       "output": "p"},
      {"name": "softmax", "op": "softmax", "inputs": ["p"], "output": "q"},
      {"name": "rest", "op": "slice", "inputs": ["p"], "axis": 0, "start": 2048, "end": 4096,
       "output": "r"}]})");
  // x and the softmax of one row more; two halves, read and written.
  for (const PlanKind kind : {PlanKind::kCompiler, PlanKind::kAuto}) {
    CHECK(kernels_of(analysis, kind) == "half+pad+rest, pad+softmax");
    CHECK(analysis.graph->plan(kind).bytes.total() == (4096 + 4097 + 4 * 2048) * 64 * 4);
  }
}

TEST_CASE("a kernel that stores an op may wait for one that recomputes it") {
  // The loss runs first, but needs no more of the mask than its own elements.
  const Analysis analysis = analysis_of(R"({
    "tensors": {"x": {"shape": [4, 1000]}, "t": {"shape": [4], "dtype": "i32"}}, "ops": [
      {"name": "drop", "op": "dropout", "inputs": ["x"], "outputs": ["d", "mask"],
       "save_mask": true},
      {"name": "loss", "op": "nll_loss", "inputs": ["d", "t"], "output": "l"},
      {"name": "sub", "op": "sub", "inputs": ["x", "l"], "output": "y"}],
    "outputs": ["mask", "y"]})");
  CHECK(kernels_of(analysis, PlanKind::kAuto) == "drop+loss, drop+sub");
}

TEST_CASE("what saves nothing by itself is recomputed for what it lets other kernels do") {
  // Sums of columns cannot join the rows of what they add, unless another kernel adds that again.
  const Analysis columns = analysis_of(R"({
    "tensors": {"x": {"shape": [4096, 4096]}}, "ops": [
      {"name": "rows", "op": "sum", "inputs": ["x"], "axis": 1, "keepdim": true, "output": "s"},
      {"name": "add", "op": "add", "inputs": ["x", "s"], "output": "a"},
      {"name": "columns", "op": "sum", "inputs": ["a"], "axis": 0, "keepdim": true, "output": "c"},
      {"name": "softmax", "op": "softmax", "inputs": ["x"], "axis": 0, "output": "p"},
      {"name": "mul", "op": "mul", "inputs": ["p", "a"], "output": "m"}]})");
  CHECK(kernels_of(columns, PlanKind::kAuto) == "rows+add+columns, add+softmax+mul");
  // x twice, and the product; the sums of rows written and read, and those of columns.
  CHECK(columns.graph->plan(PlanKind::kAuto).bytes.total() == 3 * kWhole + 3 * 4096 * 4);
  // Two operands that are made of the same two inputs: either one alone takes as much as it saves.
  const Analysis operands = analysis_of(R"({
    "tensors": {"x": {"shape": [60000, 4]}, "z": {"shape": [60000, 4]}}, "ops": [
      {"name": "gelu", "op": "gelu", "inputs": ["z"], "output": "g"},
      {"name": "add", "op": "add", "inputs": ["x", "z"], "output": "a"},
      {"name": "div", "op": "div", "inputs": ["a", "g"], "output": "q"},
      {"name": "both", "op": "concat", "inputs": ["a", "g"], "axis": 1, "output": "c"}],
    "outputs": ["q", "c", "g"]})");
  // x and z twice; the quotient, the others side by side, and one of them by itself.
  CHECK(kernels_of(operands, PlanKind::kAuto) == "gelu+add+div, gelu+add+both");
  CHECK(operands.graph->plan(PlanKind::kAuto).bytes.total() == 8 * 60000 * 4 * 4);
}

TEST_CASE("the plan auto moves no more bytes than fastest, which recomputes other ops") {
  const Analysis analysis = analysis_of(R"({"dtype": "bf16",
    "tensors": {"x": {"shape": [1024, 1024]}, "w": {"shape": [1024, 1024]}}, "ops": [
      {"name": "first", "op": "softmax", "inputs": ["w"], "output": "p"},
      {"name": "sum", "op": "sum", "inputs": ["p"], "axis": 0, "keepdim": true, "output": "s"},
      {"name": "add", "op": "add", "inputs": ["p", "x"], "output": "a"},
      {"name": "second", "op": "softmax", "inputs": ["a"], "output": "q"},
      {"name": "both", "op": "add", "inputs": ["a", "s"], "output": "b"}]})");
  CHECK(kernels_of(analysis, PlanKind::kAuto) == "first+add+second, sum+add+both");
  CHECK(kernels_of(analysis, PlanKind::kFastest) == "first+add+second, sum+add+both");
}
TEST_CASE("an explicit plan may name a cheap op in several groups") {
  const Analysis analysis = analysis_of(with_fuse(R"([["a", "first"], ["a", "second", "third"]])"));
  CHECK(kernels_of(analysis, PlanKind::kExplicit) == "a+first, a+second+third");
  const PlanAnalysis& plan = analysis.graph->plan(PlanKind::kExplicit);
  CHECK(plan.bytes.read == 2 * kWhole);
  CHECK(plan.bytes.write == 3 * kWhole);
}

TEST_CASE("the first group stores what others need of a shared op") {
  const Analysis analysis = analysis_of(with_fuse(R"([["a", "first"], ["a", "second"]])"));
  CHECK(kernels_of(analysis, PlanKind::kExplicit) == "a+first, a+second, third");
  const PlanAnalysis& plan = analysis.graph->plan(PlanKind::kExplicit);
  REQUIRE(plan.kernels.size() == 3);
  CHECK(plan.kernels[0].traffic.writes.size() == 2);
  CHECK(plan.kernels[1].traffic.writes.size() == 1);
}

TEST_CASE("a group that neither reads nor stores a shared op loses it") {
  const Analysis analysis =
      analysis_of(with_fuse(R"([["a"], ["a", "first"], ["a", "second", "third"]])"));
  CHECK(kernels_of(analysis, PlanKind::kExplicit) == "a+first, a+second+third");
  // Wherever it is among the groups.
  const std::string chain = R"({"tensors": {"x": {"shape": [64, 64]}},
      "ops": [{"name": "a", "op": "exp", "inputs": ["x"], "output": "p"},
              {"name": "b", "op": "exp", "inputs": ["p"], "output": "q"},
              {"name": "c", "op": "sort", "inputs": ["q"], "output": "r"}], "fuse": )";
  for (const char* groups : {R"([["a", "b"], ["c", "a"]])", R"([["c", "a"], ["a", "b"]])"}) {
    CHECK(kernels_of(analysis_of(chain + groups + "}"), PlanKind::kExplicit) == "a+b, c");
  }
}

TEST_CASE("only cheap ops may be shared") {
  CHECK(fault_of(with_fuse(R"([["a", "first"], ["first", "third"]])")) ==
        "/fuse/1/0: \"first\" is already in /fuse/0; only pointwise ops and movements that update "
        "nothing in place can be in several groups");
  CHECK(fault_of(with_fuse(R"([["a", "third", "a"]])")) ==
        "/fuse/0/2: \"a\" is already in /fuse/0");
}

TEST_CASE("boundaries and reasons name the ops of the document") {
  Analysis analysis = analysis_of(with_fuse(R"([["a", "first"], ["a", "second"]])"));
  find_boundaries(analysis, BoundaryScope::kEveryPlan);
  const PlanAnalysis& plan = analysis.graph->plan(PlanKind::kExplicit);
  std::set<std::string> shared;
  for (KernelId k = 0; k < plan.kernels.size(); ++k) {
    for (const Boundary& boundary : plan.boundaries->of(k)) {
      shared.insert(analysis.graph->graph.tensors.at(boundary.tensor).name);
      CHECK(!full_reason_of(*analysis.graph, boundary).empty());
    }
  }
  CHECK(shared == std::set<std::string>{"p", "x"});
}

TEST_CASE("recomputing never adds bytes, in random graphs whose plans can be launched") {
  const char* text = std::getenv("FUSECALC_LONG_TESTS");
  const std::size_t usual = kSanitized ? 20 : 150;
  const std::size_t count = text == nullptr ? usual : static_cast<std::size_t>(std::atoi(text));
  std::size_t graphs = 0;
  std::size_t shared = 0;
  for (std::uint64_t seed = 31'000'000; graphs < count; ++seed) {
    CAPTURE(seed);
    std::optional<OpGraph> graph;
    try {
      graph = graph_of(random_op_list(seed, 10 + seed % 30));
    } catch (const Error&) {  // as in search_test.cpp
      continue;
    }
    ++graphs;
    TrafficCounter counter(*graph, known_devices().front());
    PlanMaker maker(*graph, known_devices().front());
    const FusionPlan& plan = *maker.plan(PlanKind::kAuto);
    const auto bytes_of = [&](const FusionPlan& each) {
      TrafficCounter of(each.graph_or(*graph), known_devices().front());
      return cost_of(of, each.kernels).bytes;
    };
    CHECK(bytes_of(plan) <= bytes_of(*maker.plan(PlanKind::kFastest)));
    if (!plan.recomputation) continue;
    ++shared;
    const Recomputation& recomputation = *plan.recomputation;
    TrafficCounter own(recomputation.graph, known_devices().front());
    // Equally many may take less time.
    CHECK(cost_of(own, plan.kernels).bytes <=
          cost_of(counter, maker.auto_partition().kernels).bytes);
    CHECK(is_partition(recomputation.graph, plan.kernels));
    CHECK(can_run(orders_of(recomputation.graph), plan.kernels));
    std::set<OpId> computed;
    for (const Kernel& kernel : plan.kernels) {
      std::set<OpId> ops;
      for (const OpId op : kernel) ops.insert(recomputation.original[op]);
      CHECK(ops.size() == kernel.size());
      computed.insert(ops.begin(), ops.end());
      if (kernel.size() == 1) continue;
      CHECK(check_kernel(own.phases(), kernel, runner_rules(own.device())).legal());
    }
    CHECK(computed.size() == graph->ops.size());
  }
  CHECK(shared > count / 20);
}

TEST_CASE("results are the same where ops are computed again") {
  std::size_t compared = 0;
  for (std::uint64_t seed = 0; seed < (kSanitized ? 30 : 600); ++seed) {
    CAPTURE(seed);
    const RandomOps list = random_ops(seed, 4 + seed % 9);
    PlanMaker maker(list.graph, known_devices().front());
    const FusionPlan& plan = *maker.plan(PlanKind::kAuto);
    if (!plan.recomputation) continue;
    const std::vector<GraphInput> inputs = random_inputs(list.graph, seed);
    const std::vector<TensorId> results = results_of(list.graph);
    const Verifier before(list.graph, inputs, results, seed);
    const Verifier after(plan.recomputation->graph, inputs, results, seed);
    REQUIRE(before.outputs().size() == after.outputs().size());
    for (std::size_t i = 0; i < before.outputs().size(); ++i) {
      const ExpectedOutput& one = before.outputs()[i];
      const ExpectedOutput& other = after.outputs()[i];
      REQUIRE(one.elements == other.elements);
      REQUIRE(one.answer.elements.size() == other.answer.elements.size());
      for (std::size_t e = 0; e < one.answer.elements.size(); ++e) {
        const double value = one.answer.elements[e].value;
        CHECK((value == other.answer.elements[e].value || std::isnan(value)));
        ++compared;
      }
    }
  }
  CHECK(compared > (kSanitized ? 0 : 500));
}
