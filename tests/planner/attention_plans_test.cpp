// Which kernels the planners make of attention.

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <utility>

#include "graph/graph_text.hpp"
#include "planner/plan_text.hpp"

using namespace fusecalc;
using namespace fusecalc::testing;

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

TEST_CASE("attention is found however many ops make its mask") {
  std::string ops;
  std::string last = "m0";
  for (int i = 1; i <= 60; ++i) {
    std::string next = "m";
    next += std::to_string(i);
    ops += R"({"name": ")" + next + R"(", "op": "sin", "inputs": [")" + last +
           R"("], "output": ")" + next + R"("},)";
    last = next;
  }
  const OpGraph graph = graph_of(R"({"dtype": "bf16", "tensors": {"q": {"shape": [4, 512, 64]},
      "k": {"shape": [4, 512, 64]}, "v": {"shape": [4, 512, 64]}, "m0": {"shape": [512, 512]}},
    "ops": [)" + ops + R"({"name": "qk", "op": "matmul", "inputs": ["q", "k"], "output": "s",
              "transpose_b": true},
            {"name": "add", "op": "add", "inputs": ["s", ")" +
                                 last + R"("], "output": "t"},
            {"name": "cap", "op": "tanh", "inputs": ["t"], "output": "u"},
            {"name": "softmax", "op": "softmax", "inputs": ["u"], "output": "p"},
            {"name": "pv", "op": "matmul", "inputs": ["p", "v"], "output": "o"}]})");
  CHECK(compiler_of(graph).find("qk add cap softmax pv]") != std::string::npos);
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
  CHECK(obstacle(graph, {"qk", "mean", "centre", "softmax", "pv"})
            .starts_with("the second contraction needs whole rows of the first, "));
}

TEST_CASE("what makes an operand of attention is told as the obstacle that it is") {
  const OpGraph graph = graph_of(R"({"dtype": "bf16", "tensors": {"q": {"shape": [4, 512, 64]},
      "k": {"shape": [4, 512, 64]}, "v": {"shape": [4, 512, 64]}},
    "ops": [{"name": "scale_q", "op": "mul", "inputs": ["q", 0.35], "output": "a"},
            {"name": "scale_k", "op": "neg", "inputs": ["k"], "output": "b"},
            {"name": "scale_v", "op": "abs", "inputs": ["v"], "output": "c"},
            {"name": "qk", "op": "matmul", "inputs": ["a", "b"], "output": "s", "transpose_b": true},
            {"name": "softmax", "op": "softmax", "inputs": ["s"], "output": "p"},
            {"name": "pv", "op": "matmul", "inputs": ["p", "c"], "output": "o"}]})");
  CHECK(obstacle(graph, {"qk", "softmax", "pv"}).empty());
  CHECK(obstacle(graph, {"scale_q", "qk", "softmax", "pv"}) ==
        "matmul loads its queries and any mask from memory, and no other op runs ahead of its main "
        "loop; mul must write its result first");
  for (const auto& [name, kind] : {std::pair{"scale_k", "neg"}, {"scale_v", "abs"}}) {
    CHECK(obstacle(graph, {name, "qk", "softmax", "pv"}) ==
          "matmul loads keys and values from memory, again for each tile of queries; only a gather "
          "of them runs there, so " +
              std::string(kind) + " must write its result first");
  }
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
  CHECK(auto_of(graph) == "[norm] [q k v] [qk scale max sub exp sum div pv] [out res]");
  CHECK(compiler_of(graph) == "[norm] [q] [k] [v] [qk scale max sub exp sum div pv] [out] [res]");
}

TEST_CASE("attention is one kernel only where its heads fit on chip") {
  std::string text(kLongAttention);
  text.replace(text.find("256"), 3, "1024");
  const OpGraph graph = graph_of(text);
  CHECK(auto_of(graph) == "[norm] [q k v] [qk] [scale max sub exp sum div] [pv] [out res]");
  CHECK(obstacle(graph, {"qk", "scale", "max", "sub", "exp", "sum", "div", "pv"}) ==
        "the heads of matmul do not fit on chip");
}

namespace {

// Keys and values gathered from pages of `page`, then seen as `rows`; `queries` of each of 8 heads.
OpGraph paged(std::string_view queries, std::string_view page, std::string_view rows,
              std::string_view more = "", std::string_view outputs = "") {
  std::string ops;
  for (const std::string name : {"k", "v"}) {
    ops += R"({"name": "gather_)" + name + R"(", "op": "gather", "inputs": [")" + name +
           R"(", "t"], "output": "g)" + name + R"("}, {"op": "reshape", "inputs": ["g)" + name +
           R"("], "output": "r)" + name + R"(", "shape": )" + std::string(rows) +
           R"(}, {"op": "permute_view", "inputs": ["r)" + name + R"("], "output": "p)" + name +
           R"(", "perm": [0, 2, 1, 3]},)";
  }
  return graph_of(R"({"dtype": "bf16", "tensors": {"q": {"shape": [4, 8, )" + std::string(queries) +
                  R"(, 64]}, "k": {"shape": )" + std::string(page) + R"(}, "v": {"shape": )" +
                  std::string(page) + R"(}, "t": {"shape": [4, 30], "dtype": "i32"}}, "ops": [)" +
                  ops +
                  R"({"name": "attend", "op": "attention", "inputs": ["q", "pk", "pv"],
                      "output": "y"})" +
                  std::string(more) + "]" + std::string(outputs) + "}");
}

constexpr std::string_view kPages = "[500, 16, 2, 64]";
constexpr std::string_view kRowsShape = "[4, 480, 2, 64]";
constexpr std::string_view kOwnGathers =
    "attention gathers keys and values itself in bf16 or f16, for at most 32 queries of the heads "
    "that share a key head; for others gather stays a separate kernel";

}  // namespace

TEST_CASE("attention of few queries gathers its keys and values, all of them or some") {
  const OpGraph graph = paged("1", kPages, kRowsShape);
  CHECK(auto_of(graph) == "[gather_k gather_v attend]");
  CHECK(compiler_of(graph) == "[gather_k gather_v] [attend]");
  CHECK(obstacle(graph, {"gather_k", "attend"}).empty());
  CHECK(obstacle(graph, {"gather_v", "attend"}).empty());
  CHECK(obstacle(paged("8", kPages, kRowsShape), {"gather_k", "gather_v", "attend"}).empty());
  CHECK(obstacle(paged("9", kPages, kRowsShape), {"gather_k", "gather_v", "attend"}) ==
        kOwnGathers);
}

TEST_CASE("attention gathers only rows that lie in pages as wholes") {
  const std::string apart =
      "attention gathers keys and values itself where gather takes whole pages along the first "
      "axis, and each row lies in one piece in its page";
  // Two pages hold the halves of a row's heads.
  CHECK(obstacle(paged("1", "[500, 1, 64]", "[4, 15, 2, 64]"), {"gather_k", "attend"}) == apart);
  // The pages of a batch are not whole rows of the table.
  CHECK(obstacle(paged("1", "[500, 16, 64]", "[4, 240, 2, 64]"), {"gather_k", "attend"}).empty());
}

TEST_CASE("what else reads gathered keys needs them in memory") {
  const OpGraph stored = paged("1", kPages, kRowsShape, "", R"(, "outputs": ["y", "gk"])");
  CHECK(auto_of(stored) == "[gather_k] [gather_v attend]");
  const OpGraph read = paged("1", kPages, kRowsShape,
                             R"(, {"name": "neg", "op": "neg", "inputs": ["gk"], "output": "n"})");
  CHECK(obstacle(read, {"gather_k", "attend"}) ==
        "a kernel that runs gather as attention loads its operand stores nothing that gather "
        "makes, and some of it is needed in memory");
}
