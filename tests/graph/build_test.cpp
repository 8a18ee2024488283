// What holds an op list together: dims, order, aliases, results.

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "graph/graph_text.hpp"

using namespace fusecalc;
using namespace fusecalc::testing;

namespace {

std::string order_of(const OpGraph& graph) {
  std::string text;
  for (const Op& op : graph.ops) text += (text.empty() ? "" : " ") + op.name;
  return text;
}

std::string outputs_of(const OpGraph& graph) {
  std::string text;
  for (const Tensor& tensor : graph.tensors) {
    if (tensor.output) text += (text.empty() ? "" : " ") + tensor.name;
  }
  return text;
}

}  // namespace

TEST_CASE("dims name extents, and an override replaces one") {
  const std::string_view list =
      R"({"dims": {"T": 8, "D": 4}, "tensors": {"x": {"shape": ["T", "D", 2]}},
    "ops": [{"op": "reshape", "inputs": ["x"], "output": "r", "shape": ["T", -1]},
            {"op": "relu", "inputs": ["r"], "output": "y"}]})";
  CHECK(tensor_named(graph_of(list), "y").type.shape == Shape{8, 8});
  CHECK(tensor_named(graph_of(list, {{"T", 100}}), "y").type.shape == Shape{100, 8});
  CHECK(tensor_named(graph_of(list, {{"T", 3}, {"T", 5}, {"D", 1}}), "y").type.shape ==
        Shape{5, 2});
  CHECK(tensor_named(graph_of(list, {{"D", 0}}), "x").elements == 0);
}

TEST_CASE("ops may be listed in any order, and keep it if it is a valid execution order") {
  const OpGraph turned = graph_of(R"({"tensors": {"x": {"shape": [4]}},
    "ops": [{"name": "last", "op": "add", "inputs": ["b", "a"], "output": "y"},
            {"name": "second", "op": "neg", "inputs": ["a"], "output": "b"},
            {"name": "first", "op": "exp", "inputs": ["x"], "output": "a"}]})");
  CHECK(order_of(turned) == "first second last");
  CHECK(turned.ops[0].position == 2);
  const OpGraph kept = graph_of(R"({"tensors": {"x": {"shape": [4]}},
    "ops": [{"name": "b", "op": "exp", "inputs": ["x"], "output": "p"},
            {"name": "a", "op": "neg", "inputs": ["x"], "output": "q"},
            {"op": "abs", "inputs": ["p"], "output": "r"}]})");
  CHECK(order_of(kept) == "b a op#2");
}

TEST_CASE("an op that overwrites a value runs after all that read it") {
  const OpGraph graph = graph_of(R"({"tensors": {"h": {"shape": [4]}},
    "ops": [{"name": "over", "op": "mul", "inputs": ["h", 2], "output": "h2", "inplace": {"h2": "h"}},
            {"name": "read", "op": "exp", "inputs": ["h"], "output": "e"},
            {"name": "use", "op": "neg", "inputs": ["h2"], "output": "n"}]})");
  CHECK(order_of(graph) == "read over use");
  const Tensor& result = tensor_named(graph, "h2");
  CHECK(graph.tensors[result.storage].name == "h");
  const auto before = graph.before[op_called(graph, "over")];
  CHECK(std::vector<OpId>(before.begin(), before.end()) == std::vector<OpId>{0});
}

TEST_CASE("a chain of in-place results is stored in the first tensor's memory") {
  const OpGraph graph = graph_of(R"({"tensors": {"x": {"shape": [4]}},
    "ops": [{"op": "exp", "inputs": ["x"], "output": "a"},
            {"op": "neg", "inputs": ["a"], "output": "b", "inplace": {"b": "a"}},
            {"op": "abs", "inputs": ["b"], "output": "c", "inplace": {"c": "b"}},
            {"op": "view", "inputs": ["c"], "output": "d", "shape": [2, 2]}]})");
  for (const char* name : {"a", "b", "c"}) {
    CHECK(graph.tensors[tensor_named(graph, name).storage].name == "a");
  }
  CHECK(graph.tensors[tensor_named(graph, "d").value].name == "c");
}

TEST_CASE("two ops that each read what the other overwrites are refused") {
  CHECK(fault_of(R"({"tensors": {"x": {"shape": [4]}, "z": {"shape": [4]}},
    "ops": [{"name": "p", "op": "add", "inputs": ["x", "z"], "output": "a", "inplace": {"a": "x"}},
            {"name": "q", "op": "sub", "inputs": ["x", "z"], "output": "b", "inplace": {"b": "z"}}]})") ==
        "/ops/0: \"p\" overwrites \"x\", which a later op still reads");
}

TEST_CASE("outputs are the tensors that no op reads, unless the list names them") {
  const std::string_view ops = R"("tensors": {"x": {"shape": [4]}, "idle": {"shape": [9]}},
    "ops": [{"op": "exp", "inputs": ["x"], "output": "e"},
            {"op": "neg", "inputs": ["e"], "output": "n"},
            {"op": "view", "inputs": ["e"], "output": "v", "shape": [2, 2]}])";
  CHECK(outputs_of(graph_of("{" + std::string(ops) + "}")) == "e n");
  CHECK(outputs_of(graph_of("{" + std::string(ops) + R"(, "outputs": ["n"]})")) == "n");
  CHECK(outputs_of(graph_of("{" + std::string(ops) + R"(, "outputs": ["v", "e", "x"]})")) == "x e");
}

TEST_CASE("a custom op takes its shapes from the declarations and its class from the list") {
  const OpGraph graph = graph_of(R"({"tensors": {"x": {"shape": [4, 8]}, "s": {"shape": [4]},
      "t": {"shape": [1]}},
    "ops": [{"op": "custom", "inputs": ["x", 3], "outputs": ["s", "t"], "class": "reduce",
             "flops": 77},
            {"op": "relu", "inputs": ["s"], "output": "y"}]})");
  CHECK(graph.ops[0].op_class == OpClass::kReduce);
  CHECK(graph.ops[0].flops == 77);
  CHECK(graph.ops[0].writes[0].most == 4);
  CHECK(graph.ops[0].writes[1].most == 1);
  CHECK(fault_of(R"({"tensors": {"x": {"shape": [4]}},
    "ops": [{"op": "custom", "inputs": ["x"], "output": "h"}]})") ==
        "/ops/0/output: \"h\" is an output of a custom op, so its shape must be declared");
}

TEST_CASE("a group of an explicit plan drops views and names unnamed ops op#index") {
  const OpGraph graph = graph_of(R"({"tensors": {"x": {"shape": [4]}},
    "ops": [{"op": "exp", "inputs": ["x"], "output": "e"},
            {"name": "v", "op": "view", "inputs": ["e"], "output": "w", "shape": [2, 2]},
            {"name": "n", "op": "neg", "inputs": ["w"], "output": "y"}],
    "fuse": [["n", "v", "op#0"]]})");
  REQUIRE(graph.fuse);
  CHECK(*graph.fuse == std::vector<std::vector<OpId>>{{0, 1}});
}

TEST_CASE("a name may hold anything that JSON can") {
  const OpGraph graph = graph_of(R"({"tensors": {"": {"shape": [4]}, "a b/c~d": {"shape": [4]}},
    "ops": [{"name": "π", "op": "add", "inputs": ["", "a b/c~d"], "output": "\n"}]})");
  CHECK(graph.ops[0].name == "π");
  CHECK(tensor_named(graph, "\n").output);
}

TEST_CASE("notes are ignored in every object, and names that read alike are none") {
  const OpGraph graph = graph_of(R"({"comment": 1, "dims": {"comment": "B is the batch", "B": 8},
    "tensors": {"description": "what comes in", "x": {"shape": ["B"], "comment": [null]},
                "c": {"shape": [2, "B"], "dtype": "f32"}},
    "ops": [{"op": "custom", "inputs": ["x"], "output": "c", "$schema": {}, "class": "opaque",
             "reads": {"comment": "all", "x": 8}, "writes": {"description": "both", "c": 16}},
            {"op": "add", "inputs": ["x", "x"], "output": "y", "attrs": {"comment": "twice"},
             "inplace": {"comment": "x dies here", "y": "x"}}]})");
  CHECK(graph.ops.size() == 2);
  CHECK(tensor_named(graph, "x").elements == 8);
  const OpGraph named = graph_of(R"({"dims": {"comment": 4}, "tensors": {"comment":
    {"shape": ["comment"]}}, "ops": [{"op": "exp", "inputs": ["comment"], "output": "y"}]})");
  CHECK(tensor_named(named, "y").elements == 4);
}
