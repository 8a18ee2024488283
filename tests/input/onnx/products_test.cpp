#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "graph/op_graph.hpp"
#include "input/onnx/onnx.hpp"
#include "input/onnx/proto.hpp"
#include "support/models.hpp"
#include "support/words.hpp"
#include "traffic/graph_bytes.hpp"

// Products and masks of ONNX models, as ops and as bytes.

using namespace fusecalc;
using namespace fusecalc::proto;
using namespace fusecalc::testing;

namespace {

Model read(const Graph& graph) { return read_onnx(proto::model(graph), "m.onnx", {}); }

Message factor(std::string_view name, float value) {
  return Message().text(1, name).real(2, value).number(20, 1);
}

struct GemmCase {
  std::vector<Extent> a{32, 64};
  std::vector<Extent> b{64, 16};
  std::vector<Extent> c{};
  std::vector<Message> attributes{};
};

Model gemm(const GemmCase& of) {
  Graph graph{.nodes = {},
              .inputs = {value("a", of.a), value("b", of.b)},
              .outputs = {value("y", {32, 16})}};
  std::vector<std::string> inputs = {"a", "b"};
  if (!of.c.empty()) {
    inputs.emplace_back("c");
    graph.inputs.push_back(value("c", of.c));
  }
  graph.nodes = {node("Gemm", inputs, {"y"}, of.attributes)};
  return read(graph);
}

// 32 x 64 times 64 x 16: a, b and y.
constexpr std::uint64_t kProduct = 4 * (32 * 64 + 64 * 16 + 32 * 16);

}  // namespace

TEST_CASE("onnx: a Gemm is one product, whichever way its factors are stored") {
  CHECK(rows_of(gemm({})) == Words{"permute_view", "linear"});
  CHECK(unfused(gemm({})) == kProduct);
  CHECK(rows_of(gemm({.b = {16, 64}, .attributes = {attribute("transB", 1)}})) == Words{"linear"});
  const GemmCase both{
      .a = {64, 32}, .b = {16, 64}, .attributes = {attribute("transA", 1), attribute("transB", 1)}};
  CHECK(rows_of(gemm(both)) == Words{"permute_view", "linear"});
  CHECK(unfused(gemm(both)) == kProduct);
}

TEST_CASE("onnx: the bias of a Gemm is that of the product where it is one for all rows") {
  CHECK(rows_of(gemm({.c = {16}})) == Words{"permute_view", "linear"});
  CHECK(unfused(gemm({.c = {16}})) == kProduct + 4 * 16);
  CHECK(unfused(gemm({.c = {1, 16}})) == kProduct + 4 * 16);
  CHECK(unfused(gemm({.c = {1}})) == kProduct + 4);
  // A bias of its own for every row is added to the product, which is written and read again.
  CHECK(rows_of(gemm({.c = {32, 1}})) == Words{"permute_view", "linear", "add"});
  CHECK(unfused(gemm({.c = {32, 1}})) == kProduct + 4 * (2 * 32 * 16 + 32));
  CHECK(unfused(gemm({.c = {32, 16}})) == kProduct + 4 * 3 * 32 * 16);
}

TEST_CASE("onnx: factors of a Gemm are ops where they are not 1") {
  const auto rows = [](std::vector<Extent> c, float alpha, float beta) {
    return rows_of(
        gemm({.c = std::move(c), .attributes = {factor("alpha", alpha), factor("beta", beta)}}));
  };
  CHECK(rows({16}, 1, 1) == Words{"permute_view", "linear"});
  CHECK(rows({16}, 1, 0) == Words{"permute_view", "linear"});
  CHECK(rows({16}, 1, 2) == Words{"permute_view", "mul", "linear"});
  CHECK(rows({}, 2, 1) == Words{"permute_view", "linear", "mul"});
  CHECK(rows({16}, 2, 1) == Words{"permute_view", "linear", "fma"});
  CHECK(rows({16}, 2, 3) == Words{"permute_view", "mul", "linear", "fma"});
}

TEST_CASE("onnx: a bias after a product with a stored matrix makes both one linear") {
  const Graph graph{.nodes = {node("MatMul", {"x", "w"}, {"p"}), node("Add", {"p", "b"}, {"y"})},
                    .inputs = {value("x", {8, 32, 64}), value("w", {64, 16}), value("b", {16})},
                    .outputs = {value("y", {8, 32, 16})}};
  CHECK(rows_of(read(graph)) == Words{"permute_view", "linear"});
  CHECK(unfused(read(graph)) == 4 * (8 * 32 * 64 + 64 * 16 + 16 + 8 * 32 * 16));
}

TEST_CASE("onnx: a mask whose elements the file states is causal where it is that of causal") {
  const auto attention = [](const std::vector<std::int64_t>& mask, std::uint64_t type) {
    Message constant = integers("numbers", mask);
    Graph graph{
        .nodes = {node("Reshape", {"numbers", "shape"}, {"square"}),
                  node("Cast", {"square"}, {"mask"},
                       {attribute("to", static_cast<std::int64_t>(type))}),
                  node("Attention", {"q", "k", "v", "mask"}, {"y"})},
        .inputs = {value("q", {1, 2, 3, 16}), value("k", {1, 2, 3, 16}), value("v", {1, 2, 3, 16})},
        .outputs = {value("y", {1, 2, 3, 16})},
        .constants = {constant, integers("shape", {3, 3})}};
    return read(graph).graph.ops.back().inputs.size();
  };
  CHECK(attention({1, 0, 0, 1, 1, 0, 1, 1, 1}, kBool) == 3);
  CHECK(attention({1, 0, 0, 1, 1, 0, 1, 0, 1}, kBool) == 4);
  CHECK(attention({1, 1, 0, 1, 1, 1, 1, 1, 1}, kBool) == 4);
  CHECK(attention({0, -99999, -99999, 0, 0, -99999, 0, 0, 0}, kFloat) == 3);
  CHECK(attention({0, -2, -2, 0, 0, -2, 0, 0, 0}, kFloat) == 4);
}

TEST_CASE("onnx: grouped queries written out, as PyTorch has them, read their key heads once") {
  Graph graph{.inputs = {value("q", {1, 8, 64, 32}), value("k", {1, 2, 64, 32}),
                         value("v", {1, 2, 64, 32})},
              .outputs = {value("y", {1, 8, 64, 32})},
              .constants = {integers("two", {2}), integers("five", {1, 2, 4, 64, 32}),
                            integers("four", {1, 8, 64, 32}), integers("three", {8, 64, 32}),
                            integers("turned", {1, 8, 32, 64}), real("root", 0.42F)}};
  const auto add = [&](const char* type, const std::vector<std::string>& inputs, const char* output,
                       const std::vector<Message>& attributes = {}) {
    graph.nodes.push_back(node(type, inputs, {output}, attributes));
  };
  add("Unsqueeze", {"k", "two"}, "k1");
  add("Expand", {"k1", "five"}, "k2");
  add("Unsqueeze", {"v", "two"}, "v1");
  add("Expand", {"v1", "five"}, "v2");
  add("Reshape", {"v2", "four"}, "v3");
  add("Reshape", {"k2", "three"}, "k3");
  add("Transpose", {"k3"}, "k4", {attribute("perm", {0, 2, 1})});
  add("Reshape", {"k4", "turned"}, "k5");
  add("Mul", {"q", "root"}, "qs");
  add("Mul", {"k5", "root"}, "ks");
  add("MatMul", {"qs", "ks"}, "s");
  add("Softmax", {"s"}, "p");
  add("MatMul", {"p", "v3"}, "y");
  const Model model = read(graph);
  CHECK(rows_of(model) == Words{"attention"});
  CHECK(unfused(model) == std::uint64_t{4} * (2 * 8 + 2 * 2) * 64 * 32);
}

TEST_CASE("onnx: axes that are merged and split again are not copied") {
  for (const bool splits : {true, false}) {
    CAPTURE(splits);
    Graph graph{.inputs = {value("k", {2, 64, 8, 32})},
                .outputs = {splits ? value("y", {2, 8, 32, 64}) : value("y", {4, 4, 32, 64})},
                .constants = {integers("merged", {16, 64, 32}),
                              integers("apart", splits ? std::vector<std::int64_t>{2, 8, 32, 64}
                                                       : std::vector<std::int64_t>{4, 4, 32, 64})}};
    graph.nodes = {node("Transpose", {"k"}, {"h"}, {attribute("perm", {0, 2, 1, 3})}),
                   node("Reshape", {"h", "merged"}, {"m"}),
                   node("Transpose", {"m"}, {"t"}, {attribute("perm", {0, 2, 1})}),
                   node("Reshape", {"t", "apart"}, {"s"}), node("Relu", {"s"}, {"y"})};
    const Model model = read(graph);
    // With a copy, twice as much and more; as a view, k once and y.
    const std::uint64_t whole = std::uint64_t{4} * 2 * 64 * 8 * 32;
    CHECK(unfused(model) == whole * (splits ? 2 : 4));
  }
}

TEST_CASE("onnx: a choice of two numbers has their type") {
  constexpr std::uint64_t kHalf = 10;
  const auto half = [](const char* name, std::string_view bytes) {
    return Message().number(2, kHalf).text(8, name).text(9, bytes);
  };
  using namespace std::string_view_literals;
  const Graph graph{
      .nodes = {node("Where", {"c", "one", "zero"}, {"m"}), node("Mul", {"m", "x"}, {"y"})},
      .inputs = {value("c", {64}, kBool), value("x", {64}, kHalf)},
      .outputs = {value("y", {64}, kHalf)},
      .constants = {half("one", "\0\x3c"sv), half("zero", "\0\0"sv)}};
  // c; m, written and read; x and y.
  CHECK(unfused(read(graph)) == 64 * (1 + 2 + 2 + 2 + 2));
}

TEST_CASE("onnx: an Einsum is products of matrices, or of elements") {
  const auto elements = [](const std::string& equation,
                           const std::vector<std::vector<Extent>>& shapes,
                           const std::vector<Extent>& result) {
    Graph graph{.outputs = {value("y", result)}};
    std::vector<std::string> names;
    for (const std::vector<Extent>& shape : shapes) {
      names.push_back("x" + std::to_string(names.size()));
      graph.inputs.push_back(value(names.back(), shape));
    }
    graph.nodes = {node("Einsum", names, {"e"}, {text_attribute("equation", equation)}),
                   node("Relu", {"e"}, {"y"})};
    const Model model = read(graph);
    CHECK(model.origin.opaque == 0);
    return unfused(model) / 4;
  };
  // The product; the Relu reads and writes its result.
  CHECK(elements("ij, jk -> ik", {{2, 3}, {3, 5}}, {2, 5}) == (6 + 15 + 10) + 20);
  CHECK(elements("ij->ji", {{3, 5}}, {5, 3}) == 30);
  // Experts: tokens of each, times its matrix.
  CHECK(elements("ecm,emh->ech", {{4, 8, 16}, {4, 16, 32}}, {4, 8, 32}) ==
        (512 + 2048 + 1024) + 2048);
  // Without an arrow, the letters that occur once, in their order.
  CHECK(elements("kj,ik", {{3, 5}, {2, 3}}, {2, 5}) == (6 + 15 + 10) + 20);
  // Axes without letters are those of a batch.
  CHECK(elements("...ij,...jk->...ik", {{7, 2, 3}, {7, 3, 5}}, {7, 2, 5}) ==
        7 * ((6 + 15 + 10) + 20));
  CHECK(elements("...ij,jk", {{7, 2, 3}, {3, 5}}, {7, 2, 5}) == (42 + 15 + 70) + 140);
}

TEST_CASE("onnx: attention of Einsums is attention") {
  const Graph graph{
      .nodes = {node("Einsum", {"q", "k"}, {"s"}, {text_attribute("equation", "bhqd,bhkd->bhqk")}),
                node("Mul", {"s", "root"}, {"scaled"}), node("Softmax", {"scaled"}, {"p"}),
                node("Einsum", {"p", "v"}, {"y"}, {text_attribute("equation", "bhqk,bhkd->bhqd")})},
      .inputs = {value("q", {2, 8, 512, 64}), value("k", {2, 8, 512, 64}),
                 value("v", {2, 8, 512, 64})},
      .outputs = {value("y", {2, 8, 512, 64})},
      .constants = {real("root", 0.125F)}};
  const Model model = read(graph);
  CHECK(std::ranges::count(rows_of(model), "attention") == 1);
  CHECK(unfused(model) == std::uint64_t{4} * 4 * 2 * 8 * 512 * 64);
}

TEST_CASE("onnx: an Einsum whose letters do not fit is opaque") {
  const auto rows = [](const std::string& equation) {
    return rows_of(
        read({.nodes = {node("Einsum", {"a", "b"}, {"y"}, {text_attribute("equation", equation)})},
              .inputs = {value("a", {3, 3}), value("b", {4, 3})},
              .outputs = {value("y", {3})}}));
  };
  for (const char* equation :
       {"ii,jk->i", "ijk,jk->i", "ij,jk->i", "ij->i", "ij,jk,k->i", "i.j,jk->i", "..ij,jk->i"}) {
    CAPTURE(equation);
    CHECK(rows(equation) == Words{"custom"});
  }
}

TEST_CASE("onnx: what ONNX Runtime fuses is read as the ops that it computes") {
  const auto one = [](std::string_view type, const std::vector<std::string>& inputs,
                      const std::vector<Message>& attributes, const std::vector<Extent>& result,
                      std::string_view domain = "com.microsoft") {
    Graph graph{.nodes = {node(type, inputs, {"y"}, attributes, domain)},
                .inputs = {value("x", {2, 8, 16}), value("k", {2, 8, 16}), value("v", {2, 8, 16}),
                           value("w", {32, 16}), value("b", {16}), value("added", {1, 4, 8, 8})},
                .outputs = {value("y", result)}};
    return read(graph);
  };
  const std::vector<Extent> same = {2, 8, 16};
  CHECK(rows_of(one("BiasGelu", {"x", "b"}, {}, same)) == Words{"add", "gelu"});
  CHECK(rows_of(one("FastGelu", {"x"}, {}, same)) == Words{"gelu"});
  CHECK(rows_of(one("QuickGelu", {"x"}, {}, same)) == Words{"mul", "sigmoid", "mul"});
  CHECK(rows_of(one("QuickGelu", {"x"}, {factor("alpha", 1)}, same)) == Words{"silu"});
  const Message stored = attribute("transB", 1);
  CHECK(rows_of(one("FusedMatMul", {"x", "w"}, {stored}, {2, 8, 32})) == Words{"matmul"});
  CHECK(rows_of(one("FusedMatMul", {"x", "w"}, {stored, factor("alpha", 0.5)}, {2, 8, 32})) ==
        Words{"matmul", "mul"});
  const Message batches = attribute("transBatchA", 1);
  CHECK(rows_of(one("FusedMatMul", {"x", "w"}, {stored, batches}, {2, 8, 32})) == Words{"custom"});

  const std::vector<Message> heads = {attribute("num_heads", 4)};
  const Model attention = one("MultiHeadAttention", {"x", "k", "v"}, heads, same);
  CHECK(attention.origin.opaque == 0);
  // Queries, keys, values and the result, whose heads lie side by side.
  CHECK(unfused(attention) == 4 * 4 * 256);
  const Model own = one("Attention", {"x", "k", "v"},
                        {attribute("q_num_heads", 4), attribute("kv_num_heads", 4)}, same, "");
  CHECK(unfused(own) == 4 * 4 * 256);
  const Model added = one("MultiHeadAttention", {"x", "k", "v", "", "", "added"}, heads, same);
  CHECK(unfused(added) == 4 * (4 * 256 + 4 * 64));
  // A bias of queries, keys and values is not read.
  CHECK(rows_of(one("MultiHeadAttention", {"x", "k", "v", "b"}, heads, same)) == Words{"custom"});
}

TEST_CASE("onnx: transposed convolutions of a stated size, and quantized sums, need no inference") {
  const auto upward = [](const std::vector<Message>& attributes,
                         const std::vector<Extent>& result) {
    Graph graph{
        .nodes = {node("ConvTranspose", {"x", "w"}, {"c"}, attributes), node("Relu", {"c"}, {"y"})},
        .inputs = {value("x", {1, 4, 8, 9}), value("w", {4, 6, 3, 3})},
        .outputs = {value("y", result)}};
    return read(graph);
  };
  // x and the weights, c written, and read and written by the ReLU: 6 channels of 16 x 18.
  const std::uint64_t bytes = 4 * (288 + 216 + 3 * 6 * 16 * 18);
  const Message twice = attribute("strides", std::vector<std::int64_t>{2, 2});
  CHECK(unfused(upward({twice, text_attribute("auto_pad", "SAME_UPPER")}, {1, 6, 16, 18})) ==
        bytes);
  const Message size = attribute("output_shape", std::vector<std::int64_t>{16, 18});
  CHECK(unfused(upward({twice, size}, {1, 6, 16, 18})) == bytes);

  // With windows of 4 as many are cut off at each end, which a row has.
  Graph even{.nodes = {node("ConvTranspose", {"x", "w"}, {"y"},
                            {twice, text_attribute("auto_pad", "SAME_LOWER")})},
             .inputs = {value("x", {1, 4, 8, 8}), value("w", {4, 6, 4, 4})},
             .outputs = {value("y", {1, 6, 16, 16})}};
  CHECK(rows_of(read(even)) == Words{"conv_transpose2d"});

  const auto of_bytes = [](std::string_view name, const std::vector<Extent>& shape) {
    return value(name, shape, kInt8);
  };
  Graph sum{.nodes = {node("QLinearAdd", {"a", "s", "z", "b", "s", "z", "s", "z"}, {"t"}, {},
                           "com.microsoft"),
                      node("QLinearSigmoid", {"t", "s", "z", "s", "z"}, {"g"}, {}, "com.microsoft"),
                      node("QLinearGlobalAveragePool", {"g", "s", "z", "s", "z"}, {"y"}, {},
                           "com.microsoft")},
            .inputs = {of_bytes("a", {2, 4, 8, 8}), of_bytes("b", {4, 1, 1}), value("s", {}),
                       of_bytes("z", {})},
            .outputs = {of_bytes("y", {2, 4, 1, 1})}};
  // Each with a scale and a zero point, of 5 bytes together.
  CHECK(unfused(read(sum)) == (512 + 4 + 512 + 5) + (2 * 512 + 5) + (512 + 8 + 5));
}
