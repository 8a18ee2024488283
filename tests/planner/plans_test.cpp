// What the planners make of graphs where plans tie or compete.

#include "planner/plans.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "core/error.hpp"
#include "graph/graph_text.hpp"
#include "planner/plan_text.hpp"
#include "support/plans.hpp"

using namespace fusecalc;
using namespace fusecalc::testing;

TEST_CASE("a small reduction is fused with the pointwise op that feeds it") {
  const OpGraph graph = graph_of(R"({"tensors": {"x": {"shape": [512, 1024]}},
    "ops": [{"name": "relu", "op": "relu", "inputs": ["x"], "output": "y"},
            {"name": "sum", "op": "sum", "inputs": ["y"], "output": "s", "axis": -1}],
    "outputs": ["y", "s"]})");
  CHECK(auto_of(graph) == "[relu sum]");
  CHECK(compiler_of(graph) == "[relu sum]");
}

TEST_CASE("ops that share an input are fused, whatever their class") {
  const OpGraph graph =
      graph_of(R"({"tensors": {"x": {"shape": [512, 1024]}, "z": {"shape": [512, 1024]}},
    "ops": [{"name": "a", "op": "exp", "inputs": ["x"], "output": "e"},
            {"name": "b", "op": "add", "inputs": ["x", "z"], "output": "s"},
            {"name": "c", "op": "max", "inputs": ["x"], "output": "m", "axis": 1},
            {"name": "d", "op": "mul", "inputs": ["z", 2], "output": "t"}]})");
  CHECK(auto_of(graph) == "[a b c d]");
  CHECK(compiler_of(graph) == "[a b c d]");
}

TEST_CASE("ops that share no tensor are not fused") {
  const OpGraph graph = graph_of(R"({"tensors": {"x": {"shape": [64]}, "z": {"shape": [64]}},
    "ops": [{"name": "a", "op": "exp", "inputs": ["x"], "output": "e"},
            {"name": "b", "op": "exp", "inputs": ["z"], "output": "f"}]})");
  CHECK(auto_of(graph) == "[a] [b]");
  CHECK(obstacle(graph, {"a", "b"}) == "exp and exp share no tensor");
}

TEST_CASE("a diamond of pointwise ops is one kernel") {
  const OpGraph graph = graph_of(R"({"tensors": {"x": {"shape": [64, 64]}},
    "ops": [{"name": "a", "op": "exp", "inputs": ["x"], "output": "e"},
            {"name": "b", "op": "neg", "inputs": ["e"], "output": "l"},
            {"name": "c", "op": "sqrt", "inputs": ["e"], "output": "r"},
            {"name": "d", "op": "add", "inputs": ["l", "r"], "output": "y"}]})");
  CHECK(auto_of(graph) == "[a b c d]");
}

TEST_CASE("a diamond with a matmul on one side does not create a cycle") {
  const OpGraph graph =
      graph_of(R"({"tensors": {"x": {"shape": [64, 64]}, "w": {"shape": [64, 64]}},
    "ops": [{"name": "a", "op": "exp", "inputs": ["x"], "output": "e"},
            {"name": "b", "op": "neg", "inputs": ["e"], "output": "l"},
            {"name": "c", "op": "matmul", "inputs": ["e", "w"], "output": "r"},
            {"name": "d", "op": "add", "inputs": ["l", "r"], "output": "y"}]})");
  // b works on what the matmul reads anyway, so it may as well run there: 5 tensors, not 7.
  CHECK(auto_of(graph) == "[a] [b c d]");
  CHECK(compiler_of(graph) == "[a] [c] [b d]");
}

TEST_CASE("chains are fused through views") {
  const OpGraph graph = graph_of(R"({"tensors": {"x": {"shape": [8, 64]}},
    "ops": [{"name": "a", "op": "exp", "inputs": ["x"], "output": "e"},
            {"name": "v", "op": "reshape", "inputs": ["e"], "output": "f", "shape": [512]},
            {"name": "b", "op": "neg", "inputs": ["f"], "output": "n"},
            {"name": "w", "op": "view", "inputs": ["n"], "output": "g", "shape": [64, 8]},
            {"name": "c", "op": "relu", "inputs": ["g"], "output": "y"}]})");
  CHECK(auto_of(graph) == "[a b c]");
  CHECK(compiler_of(graph) == "[a b c]");
}

TEST_CASE("row sums without keepdim line up with the columns of a square matrix") {
  const OpGraph graph = graph_of(R"({"tensors": {"x": {"shape": [64, 64]}},
    "ops": [{"name": "sum", "op": "sum", "inputs": ["x"], "output": "s", "axis": -1},
            {"name": "div", "op": "div", "inputs": ["x", "s"], "output": "y"}]})");
  CHECK(auto_of(graph) == "[sum] [div]");
  CHECK(obstacle(graph, {"sum", "div"}) ==
        "div aligns the result of sum with another axis than the one that sum reduces");
  const OpGraph kept = graph_of(R"({"tensors": {"x": {"shape": [64, 64]}},
    "ops": [{"name": "sum", "op": "sum", "inputs": ["x"], "output": "s", "axis": -1, "keepdim": true},
            {"name": "div", "op": "div", "inputs": ["x", "s"], "output": "y"}]})");
  CHECK(auto_of(kept) == "[sum div]");
}

TEST_CASE("reductions over different axes share a kernel only where both are sums") {
  const auto reducing = [](std::string_view columns) {
    return graph_of(fmt::format(R"({{"tensors": {{"x": {{"shape": [64, 128]}}}},
      "ops": [{{"name": "rows", "op": "sum", "inputs": ["x"], "output": "a", "axis": 1}},
              {{"name": "columns", "op": "{}", "inputs": ["x"], "output": "b", "axis": 0}}]}})",
                                columns));
  };
  CHECK(auto_of(reducing("sum")) == "[rows columns]");
  const OpGraph graph = reducing("max");
  CHECK(auto_of(graph) == "[rows] [columns]");
  CHECK(obstacle(graph, {"rows", "columns"}) ==
        "sum and max work on different rows, so no block holds the data that both need");
}

TEST_CASE("if rows do not fit on chip, fusing costs a second pass, and still saves bytes or ties") {
  // x is read twice and the sums are neither written nor read.
  const OpGraph graph = graph_of(R"({"tensors": {"x": {"shape": [4, 100000]}},
    "ops": [{"name": "sum", "op": "sum", "inputs": ["x"], "output": "s", "axis": 1, "keepdim": true},
            {"name": "div", "op": "div", "inputs": ["x", "s"], "output": "y"}]})");
  CHECK(auto_of(graph) == "[sum div]");
}

TEST_CASE(
    "a compiler has the code of custom pointwise ops; other ones only an explicit plan fuses") {
  for (const std::string op_class : {"opaque", "pointwise", "reduce", "movement", "contract"}) {
    CAPTURE(op_class);
    const OpGraph graph = graph_of(R"({"tensors": {"x": {"shape": [64]}, "h": {"shape": [64]}},
      "ops": [{"name": "neg", "op": "neg", "inputs": ["x"], "output": "n"},
              {"name": "own", "op": "custom", "inputs": ["n"], "output": "h", "class": ")" +
                                   op_class + R"("},
              {"name": "relu", "op": "relu", "inputs": ["h"], "output": "y"}],
      "fuse": [["neg", "own", "relu"]]})");
    CHECK(auto_of(graph) == "[neg] [own] [relu]");
    CHECK(compiler_of(graph) ==
          (op_class == "pointwise" ? "[neg own relu]" : "[neg] [own] [relu]"));
    CHECK(obstacle(graph, {"own", "relu"}) ==
          "the code of a custom op is unknown, so it stays a separate kernel");
    TrafficCounter counter(graph, known_devices().front());
    REQUIRE(explicit_plan(graph).kernels == std::vector<Kernel>{{0, 1, 2}});
    // x in, y out: 64 elements of 4 bytes each.
    CHECK(counter.bytes({0, 1, 2}).total() == 512);
  }
}

TEST_CASE("nothing is fused after a scatter") {
  const OpGraph scatter = graph_of(R"({"tensors": {"t": {"shape": [64, 8]},
      "i": {"shape": [64], "dtype": "i32"}, "r": {"shape": [64, 8]}},
    "ops": [{"name": "put", "op": "scatter_update", "inputs": ["t", "i", "r"], "output": "u"},
            {"name": "relu", "op": "relu", "inputs": ["u"], "output": "y"}]})");
  CHECK(auto_of(scatter) == "[put] [relu]");
}

TEST_CASE("among plans that move the same bytes the one with fewer kernels wins") {
  // The mask costs nothing either way: one kernel wins over two.
  const OpGraph graph = graph_of(R"({"tensors": {"x": {"shape": []}, "y": {"shape": [64, 64]}},
    "ops": [{"name": "a", "op": "neg", "inputs": ["x"], "output": "n"},
            {"name": "b", "op": "mul", "inputs": ["y", "n"], "output": "z"}]})");
  CHECK(auto_of(graph) == "[a b]");
}

TEST_CASE("an explicit plan is used unchanged, and ops that it does not name stay alone") {
  const OpGraph graph = graph_of(R"({"tensors": {"x": {"shape": [64, 64]}},
    "ops": [{"name": "a", "op": "exp", "inputs": ["x"], "output": "e"},
            {"op": "neg", "inputs": ["e"], "output": "n"},
            {"name": "c", "op": "sum", "inputs": ["n"], "output": "s", "axis": 0},
            {"name": "d", "op": "sum", "inputs": ["n"], "output": "t", "axis": 1}],
    "fuse": [["c", "d"], ["op#1"]]})");
  CHECK(shown(graph, explicit_plan(graph).kernels) == "[a] [op#1] [c d]");
}

TEST_CASE("groups of an explicit plan that form a cycle are refused, and the cycle is named") {
  const OpGraph graph = graph_of(R"({"tensors": {"x": {"shape": [64]}},
    "ops": [{"name": "a", "op": "exp", "inputs": ["x"], "output": "e"},
            {"name": "b", "op": "neg", "inputs": ["e"], "output": "n"},
            {"name": "c", "op": "abs", "inputs": ["n"], "output": "y"}],
    "fuse": [["a", "c"]]})");
  CHECK_THROWS_WITH_AS(explicit_plan(graph),
                       "t: /fuse: the groups form a cycle: [a, c] -> b -> [a, c]; split one "
                       "of them",
                       Error);
}

TEST_CASE("a split is offered only where it moves fewer bytes") {
  // Rows of 500,000 elements do not fit: fused, the softmax reads all four inputs twice (8 and 1
  // write); split, only their sum (5, and 2 and 1).
  const OpGraph graph = graph_of(R"({"tensors": {"a": {"shape": [4, 500000]},
      "b": {"shape": [4, 500000]}, "c": {"shape": [4, 500000]}, "d": {"shape": [4, 500000]}},
    "ops": [{"name": "ab", "op": "add", "inputs": ["a", "b"], "output": "p"},
            {"name": "abc", "op": "add", "inputs": ["p", "c"], "output": "q"},
            {"name": "abcd", "op": "add", "inputs": ["q", "d"], "output": "r"},
            {"name": "softmax", "op": "softmax", "inputs": ["r"], "output": "y"}],
    "fuse": [["ab", "abc", "abcd", "softmax"]]})");
  TrafficCounter counter(graph, known_devices().front());
  const Kernel whole = explicit_plan(graph).kernels.front();
  CHECK(counter.bytes(whole).total() == std::uint64_t{9} * 4 * 500000 * 4);
  const std::optional<Split> split = better_split(counter, whole);
  REQUIRE(split);
  CHECK(shown(graph, split->kernels) == "[ab abc abcd] [softmax]");
  CHECK(split->bytes == std::uint64_t{8} * 4 * 500000 * 4);
  // A group that cannot be generated moves x and the sums; its parts also write e, and read it.
  const OpGraph worse = graph_of(R"({"tensors": {"x": {"shape": [64, 128]}},
    "ops": [{"name": "a", "op": "exp", "inputs": ["x"], "output": "e"},
            {"name": "rows", "op": "sum", "inputs": ["e"], "output": "s", "axis": 1},
            {"name": "columns", "op": "sum", "inputs": ["e"], "output": "t", "axis": 0}],
    "fuse": [["a", "rows", "columns"]]})");
  TrafficCounter other(worse, known_devices().front());
  CHECK_FALSE(better_split(other, explicit_plan(worse).kernels.front()));
  const OpGraph fine = graph_of(R"({"tensors": {"x": {"shape": [64]}},
    "ops": [{"name": "a", "op": "exp", "inputs": ["x"], "output": "e"},
            {"name": "b", "op": "neg", "inputs": ["e"], "output": "n"}], "fuse": [["a", "b"]]})");
  TrafficCounter third(fine, known_devices().front());
  CHECK_FALSE(better_split(third, {0, 1}));
}

TEST_CASE("ops that are too large for a launch alone, too, are fused nevertheless") {
  // 2^21 x 2^21 elements between tensors of 2^21, of 4 bytes each.
  const OpGraph graph = graph_of(R"({"dims": {"N": 2097152}, "tensors": {"x": {"shape": ["N", 1]},
                                                       "z": {"shape": ["N"]}},
    "ops": [{"name": "sub", "op": "sub", "inputs": ["x", "z"], "output": "d"},
            {"name": "abs", "op": "abs", "inputs": ["d"], "output": "a"},
            {"name": "sum", "op": "sum", "inputs": ["a"], "output": "y", "axes": [1]}]})");
  const Device& device = known_devices().front();
  PlanMaker maker(graph, device);
  TrafficCounter counter(graph, device);
  for (const PlanKind kind : {PlanKind::kCompiler, PlanKind::kAuto, PlanKind::kFastest}) {
    CAPTURE(name_of(kind));
    const std::vector<Kernel>& kernels = maker.plan(kind)->kernels;
    CHECK(shown(graph, kernels) == "[sub abs sum]");
    CHECK(counter.bytes(kernels.front()).total() == 3 * 4 * 2097152);
  }
  for (const Kernel& kernel : {Kernel{0, 1, 2}, Kernel{0}, Kernel{1}, Kernel{2}}) {
    CHECK(check_launch(counter.phases(), kernel, runner_rules(device)).obstacle ==
          Obstacle::kTooLarge);
  }
}

TEST_CASE("a graph without groups has every plan of the table except the explicit one") {
  const auto plans_of = [](const std::string& rest) {
    const OpGraph graph = graph_of(R"({"tensors": {"x": {"shape": [64]}},
      "ops": [{"name": "a", "op": "exp", "inputs": ["x"], "output": "y"}])" +
                                   rest);
    PlanMaker maker(graph, known_devices().front());
    std::string names;
    for (const PlanRow& row : plan_table()) {
      CHECK(plan_named(name_of(row.kind)) == row.kind);
      if (maker.plan(row.kind) != nullptr) names += std::string(name_of(row.kind)) + " ";
    }
    return names;
  };
  CHECK(plans_of("}") == "unfused compiler auto fastest ");
  CHECK(plans_of(R"(, "fuse": [["a"]]})") == "unfused compiler auto fastest explicit ");
}

TEST_CASE("an empty op list has empty plans") {
  const OpGraph graph = graph_of(R"({"ops": []})");
  CHECK(unfused_plan(graph).kernels.empty());
  CHECK(compiler_of(graph).empty());
  CHECK(auto_of(graph).empty());
}
