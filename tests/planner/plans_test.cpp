// What the planners make of graphs where plans tie or compete.

#include "planner/plans.hpp"

#include <doctest/doctest.h>

#include <string>
#include <string_view>

#include "core/error.hpp"
#include "graph/graph_text.hpp"
#include "support/plans.hpp"

using namespace fusecalc;
using namespace fusecalc::testing;

namespace {

// "[a b] [c]": the ops of each kernel by name.
std::string shown(const OpGraph& graph, const std::vector<Kernel>& kernels) {
  std::string text;
  for (const Kernel& kernel : kernels) {
    text += text.empty() ? "[" : " [";
    for (const OpId op : kernel) text += (op == kernel.front() ? "" : " ") + graph.ops[op].name;
    text += "]";
  }
  return text;
}

std::string compiler_of(const OpGraph& graph) {
  TrafficCounter counter(graph, known_devices().front());
  return shown(graph, compiler_plan(counter).kernels);
}

std::string auto_of(const OpGraph& graph) {
  TrafficCounter counter(graph, known_devices().front());
  return shown(graph, auto_plan(counter, compiler_plan(counter)).kernels);
}

// Why the ops cannot be one kernel of our runner; empty where they can.
std::string obstacle(const OpGraph& graph, const std::vector<std::string>& ops) {
  Kernel kernel;
  for (const std::string& name : ops) kernel.push_back(op_called(graph, name));
  PhaseFinder phases(graph);
  const Rules rules = runner_rules(known_devices().front());
  return explain(graph, check_kernel(phases, kernel, rules));
}

}  // namespace

TEST_CASE("a value that feeds a matmul and a pointwise op is written once and read by the matmul") {
  const OpGraph graph =
      graph_of(R"({"tensors": {"x": {"shape": [64, 256]}, "w": {"shape": [256, 256]}},
    "ops": [{"name": "exp", "op": "exp", "inputs": ["x"], "output": "e"},
            {"name": "mm", "op": "matmul", "inputs": ["e", "w"], "output": "p"},
            {"name": "neg", "op": "neg", "inputs": ["e"], "output": "n"}]})");
  CHECK(auto_of(graph) == "[exp neg] [mm]");
  CHECK(compiler_of(graph) == "[exp neg] [mm]");
  CHECK(obstacle(graph, {"exp", "mm"}) ==
        "matmul loads its operands directly from memory; exp would have to run inside its main "
        "loop");
}

TEST_CASE("an op that reads the result and the input of a matmul joins the matmul's kernel") {
  const OpGraph graph =
      graph_of(R"({"tensors": {"x": {"shape": [64, 256]}, "w": {"shape": [256, 256]}},
    "ops": [{"name": "exp", "op": "exp", "inputs": ["x"], "output": "e"},
            {"name": "mm", "op": "matmul", "inputs": ["e", "w"], "output": "p"},
            {"name": "res", "op": "add", "inputs": ["p", "e"], "output": "y"}]})");
  CHECK(auto_of(graph) == "[exp] [mm res]");
  CHECK(compiler_of(graph) == "[exp] [mm] [res]");
}

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
  CHECK(obstacle(graph, {"a", "b"}) == "they share no tensor");
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

TEST_CASE("a second linear needs whole rows of the first") {
  const OpGraph graph =
      graph_of(R"({"tensors": {"x": {"shape": [64, 128]}, "w": {"shape": [256, 128]},
      "u": {"shape": [64, 256]}},
    "ops": [{"name": "up", "op": "linear", "inputs": ["x", "w"], "output": "h"},
            {"name": "down", "op": "linear", "inputs": ["h", "u"], "output": "y"}]})");
  CHECK(auto_of(graph) == "[up] [down]");
  CHECK(obstacle(graph, {"up", "down"}) == "the second contraction needs whole rows of the first");
}

namespace {

// softmax(q k^T / 8) v with the softmax spelt out, on `queries` rows of scores.
OpGraph attention_of_primitives(std::uint64_t queries, std::string_view outputs = "") {
  return graph_of(R"({"dims": {"T": 1}, "dtype": "bf16", "tensors": {"q": {"shape": [4, "T", 64]},
      "k": {"shape": [4, "T", 64]}, "v": {"shape": [4, "T", 64]}},
    "ops": [{"name": "qk", "op": "matmul", "inputs": ["q", "k"], "output": "s", "transpose_b": true},
            {"name": "scale", "op": "mul", "inputs": ["s", 0.125], "output": "t"},
            {"name": "max", "op": "max", "inputs": ["t"], "output": "m", "axis": -1, "keepdim": true},
            {"name": "sub", "op": "sub", "inputs": ["t", "m"], "output": "d"},
            {"name": "exp", "op": "exp", "inputs": ["d"], "output": "e"},
            {"name": "sum", "op": "sum", "inputs": ["e"], "output": "n", "axis": -1, "keepdim": true},
            {"name": "div", "op": "div", "inputs": ["e", "n"], "output": "p"},
            {"name": "pv", "op": "matmul", "inputs": ["p", "v"], "output": "o"}])" +
                      std::string(outputs) + "}",
                  {{"T", queries}});
}

constexpr std::string_view kOneKernel = "[qk scale max sub exp sum div pv]";

}  // namespace

TEST_CASE("the attention pattern from primitives is one kernel, for compilers too") {
  for (const std::uint64_t queries : {std::uint64_t{128}, std::uint64_t{4096}}) {
    CAPTURE(queries);
    CHECK(auto_of(attention_of_primitives(queries)) == kOneKernel);
    CHECK(compiler_of(attention_of_primitives(queries)) == kOneKernel);
  }
}

TEST_CASE("attention reduces the rows of its scores only for its softmax") {
  const OpGraph graph = graph_of(R"({"dtype": "bf16", "tensors": {"q": {"shape": [4, 512, 64]},
      "k": {"shape": [4, 512, 64]}, "v": {"shape": [4, 512, 64]}},
    "ops": [{"name": "qk", "op": "matmul", "inputs": ["q", "k"], "output": "s", "transpose_b": true},
            {"name": "mean", "op": "mean", "inputs": ["s"], "output": "m", "axis": -1,
             "keepdim": true},
            {"name": "centre", "op": "sub", "inputs": ["s", "m"], "output": "c"},
            {"name": "softmax", "op": "softmax", "inputs": ["c"], "output": "p"},
            {"name": "pv", "op": "matmul", "inputs": ["p", "v"], "output": "o"}]})");
  CHECK(obstacle(graph, {"qk", "mean", "centre", "softmax", "pv"}) ==
        "the second contraction needs whole rows of the first");
}

TEST_CASE("dropout of the weights is fused into attention") {
  const OpGraph graph = graph_of(R"({"dtype": "bf16", "tensors": {"q": {"shape": [4, 512, 64]},
      "k": {"shape": [4, 512, 64]}, "v": {"shape": [4, 512, 64]}},
    "ops": [{"name": "qk", "op": "matmul", "inputs": ["q", "k"], "output": "s", "transpose_b": true},
            {"name": "softmax", "op": "softmax", "inputs": ["s"], "output": "p"},
            {"name": "drop", "op": "dropout", "inputs": ["p"], "output": "d", "p": 0.1},
            {"name": "pv", "op": "matmul", "inputs": ["d", "v"], "output": "o"}]})");
  CHECK(auto_of(graph) == "[qk softmax drop pv]");
}

TEST_CASE("scores that are an output of the graph prevent fused attention") {
  const OpGraph graph = attention_of_primitives(4096, R"(, "outputs": ["o", "s"])");
  CHECK(auto_of(graph) == "[qk] [scale max sub exp sum div] [pv]");
  CHECK(obstacle(graph, {"qk", "scale", "max", "sub", "exp", "sum", "div", "pv"}) ==
        "the scores between the two contractions are used elsewhere, so they must be written to "
        "memory");
}

// One head of attention written out, too many ops for an exact search.
constexpr std::string_view kLongAttention = R"({"dtype": "bf16", "dims": {"T": 2048, "D": 256},
    "tensors": {"x": {"shape": ["T", "D"]}, "g": {"shape": ["D"]}, "wq": {"shape": ["D", "D"]},
      "wk": {"shape": ["D", "D"]}, "wv": {"shape": ["D", "D"]}, "wo": {"shape": ["D", "D"]}},
    "ops": [{"name": "norm", "op": "rms_norm", "inputs": ["x", "g"], "output": "h"},
            {"name": "q", "op": "linear", "inputs": ["h", "wq"], "output": "hq"},
            {"name": "k", "op": "linear", "inputs": ["h", "wk"], "output": "hk"},
            {"name": "v", "op": "linear", "inputs": ["h", "wv"], "output": "hv"},
            {"name": "qk", "op": "matmul", "inputs": ["hq", "hk"], "output": "s", "transpose_b": true},
            {"name": "scale", "op": "mul", "inputs": ["s", 0.03], "output": "t"},
            {"name": "max", "op": "max", "inputs": ["t"], "output": "m", "axis": -1, "keepdim": true},
            {"name": "sub", "op": "sub", "inputs": ["t", "m"], "output": "d"},
            {"name": "exp", "op": "exp", "inputs": ["d"], "output": "e"},
            {"name": "sum", "op": "sum", "inputs": ["e"], "output": "n", "axis": -1, "keepdim": true},
            {"name": "div", "op": "div", "inputs": ["e", "n"], "output": "p"},
            {"name": "pv", "op": "matmul", "inputs": ["p", "hv"], "output": "a"},
            {"name": "out", "op": "linear", "inputs": ["a", "wo"], "output": "b"},
            {"name": "res", "op": "add", "inputs": ["b", "x"], "output": "y"}]})";

TEST_CASE("the attention pattern is found inside of a graph too large for an exact search") {
  const OpGraph graph = graph_of(std::string(kLongAttention));
  CHECK(auto_of(graph) == "[norm] [q] [k] [v] [qk scale max sub exp sum div pv] [out res]");
  CHECK(compiler_of(graph) == "[norm] [q] [k] [v] [qk scale max sub exp sum div pv] [out] [res]");
}

TEST_CASE("attention is one kernel only where its heads fit on chip") {
  std::string text(kLongAttention);
  text.replace(text.find("256"), 3, "1024");
  const OpGraph graph = graph_of(text);
  CHECK(auto_of(graph) == "[norm] [q] [k] [v] [qk scale] [max sub exp sum div] [pv] [out res]");
  CHECK(obstacle(graph, {"qk", "scale", "max", "sub", "exp", "sum", "div", "pv"}) ==
        "the heads of matmul do not fit on chip");
}

TEST_CASE("the SPLADE head is one kernel for our runner") {
  const OpGraph graph =
      graph_of(R"({"dtype": "f16", "dims": {"B": 8, "T": 128, "H": 256, "V": 30522},
    "tensors": {"hidden": {"shape": ["B", "T", "H"]}, "embedding": {"shape": ["V", "H"]},
      "bias": {"shape": ["V"]}, "mask": {"shape": ["B", "T", 1]}},
    "ops": [{"name": "logits", "op": "linear", "inputs": ["hidden", "embedding", "bias"], "output": "l"},
            {"name": "relu", "op": "relu", "inputs": ["l"], "output": "r"},
            {"name": "log", "op": "log1p", "inputs": ["r"], "output": "g"},
            {"name": "mask", "op": "mul", "inputs": ["g", "mask"], "output": "m"},
            {"name": "max", "op": "max", "inputs": ["m"], "output": "y", "axis": 1}]})");
  CHECK(auto_of(graph) == "[logits relu log mask max]");
  CHECK(compiler_of(graph) == "[logits] [relu log mask max]");
}

TEST_CASE("layer_norm, linear, gelu: the norm stays before the linear, the gelu ends it") {
  const OpGraph graph = graph_of(R"({"tensors": {"x": {"shape": [64, 128]}, "g": {"shape": [128]},
      "b": {"shape": [128]}, "w": {"shape": [256, 128]}, "c": {"shape": [256]}},
    "ops": [{"name": "layer_norm", "op": "layer_norm", "inputs": ["x", "g", "b"], "output": "h"},
            {"name": "linear", "op": "linear", "inputs": ["h", "w", "c"], "output": "l"},
            {"name": "gelu", "op": "gelu", "inputs": ["l"], "output": "y"}]})");
  CHECK(auto_of(graph) == "[layer_norm] [linear gelu]");
  CHECK(compiler_of(graph) == "[layer_norm] [linear] [gelu]");
}

TEST_CASE("row sums without keepdim line up with the columns of a square matrix") {
  const OpGraph graph = graph_of(R"({"tensors": {"x": {"shape": [64, 64]}},
    "ops": [{"name": "sum", "op": "sum", "inputs": ["x"], "output": "s", "axis": -1},
            {"name": "div", "op": "div", "inputs": ["x", "s"], "output": "y"}]})");
  CHECK(auto_of(graph) == "[sum] [div]");
  CHECK(obstacle(graph, {"sum", "div"}) ==
        "div aligns the result of sum with an axis other than the reduced one");
  const OpGraph kept = graph_of(R"({"tensors": {"x": {"shape": [64, 64]}},
    "ops": [{"name": "sum", "op": "sum", "inputs": ["x"], "output": "s", "axis": -1, "keepdim": true},
            {"name": "div", "op": "div", "inputs": ["x", "s"], "output": "y"}]})");
  CHECK(auto_of(kept) == "[sum div]");
}

TEST_CASE("reductions over different axes do not share a kernel") {
  const OpGraph graph = graph_of(R"({"tensors": {"x": {"shape": [64, 128]}},
    "ops": [{"name": "rows", "op": "sum", "inputs": ["x"], "output": "a", "axis": 1},
            {"name": "columns", "op": "sum", "inputs": ["x"], "output": "b", "axis": 0}]})");
  CHECK(auto_of(graph) == "[rows] [columns]");
  CHECK(obstacle(graph, {"rows", "columns"}) ==
        "sum and sum work on different rows, so no block holds the data that both need");
}

TEST_CASE("if rows do not fit on chip, fusing costs a second pass, and still saves bytes or ties") {
  // x is read twice and the sums are neither written nor read.
  const OpGraph graph = graph_of(R"({"tensors": {"x": {"shape": [4, 100000]}},
    "ops": [{"name": "sum", "op": "sum", "inputs": ["x"], "output": "s", "axis": 1, "keepdim": true},
            {"name": "div", "op": "div", "inputs": ["x", "s"], "output": "y"}]})");
  CHECK(auto_of(graph) == "[sum div]");
}

TEST_CASE("an epilogue reduces rows only if one tile holds them") {
  const auto graph = [](std::uint64_t columns) {
    return graph_of(R"({"dims": {"D": 1}, "dtype": "f16",
      "tensors": {"x": {"shape": [512, 64]}, "w": {"shape": ["D", 64]}},
      "ops": [{"name": "linear", "op": "linear", "inputs": ["x", "w"], "output": "l"},
              {"name": "softmax", "op": "softmax", "inputs": ["l"], "output": "y"}]})",
                    {{"D", columns}});
  };
  // A tile of 64 rows of f32 sums: 227 KiB hold 908 columns.
  CHECK(auto_of(graph(908)) == "[linear softmax]");
  CHECK(auto_of(graph(909)) == "[linear] [softmax]");
  CHECK(obstacle(graph(909), {"linear", "softmax"}) ==
        "softmax needs whole rows of the result of linear, more than one tile holds");
}

TEST_CASE("an epilogue performs reductions that can be combined across tiles") {
  const auto graph = [](const std::string& reduction) {
    return graph_of(R"({"dtype": "f16", "tensors": {"x": {"shape": [512, 64]},
        "w": {"shape": [5000, 64]}},
      "ops": [{"name": "linear", "op": "linear", "inputs": ["x", "w"], "output": "l"},
              {"name": "reduce", "op": ")" +
                    reduction + R"(", "inputs": ["l"], "output": "y", "axis": -1}]})");
  };
  for (const std::string folds : {"sum", "mean", "max", "logsumexp"}) {
    CAPTURE(folds);
    CHECK(auto_of(graph(folds)) == "[linear reduce]");
  }
  for (const std::string whole : {"min", "amax_abs", "var", "argmax"}) {
    CAPTURE(whole);
    CHECK(auto_of(graph(whole)) == "[linear] [reduce]");
  }
  CHECK(obstacle(graph("argmax"), {"linear", "reduce"}) ==
        "argmax cannot be combined across the tiles of linear; sum, mean, max and logsumexp can");
}

TEST_CASE("an epilogue performs one reduction, in 32-bit floats") {
  const auto graph = [](const std::string& dtype) {
    return graph_of(R"({"dtype": ")" + dtype + R"(", "tensors": {"x": {"shape": [512, 64]},
        "w": {"shape": [256, 64]}},
      "ops": [{"name": "linear", "op": "linear", "inputs": ["x", "w"], "output": "l"},
              {"name": "norm", "op": "rms_norm", "inputs": ["l"], "output": "n"},
              {"name": "softmax", "op": "softmax", "inputs": ["n"], "output": "y"}]})");
  };
  CHECK(obstacle(graph("f16"), {"linear", "norm", "softmax"}) ==
        "the epilogue of linear can perform only one reduction; softmax would be the second");
  CHECK(obstacle(graph("f32"), {"linear", "norm"}).empty());
  CHECK(obstacle(graph("f64"), {"linear", "norm"}) ==
        "the epilogue of linear accumulates 32-bit floats; rms_norm needs another type");
}

TEST_CASE("a loss after a linear streams over rows of any length") {
  const OpGraph graph = graph_of(R"({"dtype": "f16", "tensors": {"x": {"shape": [512, 64]},
      "w": {"shape": [50000, 64]}, "labels": {"shape": [512], "dtype": "i64"}},
    "ops": [{"name": "linear", "op": "linear", "inputs": ["x", "w"], "output": "l"},
            {"name": "loss", "op": "cross_entropy", "inputs": ["l", "labels"], "output": "y"}]})");
  CHECK(auto_of(graph) == "[linear loss]");
  CHECK(compiler_of(graph) == "[linear] [loss]");
}

TEST_CASE("only an explicit plan fuses a custom op of any class") {
  for (const std::string op_class : {"opaque", "pointwise", "reduce", "movement", "contract"}) {
    CAPTURE(op_class);
    const OpGraph graph = graph_of(R"({"tensors": {"x": {"shape": [64]}, "h": {"shape": [64]}},
      "ops": [{"name": "neg", "op": "neg", "inputs": ["x"], "output": "n"},
              {"name": "own", "op": "custom", "inputs": ["n"], "output": "h", "class": ")" +
                                   op_class + R"("},
              {"name": "relu", "op": "relu", "inputs": ["h"], "output": "y"}],
      "fuse": [["neg", "own", "relu"]]})");
    CHECK(auto_of(graph) == "[neg] [own] [relu]");
    CHECK(compiler_of(graph) == "[neg] [own] [relu]");
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

TEST_CASE("a group that cannot run, or moves more than its parts, is split") {
  const OpGraph graph = graph_of(R"({"tensors": {"x": {"shape": [64, 128]}},
    "ops": [{"name": "a", "op": "exp", "inputs": ["x"], "output": "e"},
            {"name": "rows", "op": "sum", "inputs": ["e"], "output": "s", "axis": 1},
            {"name": "columns", "op": "sum", "inputs": ["e"], "output": "t", "axis": 0}],
    "fuse": [["a", "rows", "columns"]]})");
  TrafficCounter counter(graph, known_devices().front());
  const FusionPlan plan = explicit_plan(graph);
  const std::optional<Split> split = better_split(counter, plan.kernels.front());
  REQUIRE(split);
  CHECK(shown(graph, split->kernels) == "[a rows] [columns]");
  // x once, e written and read, both sums written.
  CHECK(split->bytes == 3 * 64 * 128 * 4 + 64 * 4 + 128 * 4);
  const OpGraph fine = graph_of(R"({"tensors": {"x": {"shape": [64]}},
    "ops": [{"name": "a", "op": "exp", "inputs": ["x"], "output": "e"},
            {"name": "b", "op": "neg", "inputs": ["e"], "output": "n"}], "fuse": [["a", "b"]]})");
  TrafficCounter other(fine, known_devices().front());
  CHECK_FALSE(better_split(other, {0, 1}));
}

TEST_CASE("a graph without groups has every plan of the table except the explicit one") {
  const auto plans_of = [](const std::string& rest) {
    const OpGraph graph = graph_of(R"({"tensors": {"x": {"shape": [64]}},
      "ops": [{"name": "a", "op": "exp", "inputs": ["x"], "output": "y"}])" +
                                   rest);
    TrafficCounter counter(graph, known_devices().front());
    PlanMaker maker(counter);
    std::string names;
    for (const PlanRow& row : plan_table()) {
      CHECK(plan_named(row.name) == row.kind);
      if (maker.plan(row.kind) != nullptr) names += std::string(row.name) + " ";
    }
    return names;
  };
  CHECK(plans_of("}") == "unfused compiler auto ");
  CHECK(plans_of(R"(, "fuse": [["a"]]})") == "unfused compiler auto explicit ");
}

TEST_CASE("an empty op list has empty plans") {
  const OpGraph graph = graph_of(R"({"ops": []})");
  CHECK(unfused_plan(graph).kernels.empty());
  CHECK(compiler_of(graph).empty());
  CHECK(auto_of(graph).empty());
}
