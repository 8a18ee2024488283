// The design's examples and the rules of its byte model, with numbers worked out by hand.

#include "traffic/counter.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <exception>
#include <optional>
#include <string>

#include "graph/graph_text.hpp"
#include "traffic/graph_bytes.hpp"

using namespace fusecalc;
using namespace fusecalc::testing;

TEST_CASE("log(relu(x+b)) moves 7 unfused and 3 fused") {
  const OpGraph graph = graph_of(R"({"tensors": {"x": {"shape": [1000]}, "b": {"shape": [1000]}},
    "ops": [{"op": "add", "inputs": ["x", "b"], "output": "s"},
            {"op": "relu", "inputs": ["s"], "output": "r"},
            {"op": "log", "inputs": ["r"], "output": "y"}]})");
  CHECK(unfused_bytes(graph) == units(4, 3));
  CHECK(kernel_bytes(graph) == units(2, 1));
  CHECK(limit_bytes(graph) == units(2, 1));
}

TEST_CASE("sigmoid(x) * tanh(x+1) moves 9 unfused and 2 fused; constants are free") {
  const OpGraph graph = graph_of(R"({"tensors": {"x": {"shape": [1000]}},
    "ops": [{"op": "sigmoid", "inputs": ["x"], "output": "s"},
            {"op": "add", "inputs": ["x", 1], "output": "a"},
            {"op": "tanh", "inputs": ["a"], "output": "t"},
            {"op": "mul", "inputs": ["s", "t"], "output": "y"}]})");
  CHECK(unfused_bytes(graph) == units(5, 4));
  CHECK(kernel_bytes(graph) == units(1, 1));
}

TEST_CASE("x+1, *2, relu, square moves 8 unfused and 2 fused") {
  const OpGraph graph = graph_of(R"({"tensors": {"x": {"shape": [1000]}},
    "ops": [{"op": "add", "inputs": ["x", 1], "output": "a"},
            {"op": "mul", "inputs": [2, "a"], "output": "m"},
            {"op": "relu", "inputs": ["m"], "output": "r"},
            {"op": "square", "inputs": ["r"], "output": "y"}]})");
  CHECK(unfused_bytes(graph) == units(4, 4));
  CHECK(kernel_bytes(graph) == units(1, 1));
  CHECK(kernel_bytes(graph, {"op#1", "op#2"}) == units(1, 1));
}

TEST_CASE("softmax as max, sub, exp, sum, div moves 8 unfused and 2 fused") {
  const OpGraph graph = graph_of(R"({"tensors": {"x": {"shape": [10, 100]}},
    "ops": [{"op": "max", "inputs": ["x"], "output": "m", "axis": -1, "keepdim": true},
            {"op": "sub", "inputs": ["x", "m"], "output": "d"},
            {"op": "exp", "inputs": ["d"], "output": "e"},
            {"op": "sum", "inputs": ["e"], "output": "s", "axis": -1, "keepdim": true},
            {"op": "div", "inputs": ["e", "s"], "output": "y"}]})");
  // 8 full tensors and each of the two vectors of 10 twice.
  CHECK(unfused_bytes(graph).total() == 8 * kUnit + 4 * 40);
  CHECK(kernel_bytes(graph) == units(1, 1));
}

TEST_CASE("Adam moves 7: p, g, m and v in, p, m and v out") {
  const OpGraph graph = graph_of(R"({"tensors": {"p": {"shape": [1000]}, "g": {"shape": [1000]},
               "m": {"shape": [1000]}, "v": {"shape": [1000]}},
    "ops": [{"op": "mul", "inputs": ["g", 0.1], "output": "g1"},
            {"op": "fma", "inputs": ["m", 0.9, "g1"], "output": "m2", "inplace": {"m2": "m"}},
            {"op": "square", "inputs": ["g"], "output": "gg"},
            {"op": "mul", "inputs": ["gg", 0.001], "output": "g2"},
            {"op": "fma", "inputs": ["v", 0.999, "g2"], "output": "v2", "inplace": {"v2": "v"}},
            {"op": "sqrt", "inputs": ["v2"], "output": "r"},
            {"op": "add", "inputs": ["r", 1e-8], "output": "d"},
            {"op": "div", "inputs": ["m2", "d"], "output": "u"},
            {"op": "mul", "inputs": ["u", 0.001], "output": "step"},
            {"op": "sub", "inputs": ["p", "step"], "output": "p2", "inplace": {"p2": "p"}}]})");
  CHECK(kernel_bytes(graph) == units(4, 3));
  CHECK(limit_bytes(graph) == units(4, 3));
  // One by one: 14 tensors read, and each op writes one.
  CHECK(unfused_bytes(graph) == units(14, 10));
}

TEST_CASE("every tensor counts with its own element type") {
  const OpGraph graph = graph_of(R"({"tensors": {
      "x": {"shape": [1000], "dtype": "bf16"}, "w": {"shape": [1000], "dtype": "f64"},
      "m": {"shape": [1000], "dtype": "bool"}},
    "ops": [{"name": "pick", "op": "where", "inputs": ["m", "x", 0], "output": "y"},
            {"name": "mul", "op": "mul", "inputs": ["y", "w"], "output": "z"},
            {"name": "gt", "op": "gt", "inputs": ["z", 0], "output": "c"},
            {"name": "low", "op": "cast", "inputs": ["z"], "output": "q", "to": "fp8_e4m3"}]})");
  CHECK(kernel_bytes(graph, {"pick"}) == Bytes{1000 + 2000, 2000});
  CHECK(kernel_bytes(graph, {"mul"}) == Bytes{2000 + 8000, 8000});
  CHECK(kernel_bytes(graph, {"gt"}) == Bytes{8000, 1000});
  CHECK(kernel_bytes(graph) == Bytes{1000 + 2000 + 8000, 1000 + 1000});
}

TEST_CASE("4-bit elements take half a byte, rounded up per tensor") {
  const OpGraph graph = graph_of(R"({"tensors": {"q": {"shape": [3, 5], "dtype": "i4"},
      "s": {"shape": [3, 5], "dtype": "f16"}},
    "ops": [{"op": "mul", "inputs": ["q", "s"], "output": "y"},
            {"op": "cast", "inputs": ["y"], "output": "z", "to": "u4"}]})");
  CHECK(kernel_bytes(graph) == Bytes{8 + 30, 8});
  CHECK(unfused_bytes(graph) == Bytes{8 + 30 + 30, 30 + 8});
}

TEST_CASE("a broadcast operand counts at its own size") {
  const OpGraph graph = graph_of(R"({"tensors": {"x": {"shape": [8, 10, 100]},
      "row": {"shape": [100]}, "column": {"shape": [10, 1]}, "one": {"shape": []}},
    "ops": [{"op": "add", "inputs": ["x", "row"], "output": "a"},
            {"op": "mul", "inputs": ["column", "a"], "output": "b"},
            {"op": "sub", "inputs": ["b", "one"], "output": "y"}]})");
  const std::uint64_t x = 8 * 10 * 100 * 4;
  CHECK(unfused_bytes(graph) == Bytes{3 * x + 400 + 40 + 4, 3 * x});
  CHECK(kernel_bytes(graph) == Bytes{x + 400 + 40 + 4, x});
  // broadcast_to writes the repetitions as a kernel by itself, and moves nothing inside a fused
  // one.
  const OpGraph wide = graph_of(R"({"tensors": {"x": {"shape": [100]}},
    "ops": [{"name": "b", "op": "broadcast_to", "inputs": ["x"], "output": "w", "shape": [10, 100]},
            {"name": "r", "op": "relu", "inputs": ["w"], "output": "y"}]})");
  CHECK(kernel_bytes(wide, {"b"}) == Bytes{400, 4000});
  CHECK(kernel_bytes(wide) == Bytes{400, 4000});
}

TEST_CASE("an in-place result counts as its own write, and once") {
  const OpGraph graph = graph_of(R"({"tensors": {"h": {"shape": [1000]}, "d": {"shape": [1000]}},
    "ops": [{"name": "a", "op": "add", "inputs": ["h", "d"], "output": "h2", "inplace": {"h2": "h"}},
            {"name": "b", "op": "mul", "inputs": ["h2", 2], "output": "h3", "inplace": {"h3": "h2"}},
            {"name": "c", "op": "relu", "inputs": ["h3"], "output": "y"}]})");
  CHECK(unfused_bytes(graph) == units(4, 3));
  // h is a graph input: its memory is seen from outside, so h3 is written beside y.
  CHECK(kernel_bytes(graph) == units(2, 2));
  CHECK(kernel_bytes(graph, {"a", "b"}) == units(2, 1));
  CHECK(bytes_written(graph, {"a", "b"}, "h3") == kUnit);
  CHECK(bytes_read(graph, {"a", "b", "c"}, "h") == kUnit);
}

TEST_CASE("reductions and losses read each input once and write their results") {
  const OpGraph graph = graph_of(R"({"tensors": {"x": {"shape": [64, 70000]},
      "labels": {"shape": [64], "dtype": "i64"}},
    "ops": [{"name": "var", "op": "var", "inputs": ["x"], "output": "v", "axes": [1]},
            {"name": "all", "op": "sum", "inputs": ["x"], "output": "s"},
            {"name": "best", "op": "argmax", "inputs": ["x"], "output": "a", "axis": 0},
            {"name": "loss", "op": "cross_entropy", "inputs": ["x", "labels"],
             "outputs": ["l", "z"]}]})");
  const std::uint64_t x = 64 * 70000 * 4;
  CHECK(kernel_bytes(graph, {"var"}) == Bytes{x, 64 * 4});
  CHECK(kernel_bytes(graph, {"all"}) == Bytes{x, 4});
  CHECK(kernel_bytes(graph, {"best"}) == Bytes{x, 70000 * 8});
  CHECK(kernel_bytes(graph, {"loss"}) == Bytes{x + 64 * 8, 4 + 64 * 4});
}

TEST_CASE("nll_loss reads one score of each row") {
  const OpGraph graph = graph_of(R"({"tensors": {"p": {"shape": [64, 1000]},
      "labels": {"shape": [64], "dtype": "i32"}},
    "ops": [{"op": "nll_loss", "inputs": ["p", "labels"], "output": "l"}]})");
  CHECK(kernel_bytes(graph) == Bytes{64 * 4 + 64 * 4, 4});
}

TEST_CASE("dropout writes its mask as bytes of bool") {
  const OpGraph graph = graph_of(R"({"dtype": "f16", "tensors": {"x": {"shape": [1000]}},
    "ops": [{"op": "dropout", "inputs": ["x"], "outputs": ["y", "m"], "save_mask": true, "p": 0.1}]})");
  CHECK(kernel_bytes(graph) == Bytes{2000, 2000 + 1000});
}

TEST_CASE("a result that is both consumed and an output is written and not read again") {
  const OpGraph graph = graph_of(R"({"tensors": {"x": {"shape": [1000]}},
    "ops": [{"name": "a", "op": "exp", "inputs": ["x"], "output": "e"},
            {"name": "b", "op": "neg", "inputs": ["e"], "output": "y"}],
    "outputs": ["e", "y"]})");
  CHECK(unfused_bytes(graph) == units(2, 2));
  CHECK(kernel_bytes(graph) == units(1, 2));
  CHECK(limit_bytes(graph) == units(1, 2));
}

TEST_CASE("a value with readers inside and outside of a kernel is written once") {
  const OpGraph graph = graph_of(R"({"tensors": {"x": {"shape": [1000]}},
    "ops": [{"name": "a", "op": "exp", "inputs": ["x"], "output": "e"},
            {"name": "b", "op": "neg", "inputs": ["e"], "output": "n"},
            {"name": "c", "op": "abs", "inputs": ["e"], "output": "m"},
            {"name": "d", "op": "add", "inputs": ["n", "m"], "output": "y"}]})");
  CHECK(kernel_bytes(graph, {"a", "b"}) == units(1, 2));
  CHECK(kernel_bytes(graph, {"c", "d"}) == units(2, 1));
  CHECK(kernel_bytes(graph) == units(1, 1));
}

TEST_CASE("a kernel whose bytes exceed 2^63 - 1 is refused") {
  const std::string fault = [] {
    const OpGraph graph =
        graph_of(R"({"tensors": {"x": {"shape": [4611686018427387904], "dtype": "i8"},
        "y": {"shape": [4611686018427387904], "dtype": "i8"}},
      "ops": [{"name": "sum", "op": "add", "inputs": ["x", "y"], "output": "z"}]})");
    try {
      kernel_bytes(graph);
    } catch (const std::exception& error) {
      return std::string(error.what());
    }
    return std::string();
  }();
  CHECK(fault == "t: /ops/0: the kernel of \"sum\" moves more than 9223372036854775807 bytes");
}

TEST_CASE("what is needed outside of a kernel may be told where the graph has other readers") {
  const OpGraph graph = graph_of(R"({"tensors": {"x": {"shape": [1000]}},
    "ops": [{"op": "relu", "inputs": ["x"], "output": "r"},
            {"op": "exp", "inputs": ["r"], "output": "e"},
            {"op": "abs", "inputs": ["r"], "output": "a"}]})");
  TrafficCounter counter(graph, known_devices().front());
  const Kernel kernel = {0, 1};
  CHECK(counter.bytes(kernel) == units(1, 2));
  counter.phases().set_needed([](const Outline::Result& result) {
    return result.output ? std::nullopt : std::optional(false);
  });
  CHECK(counter.bytes(kernel) == units(1, 1));
  counter.phases().set_needed(nullptr);
  CHECK(counter.bytes(kernel) == units(1, 2));
}
