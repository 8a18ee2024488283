// Operators whose results depend on where their elements are.

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "graph/op_graph.hpp"
#include "input/onnx/onnx.hpp"
#include "input/onnx/proto.hpp"
#include "support/models.hpp"
#include "traffic/graph_bytes.hpp"

namespace fusecalc {
namespace {

using namespace proto;
using namespace testing;

using Lines = Words;

Model read(const Graph& graph) { return read_onnx(proto::model(graph), "m.onnx", {}); }

TEST_CASE("onnx: padding, triangles and repetitions are rows") {
  const Graph graph{.nodes = {node("Pad", {"x", "pads"}, {"p"}), node("Trilu", {"p", "k"}, {"t"}),
                              node("Tile", {"t", "times"}, {"y"})},
                    .inputs = {value("x", {4, 6})},
                    .outputs = {value("y", {14, 8})},
                    .constants = {integers("pads", {1, 0, 2, 2}), integers("k", {1}, true),
                                  integers("times", {2, 1})}};
  const Model model = read(graph);
  CHECK(rows_of(model) == Lines{"pad", "triu", "repeat"});
  CHECK(unfused(model) == 4 * (24 + 56 + 56 + 56 + 56 + 112));
}

TEST_CASE("onnx: empty parts of a Concat, as caches at first, are left out") {
  const auto joined = [](const std::vector<std::string>& parts, int rows) {
    const Graph graph{.nodes = {node("Concat", parts, {"all"}, {attribute("axis", 0)}),
                                node("Relu", {"all"}, {"y"})},
                      .inputs = {value("none", {0, 4}), value("x", {3, 4}), value("z", {2, 4})},
                      .outputs = {value("y", {rows, 4})}};
    return read(graph);
  };
  CHECK(rows_of(joined({"none", "x"}, 3)) == Lines{"relu"});
  CHECK(rows_of(joined({"x", "none", "z"}, 5)) == Lines{"concat", "relu"});
  CHECK(joined({"x", "none", "z"}, 5).graph.ops[0].inputs.size() == 2);
  CHECK(rows_of(joined({"none", "none"}, 0)) == Lines{"concat", "relu"});
}

TEST_CASE("onnx: padding with elements of its own is a row, and quotients of indices are whole") {
  for (const auto& [mode, border] : {std::pair{"reflect", "reflect"}, {"edge", "replicate"}}) {
    const Graph graph{.nodes = {node("Pad", {"x", "pads"}, {"y"}, {text_attribute("mode", mode)})},
                      .inputs = {value("x", {4, 6})},
                      .outputs = {value("y", {7, 8})},
                      .constants = {integers("pads", {1, 0, 2, 2})}};
    const Model model = read(graph);
    REQUIRE(rows_of(model) == Lines{"pad"});
    CHECK(std::get<std::string>(model.graph.ops[0].attributes.back().value) == border);
    CHECK(unfused(model) == 4 * (24 + 56));
  }
  const Graph graph{.nodes = {node("Div", {"i", "n"}, {"q"}), node("Gather", {"x", "q"}, {"y"})},
                    .inputs = {value("x", {4, 6}), value("i", {5}, kInt64)},
                    .outputs = {value("y", {5, 6})},
                    .constants = {integers("n", {3}, true)}};
  const Model model = read(graph);
  CHECK(rows_of(model) == Lines{"floor_divide", "embedding"});
  // Indices and quotients of 8 bytes; four rows of the table, and five of the result.
  CHECK(unfused(model) == 3 * 8 * 5 + 4 * (24 + 30));
}

TEST_CASE("onnx: blocks of rows and columns that become channels are one copy") {
  const auto graph = [](const std::string& op, const std::string& mode) {
    return Graph{
        .nodes = {node(op, {"x"}, {"y"},
                       {attribute("blocksize", std::int64_t{2}), text_attribute("mode", mode)})},
        .inputs = {value("x", {2, 8, 4, 6})},
        .outputs = {value("y", op == "DepthToSpace" ? std::vector<Extent>{2, 2, 8, 12}
                                                    : std::vector<Extent>{2, 32, 2, 3})}};
  };
  for (const auto& [op, mode] :
       {std::pair{"DepthToSpace", "DCR"}, {"DepthToSpace", "CRD"}, {"SpaceToDepth", ""}}) {
    const Model model = read(graph(op, mode));
    CHECK(model.origin.opaque == 0);
    CHECK(rows_of(model) == Lines{"reshape", "permute_view", "copy", "reshape"});
    CHECK(unfused(model) == 2 * 4 * 384);
  }
}

TEST_CASE("onnx: a scatter overwrites a copy of its input") {
  const Graph graph{
      .nodes = {node("GatherElements", {"x", "i"}, {"g"}, {attribute("axis", std::int64_t{1})}),
                node("ScatterElements", {"x", "i", "g"}, {"y"},
                     {attribute("axis", std::int64_t{1})})},
      .inputs = {value("x", {4, 6}), value("i", {4, 2}, kInt64)},
      .outputs = {value("y", {4, 6})}};
  const Model model = read(graph);
  CHECK(rows_of(model) == Lines{"gather_elements", "copy", "scatter_elements"});
  CHECK(unfused(model) == 4 * (8 + 16 + 8 + 24 + 24 + 16 + 8 + 8));
}

TEST_CASE("onnx: tuples of indices name rows of the first axis, or of the first axes as one") {
  const auto graph = [](int depth, const std::vector<Extent>& updates) {
    return Graph{
        .nodes = {node("ScatterND", {"x", "i", "u"}, {"y"})},
        .inputs = {value("x", {4, 6}), value("i", {2, depth}, kInt64), value("u", updates)},
        .outputs = {value("y", {4, 6})}};
  };
  CHECK(rows_of(read(graph(1, {2, 6}))) == Lines{"reshape", "copy", "scatter_update"});
  const Model pairs = read(graph(2, {2}));
  CHECK(rows_of(pairs) == Lines{"copy", "slice_view", "reshape", "slice_view", "reshape", "fma",
                                "reshape", "scatter_update", "reshape"});
  // x is copied; 4 indices make 2 places, which 2 numbers go to.
  CHECK(unfused(pairs) == 4 * (24 + 24) + 8 * (4 + 2) + 8 * 2 + 4 * (2 + 2));
}

// A Relu of the slices of x that the tuples of i name.
Graph gathered(const std::vector<Extent>& x, const std::vector<Extent>& i,
               const std::vector<Extent>& y, std::int64_t batch = 0) {
  return {.nodes = {node("GatherND", {"x", "i"}, {"g"}, {attribute("batch_dims", batch)}),
                    node("Relu", {"g"}, {"y"})},
          .inputs = {value("x", x), value("i", i, kInt64)},
          .outputs = {value("y", y)}};
}

TEST_CASE("onnx: slices that tuples of one index name are rows of a gather") {
  Model model = read(gathered({1'000'000, 64}, {10, 1}, {10, 64}));
  CHECK(rows_of(model) == Lines{"reshape", "embedding", "relu"});
  CHECK(unfused(model) == 4 * 4 * 640 + 8 * 10);
  model = read(gathered({1000, 4, 16}, {2, 5, 1}, {2, 5, 4, 16}));
  CHECK(rows_of(model) == Lines{"reshape", "gather", "relu"});
  CHECK(unfused(model) == 4 * 4 * 640 + 8 * 10);
}

TEST_CASE("onnx: slices that longer tuples name are read, not the whole tensor") {
  Model model = read(gathered({1000, 4, 64}, {10, 2}, {10, 64}));
  CHECK(rows_of(model) == Lines{"slice_view", "reshape", "slice_view", "reshape", "fma", "reshape",
                                "gather", "relu"});
  // 20 indices make 10 places, which are written, and read by the gather.
  CHECK(unfused(model) == 4 * 4 * 640 + 8 * (20 + 10 + 10));
  model = read(gathered({5, 1000, 64}, {5, 2, 1}, {5, 2, 64}, 1));
  CHECK(rows_of(model) == Lines{"custom", "relu"});
  CHECK(unfused(model) == 4 * 4 * 640 + 8 * 10);
  // Of a small tensor, at most all of it.
  model = read(gathered({2, 2, 64}, {10, 2}, {10, 64}));
  CHECK(unfused(model) == 4 * (256 + 3 * 640) + 8 * (20 + 10 + 10));
}

TEST_CASE("onnx: losses of scores, which may give their logarithms, too") {
  const auto loss = [](std::string_view type, const std::vector<std::string>& outputs,
                       const std::vector<std::string>& more = {}) {
    std::vector<std::string> inputs = {"x", "labels"};
    inputs.insert(inputs.end(), more.begin(), more.end());
    Graph graph{.nodes = {node(type, inputs, outputs, {text_attribute("reduction", "sum")})},
                .inputs = {value("x", {4, 10}), value("labels", {4}, kInt64), value("w", {10})},
                .outputs = {value("y", {})}};
    if (outputs.size() > 1) graph.outputs.push_back(value(outputs[1], {4, 10}));
    return read(graph);
  };
  const Model one = loss("SoftmaxCrossEntropyLoss", {"y"});
  CHECK(rows_of(one) == Lines{"cross_entropy"});
  CHECK(unfused(one) == 4 * (40 + 1) + 8 * 4);
  CHECK(rows_of(loss("SoftmaxCrossEntropyLoss", {"y", "logs"})) ==
        Lines{"log_softmax", "nll_loss"});
  CHECK(rows_of(loss("NegativeLogLikelihoodLoss", {"y"})) == Lines{"nll_loss"});
  CHECK(rows_of(loss("NegativeLogLikelihoodLoss", {"y"}, {"w"})) == Lines{"custom"});
}

TEST_CASE("onnx: sums so far and the largest of each row") {
  const Graph graph{
      .nodes = {node("CumSum", {"x", "axis"}, {"c"}),
                node("TopK", {"c", "k"}, {"v", "i"}, {attribute("largest", std::int64_t{0})})},
      .inputs = {value("x", {4, 6})},
      .outputs = {value("v", {4, 3}), value("i", {4, 3}, kInt64)},
      .constants = {integers("axis", {1}, true), integers("k", {3})}};
  const Model model = read(graph);
  CHECK(rows_of(model) == Lines{"cumsum", "topk"});
  CHECK(unfused(model) == 4 * (24 + 24 + 24 + 12) + 8 * 12);
  const auto& attributes = model.graph.ops[1].attributes;
  CHECK(attributes.back().name == "largest");
  CHECK_FALSE(std::get<bool>(attributes.back().value));
}

TEST_CASE("onnx: rotary embeddings by token or by place, of heads apart or side by side") {
  Graph graph{
      .nodes = {node("RotaryEmbedding", {"x", "c", "s"}, {"y"}, {attribute("interleaved", 1)})},
      .inputs = {value("x", {2, 4, 8, 16}), value("c", {2, 8, 8}), value("s", {2, 8, 8})},
      .outputs = {value("y", {2, 4, 8, 16})}};
  CHECK(rows_of(read(graph)) == Lines{"reshape", "reshape", "rotary"});
  // x and y; a cosine and a sine for each of 8 pairs of 8 tokens in 2 sequences.
  CHECK(unfused(read(graph)) == 4 * (2 * 2 * 4 * 8 * 16 + 2 * 2 * 8 * 8));
  graph = {.nodes = {node("RotaryEmbedding", {"x", "c", "s", "p"}, {"y"},
                          {attribute("num_heads", 4), attribute("rotary_embedding_dim", 8)})},
           .inputs = {value("x", {2, 8, 64}), value("c", {50, 4}), value("s", {50, 4}),
                      value("p", {2, 8}, kInt64)},
           .outputs = {value("y", {2, 8, 64})}};
  CHECK(rows_of(read(graph)) ==
        Lines{"gather", "gather", "reshape", "reshape", "reshape", "rotary", "reshape"});
  // Each gather reads 16 rows of 4 and as many places, and writes the rows, which the op reads.
  CHECK(unfused(read(graph)) == 2 * (2 * 4 * 64 + 8 * 16) + 4 * (2 * 2 * 8 * 64 + 2 * 64));
}

TEST_CASE("onnx: sums of the elements before each are the sums so far less the element") {
  const auto summed = [](const std::vector<Message>& attributes) {
    const Graph graph{.nodes = {node("CumSum", {"x", "axis"}, {"y"}, attributes)},
                      .inputs = {value("x", {4, 6})},
                      .outputs = {value("y", {4, 6})},
                      .constants = {integers("axis", {1}, true)}};
    return read(graph);
  };
  CHECK(rows_of(summed({})) == Lines{"cumsum"});
  CHECK(rows_of(summed({attribute("exclusive", 1)})) == Lines{"cumsum", "sub"});
  // From the end: x and y alone, not the axis.
  CHECK(rows_of(summed({attribute("reverse", 1)})) == Lines{"custom"});
  CHECK(unfused(summed({attribute("reverse", 1)})) == 4 * (24 + 24));
}

TEST_CASE("onnx: ones of classes along another axis are read where they are") {
  const Graph graph{
      .nodes = {node("OneHot", {"x", "depth", "values"}, {"o"}, {attribute("axis", 0)}),
                node("Neg", {"o"}, {"y"})},
      .inputs = {value("x", {5, 3}, kInt64)},
      .outputs = {value("y", {10, 5, 3}, kInt64)},
      .constants = {integers("depth", {10}), integers("values", {0, 1})}};
  const Model model = read(graph);
  CHECK(rows_of(model) == Lines{"one_hot", "permute_view", "neg"});
  CHECK(unfused(model) == 8 * (15 + 3 * 150));
}

}  // namespace
}  // namespace fusecalc
