// Kernels whose result would depend on the order of their threads: they overwrite memory in place
// that they also use elsewhere.

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "codegen/generate.hpp"
#include "core/error.hpp"
#include "graph/graph_text.hpp"
#include "plan/legality.hpp"
#include "planner/plans.hpp"
#include "support/plans.hpp"

namespace fusecalc::testing {
namespace {

constexpr std::uint64_t kOnChip = 232'448;

// Why the graph's ops cannot be one kernel; empty if they can. The same for what a general compiler
// would fuse, for what we launch, and for what we generate.
std::string refusal(const OpGraph& graph) {
  PhaseFinder phases(graph);
  Kernel all;
  for (OpId id = 0; id < graph.ops.size(); ++id) all.push_back(id);
  const std::string launch = explain(graph, check_launch(phases, all, {.on_chip_bytes = kOnChip}));
  if (all.size() > 1) {
    for (const bool launchable : {false, true}) {
      const Rules rules{.launchable = launchable, .on_chip_bytes = kOnChip};
      CHECK(check_kernel(phases, all, rules).legal() == launch.empty());
    }
  }
  TrafficCounter counter(graph, known_devices().front());
  bool has_code = true;
  try {
    generate(counter, all, known_devices().front());
  } catch (const Error&) {
    has_code = false;
  }
  CHECK(has_code == launch.empty());
  return launch;
}

std::string refusal(const std::string& ops) {
  return refusal(graph_of(R"({"tensors": {"x": {"shape": [64, 64]}, "w": {"shape": [64, 64]},
      "i": {"shape": [64], "dtype": "i32"}, "r": {"shape": [64, 64]}}, "ops": [)" +
                          ops + "]}"));
}

// Tiles of two linear layers of one input are computed in any order, so neither may read what the
// other overwrites, not even the same element.
TEST_CASE("linear layers of one input do not share a kernel if one overwrites what another reads") {
  const auto obstacle_of = [](const std::string& ops) {
    return refusal(graph_of(
        R"({"dtype": "bf16", "tensors": {"x": {"shape": [65, 64]}, "w": {"shape": [64, 64]},
        "u": {"shape": [64, 64]}, "r": {"shape": [65, 64]}, "s": {"shape": [65, 64]}},
        "ops": [{"op": "linear", "inputs": ["x", "w"], "output": "a"},
                {"op": "linear", "inputs": ["x", "u"], "output": "b"}, )" +
        ops + "]}"));
  };
  const std::string in_place =
      R"({"op": "add", "inputs": ["r", "a"], "output": "y", "inplace": {"y": "r"}})";
  CHECK(obstacle_of(R"({"op": "mul", "inputs": ["b", "r"], "output": "z"}, )" + in_place) ==
        "add overwrites memory in place that other threads of mul may not have read yet");
  // What only its own tiles read.
  CHECK(obstacle_of(R"({"op": "mul", "inputs": ["b", "s"], "output": "z"}, )" + in_place).empty());
}

TEST_CASE("a scatter is not fused with what writes or reads its table") {
  const std::string put = R"({"op": "scatter_update", "inputs": ["x", "i", "r"], "output": "y"})";
  CHECK(refusal(R"({"op": "relu", "inputs": ["x"], "output": "h"},
                    {"op": "scatter_update", "inputs": ["h", "i", "r"], "output": "y"})") ==
        "scatter_update may leave rows as they were, so relu has to write all of them before "
        "scatter_update runs");
  CHECK(
      refusal(R"({"op": "exp", "inputs": ["x"], "output": "e"}, )" + put) ==
      "scatter_update overwrites memory in place that other threads of exp may not have read yet");
  CHECK(refusal(R"({"op": "scatter_update", "inputs": ["x", "i", "x"], "output": "y"})") ==
        "scatter_update overwrites memory in place that other threads of scatter_update may not "
        "have read yet");
  // What makes the updates may be fused, and what reads them as well.
  CHECK(refusal(put).empty());
  CHECK(refusal(R"({"op": "neg", "inputs": ["r"], "output": "n"},
                    {"op": "relu", "inputs": ["r"], "output": "z"},
                    {"op": "scatter_update", "inputs": ["x", "i", "n"], "output": "y"})")
            .empty());
}

TEST_CASE("what is overwritten in place may be read at the same element") {
  const std::string twice = R"({"op": "mul", "inputs": ["x", 2], "output": "y",
                                "inplace": {"y": "x"}})";
  CHECK(refusal(twice).empty());
  CHECK(refusal(R"({"op": "exp", "inputs": ["x"], "output": "e"}, )" + twice).empty());
  CHECK(refusal(R"({"op": "softmax", "inputs": ["x"], "output": "y", "inplace": {"y": "x"}})")
            .empty());
  CHECK(refusal(R"({"op": "sum", "inputs": ["x"], "axis": 1, "keepdim": true, "output": "s"},
                    {"op": "sub", "inputs": ["x", "s"], "output": "y", "inplace": {"y": "x"}})")
            .empty());
  CHECK(refusal(R"({"op": "linear", "inputs": ["r", "w"], "output": "l"},
                    {"op": "add", "inputs": ["l", "x"], "output": "y", "inplace": {"y": "x"}})")
            .empty());
}

TEST_CASE("what is overwritten in place is not read at other elements") {
  const std::string twice = R"({"op": "mul", "inputs": ["x", 2], "output": "y",
                                "inplace": {"y": "x"}})";
  const auto fails = [&](const std::string& reader) {
    CAPTURE(reader);
    CHECK(refusal(reader + ", " + twice).find("overwrites memory in place") != std::string::npos);
  };
  fails(R"({"op": "transpose", "inputs": ["x"], "output": "z"})");
  fails(R"({"op": "exp", "inputs": ["x"], "output": "e"},
           {"op": "transpose", "inputs": ["e"], "output": "z"})");
  fails(R"({"op": "permute_view", "inputs": ["x"], "output": "v"},
           {"op": "neg", "inputs": ["v"], "output": "z"})");
  fails(R"({"op": "slice_view", "inputs": ["x"], "output": "v", "end": 32},
           {"op": "neg", "inputs": ["v"], "output": "z"})");
  fails(R"({"op": "slice_view", "inputs": ["x"], "output": "v", "end": 32},
           {"op": "softmax", "inputs": ["v"], "output": "z"})");
  fails(R"({"op": "expand_view", "inputs": ["x"], "output": "v", "shape": [2, 64, 64]},
           {"op": "neg", "inputs": ["v"], "output": "z"})");
  fails(R"({"op": "gather", "inputs": ["x", "i"], "output": "z"})");
  fails(R"({"op": "concat", "inputs": ["x", "r"], "output": "z"})");
  fails(R"({"op": "slice", "inputs": ["x"], "end": 32, "output": "z"})");
  CHECK(refusal(R"({"op": "matmul", "inputs": ["x", "w"], "output": "y", "inplace": {"y": "x"}})")
            .find("overwrites memory in place") != std::string::npos);
  CHECK(refusal(R"({"op": "linear", "inputs": ["x", "w"], "output": "l"},
                    {"op": "add", "inputs": ["l", "x"], "output": "y", "inplace": {"y": "x"}})")
            .find("overwrites memory in place") != std::string::npos);
}

TEST_CASE("rows may be reduced of what is computed in the place of an operand") {
  const std::string add = R"({"op": "add", "inputs": ["x", "r"], "output": "h",
                              "inplace": {"h": "r"}}, )";
  CHECK(refusal(add + R"({"op": "softmax", "inputs": ["h"], "output": "y"})").empty());
  CHECK(refusal(add + R"({"op": "max", "inputs": ["h"], "axis": 1, "keepdim": true, "output": "m"},
                          {"op": "sub", "inputs": ["h", "m"], "output": "y"})")
            .empty());
  // Nobody reads h once the sum of the other result is there.
  CHECK(refusal(add + R"({"op": "softmax", "inputs": ["h"], "output": "s"},
                          {"op": "softmax", "inputs": ["s"], "output": "y"})")
            .find("overwrites memory in place") != std::string::npos);
  // Another row reads it.
  CHECK(refusal(add + R"({"op": "transpose", "inputs": ["h"], "output": "t"},
                          {"op": "softmax", "inputs": ["t"], "output": "y"})") != "");
}

TEST_CASE("what is overwritten in place is not read again after the rows are reduced") {
  CHECK(refusal(R"({"op": "sum", "inputs": ["x"], "axis": 1, "keepdim": true, "output": "s"},
                    {"op": "sub", "inputs": ["x", "s"], "output": "z"},
                    {"op": "mul", "inputs": ["x", 2], "output": "y", "inplace": {"y": "x"}})")
            .find("overwrites memory in place") != std::string::npos);
}

TEST_CASE("a relu before a scatter into its result stays a kernel of its own") {
  const OpGraph graph = graph_of(R"({"tensors": {"x": {"shape": [800, 64]},
      "i": {"shape": [800], "dtype": "i32"}, "r": {"shape": [800, 64]}},
    "ops": [{"op": "relu", "inputs": ["x"], "output": "h"},
            {"op": "scatter_update", "inputs": ["h", "i", "r"], "output": "y"}]})");
  TrafficCounter counter(graph, known_devices().front());
  CHECK(make_plan(counter, PlanKind::kAuto).kernels.size() == 2);
  CHECK(compiler_plan(counter).kernels.size() == 2);
}

}  // namespace
}  // namespace fusecalc::testing
