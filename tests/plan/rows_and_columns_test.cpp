#include "plan/rows_and_columns.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <numeric>
#include <string>

#include "codegen/generate.hpp"
#include "graph/graph_text.hpp"
#include "planner/plans.hpp"

using namespace fusecalc;
using namespace fusecalc::testing;

namespace {

// The gradients of a layer_norm, written out. `more`: further ops.
OpGraph gradients(std::uint64_t rows, std::uint64_t length, const std::string& more = "",
                  std::string_view dtype = "bf16") {
  return graph_of(fmt::format(
      R"({{"dtype": "{3}",
 "tensors": {{"x": {{"shape": [{0}, {1}]}}, "dy": {{"shape": [{0}, {1}]}}, "w": {{"shape": [{1}]}},
             "mean": {{"shape": [{0}, 1]}}, "rstd": {{"shape": [{0}, 1]}}}},
 "ops": [{{"op": "sub", "inputs": ["x", "mean"], "output": "c"}},
         {{"op": "mul", "inputs": ["c", "rstd"], "output": "n"}},
         {{"op": "mul", "inputs": ["dy", "w"], "output": "g"}},
         {{"op": "mul", "inputs": ["g", "n"], "output": "gn"}},
         {{"op": "mean", "inputs": ["g"], "output": "m1", "axis": -1, "keepdim": true}},
         {{"op": "mean", "inputs": ["gn"], "output": "m2", "axis": -1, "keepdim": true}},
         {{"op": "fma", "inputs": ["n", "m2", "m1"], "output": "b"}},
         {{"op": "sub", "inputs": ["g", "b"], "output": "r"}},
         {{"op": "mul", "inputs": ["r", "rstd"], "output": "dx"}},
         {{"op": "mul", "inputs": ["dy", "n"], "output": "dyn"}},
         {{"op": "sum", "inputs": ["dyn"], "output": "dw", "axis": 0}},
         {{"op": "sum", "inputs": ["dy"], "output": "db", "axis": 0}}{2}]}})",
      rows, length, more, dtype));
}

Kernel all_of(const OpGraph& graph) {
  Kernel kernel(graph.ops.size());
  std::iota(kernel.begin(), kernel.end(), OpId{0});
  return kernel;
}

Verdict verdict_of(const OpGraph& graph) {
  PhaseFinder phases(graph);
  return check_launch(phases, all_of(graph), runner_rules(known_devices().front()));
}

}  // namespace

TEST_CASE("gradients of a norm that are written out are one kernel, which reads everything once") {
  for (const std::uint64_t length : {512U, 777U, 4096U}) {
    const OpGraph graph = gradients(4096, length);
    REQUIRE(verdict_of(graph).legal());
    TrafficCounter counter(graph, known_devices().front());
    const std::uint64_t tensor = 4096 * length * 2;
    CHECK(counter.bytes(all_of(graph)) ==
          Bytes{2 * tensor + 2 * 4096 * 2 + length * 2, tensor + 2 * length * 2});
    PlanMaker maker(graph, known_devices().front());
    CHECK(maker.plan(PlanKind::kCompiler)->kernels.size() == 2);
    CHECK(maker.plan(PlanKind::kAuto)->kernels.size() == 1);
    CHECK(maker.plan(PlanKind::kFastest)->kernels.size() == 1);
  }
}

TEST_CASE("only what is read needs room on chip: what is made of it is made again") {
  // Of 48 KiB for each row: x and dy are read; n, g and both exponentials are needed twice.
  const std::string more = R"(,
    {"op": "exp", "inputs": ["n"], "output": "e1"}, {"op": "exp", "inputs": ["g"], "output": "e2"},
    {"op": "mean", "inputs": ["e1"], "output": "m3", "axis": -1, "keepdim": true},
    {"op": "mean", "inputs": ["e2"], "output": "m4", "axis": -1, "keepdim": true},
    {"op": "sub", "inputs": ["e1", "m3"], "output": "d1"},
    {"op": "sub", "inputs": ["e2", "m4"], "output": "d2"})";
  const OpGraph graph = gradients(4096, 12288, more, "f32");
  const Device& device = device_named("a100");
  TrafficCounter counter(graph, device);
  PhaseFinder phases(graph);
  REQUIRE(check_launch(phases, all_of(graph), runner_rules(device)).legal());
  const std::uint64_t tensor = std::uint64_t{4096} * 12288 * 4;
  CHECK(counter.bytes(all_of(graph)).read == 2 * tensor + 2 * 4096 * 4 + 12288 * 4);
}

TEST_CASE("what a kernel of rows and columns reads is told apart, in a square matrix, too") {
  const OpGraph graph = gradients(4096, 4096);
  PhaseFinder phases(graph);
  const auto found = rows_and_columns(phases.resolve(all_of(graph)), all_of(graph),
                                      known_devices().front().on_chip_bytes);
  REQUIRE(found);
  const auto names = [&](const std::vector<TensorId>& ids) {
    std::string text;
    for (const TensorId id : ids) text += graph.tensors[id].name + " ";
    return text;
  };
  CHECK(names(found->elements) == "x dy ");
  CHECK(names(found->of_rows) == "mean rstd ");
  CHECK(names(found->of_columns) == "w ");
  CHECK(found->row_sums.size() == 2);
  CHECK(found->column_sums.size() == 2);
}

TEST_CASE("sums of columns may be worked on, one by one, but elements must not wait for them") {
  CHECK(verdict_of(gradients(512, 768, R"(, {"op": "mul", "inputs": ["dw", 2], "output": "dw2"})"))
            .legal());
  CHECK(verdict_of(gradients(512, 768, R"(, {"op": "mul", "inputs": ["dw", "w"], "output": "v"})"))
            .legal());
  CHECK(verdict_of(gradients(512, 768, R"(, {"op": "add", "inputs": ["dw", "db"], "output": "v"})"))
            .obstacle == Obstacle::kColumns);
  CHECK_FALSE(
      verdict_of(gradients(512, 768, R"(, {"op": "add", "inputs": ["dx", "dw"], "output": "v"})"))
          .legal());
  // A sum of dx waits for those of the rows: that of columns can be added up in the second pass.
  const auto with_sum = [&](unsigned axis) {
    return verdict_of(gradients(
        512, 768,
        fmt::format(R"(, {{"op": "sum", "inputs": ["dx"], "output": "v", "axis": {}}})", axis)));
  };
  CHECK(with_sum(0).legal());
  CHECK(with_sum(1).obstacle == Obstacle::kColumns);
  CHECK(
      verdict_of(gradients(512, 768, R"(, {"op": "sum", "inputs": ["dx"], "output": "v", "axis": 0},
                                           {"op": "mul", "inputs": ["v", "w"], "output": "u"})"))
          .legal());
}

TEST_CASE("rows and columns: what no loop stores, or nothing reads, is no kernel") {
  // Nothing as large as the matrix is read.
  CHECK_FALSE(verdict_of(graph_of(R"({"tensors": {"r": {"shape": [300, 1]}, "c": {"shape": [777]}},
    "ops": [{"op": "mul", "inputs": ["r", "c"], "output": "x"},
            {"op": "sum", "inputs": ["x"], "output": "a", "axis": 0},
            {"op": "sum", "inputs": ["x"], "output": "b", "axis": 1}]})"))
                  .legal());
  // A value of rows that waits for no sum.
  CHECK_FALSE(
      verdict_of(graph_of(
                     R"({"tensors": {"x": {"shape": [4096, 1024]}, "r": {"shape": [4096, 1]}},
    "ops": [{"op": "mul", "inputs": ["x", "r"], "output": "y"},
            {"op": "sum", "inputs": ["y"], "output": "a", "axis": 0},
            {"op": "sum", "inputs": ["y"], "output": "b", "axis": 1},
            {"op": "mul", "inputs": ["r", "r"], "output": "q"}]})"))
          .legal());
}

TEST_CASE("rows too long for a block, and 64-bit numbers, are refused with the reason") {
  const Verdict verdict = verdict_of(gradients(64, 50000));
  CHECK(verdict.obstacle == Obstacle::kColumns);
  const OpGraph graph = gradients(64, 50000);
  CHECK(explain(graph, verdict).find("fit one block's shared memory and registers") !=
        std::string::npos);
  CHECK(verdict_of(gradients(512, 768, "", "f64")).obstacle == Obstacle::kColumns);
}

TEST_CASE(
    "a kernel of rows and columns has a block on each multiprocessor, and adds up in the end") {
  const OpGraph graph = gradients(16384, 4096);
  TrafficCounter counter(graph, known_devices().front());
  const GeneratedKernel kernel = generate(counter, all_of(graph), counter.device());
  CHECK(kernel.blocks == 132);
  CHECK(kernel.cooperative);
  CHECK(kernel.workspace_bytes == 256 + 132 * 2 * 4096 * 4);
  CHECK(kernel.storages.size() == 8);
}

TEST_CASE("the sums of a block's warps have room beside the rows") {
  ColumnWork work{.rows = 4096, .length = 8192, .widest_bytes = 2, .element_bytes = 12, .sums = 1};
  const std::uint64_t on_chip = known_devices().front().on_chip_bytes;
  // 12 bytes for each of 8192 elements, of one row on its way and one in work.
  REQUIRE(column_tiling(work, on_chip));
  CHECK(column_tiling(work, on_chip)->shared_bytes == 2 * 8192 * 12);
  // 280 floats for each of 16 warps, of two rows, leave room for one.
  work.row_sums = 280;
  CHECK(column_tiling(work, on_chip)->shared_bytes == 8192 * 12);
  // More than static shared memory can be.
  work.row_sums = 400;
  CHECK_FALSE(column_tiling(work, on_chip));
}
