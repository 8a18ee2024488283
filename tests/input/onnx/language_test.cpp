// Operators of ONNX Runtime's language models: read without the shapes of their results, which ONNX
// shape inference does not know.

#include <algorithm>
#include <string>
#include <vector>

#include "input/onnx/proto.hpp"
#include "input/onnx/reading.hpp"

using namespace fusecalc;
using namespace fusecalc::proto;
using namespace fusecalc::testing;

namespace {

constexpr std::uint64_t kUint8 = 2;
constexpr std::uint64_t kInt32 = 6;
constexpr std::string_view kMicrosoft = "com.microsoft";

// The kinds of ops without views.
Words kernels_of(const Model& model) {
  Words rows = rows_of(model);
  std::erase_if(rows,
                [](const std::string& row) { return op_named(row)->op_class == OpClass::kView; });
  return rows;
}

// A decoder's attention: 2 sequences of so many tokens after so many, 4 query heads of 8 and 2 of
// keys and values, which `cache` of are read and written.
Model grouped(int length, int past, int cache, const std::vector<Message>& more = {},
              bool packed = true) {
  std::vector<Message> attributes = {attribute("num_heads", 4), attribute("kv_num_heads", 2),
                                     attribute("do_rotary", 1)};
  attributes.insert(attributes.end(), more.begin(), more.end());
  const std::string key = packed ? "" : "k";
  const std::string value_of = packed ? "" : "v";
  Graph graph{.nodes = {node("GroupQueryAttention",
                             {"x", key, value_of, "pk", "pv", "lengths", "total", "cos", "sin"},
                             {"y", "nk", "nv"}, attributes, kMicrosoft),
                        node("Relu", {"y"}, {"z"})},
              .inputs = {value("x", {2, length, packed ? 64 : 32}), value("k", {2, length, 16}),
                         value("v", {2, length, 16}), value("pk", {2, 2, past, 8}),
                         value("pv", {2, 2, past, 8}), value("lengths", {2}, kInt32),
                         value("total", {}, kInt32), value("cos", {64, 4}), value("sin", {64, 4})},
              .outputs = {value("z", {2, length, 32}), value("nk", {2, 2, cache, 8}),
                          value("nv", {2, 2, cache, 8})}};
  return read(model(graph));
}

}  // namespace

TEST_CASE("onnx: products with packed weights read the packed numbers and have as many columns") {
  Graph graph{.nodes = {node("MatMulNBits", {"x", "w", "s", "z"}, {"y"},
                             {attribute("K", 64), attribute("N", 48), attribute("bits", 4),
                              attribute("block_size", 32)},
                             kMicrosoft),
                        node("Relu", {"y"}, {"r"})},
              .inputs = {value("x", {2, 5, 64}), value("w", {48, 2, 16}, kUint8), value("s", {96}),
                         value("z", {48}, kUint8)},
              .outputs = {value("r", {2, 5, 48})}};
  const Model packed = read(model(graph));
  CHECK(rows_of(packed) == Words{"custom", "relu"});
  CHECK(unfused(packed) == 4 * (640 + 96 + 480) + 48 * 32 + 48 + 4 * 2 * 480);
  CHECK(packed.graph.ops[0].flops == std::uint64_t{2} * 480 * 64);
}

TEST_CASE("onnx: grouped attention turns heads, and puts new keys and values behind the others") {
  const Model first = grouped(6, 0, 6);
  CHECK(kernels_of(first) == Words{"rotary", "rotary", "copy", "copy", "attention", "relu"});
  // 6 rows of the tables turn 384 numbers of queries and 192 of keys; keys and values are copied;
  // attention reads all and writes as much as there are queries.
  const std::uint64_t tables = std::uint64_t{2} * 6 * 4;
  CHECK(unfused(first) ==
        4 * (2 * 384 + tables + 2 * 192 + tables + 4 * 192 + (2 * 384 + 2 * 192) + 2 * 384));
  // One token after 20.
  const Model later = grouped(1, 20, 21);
  CHECK(kernels_of(later) == Words{"rotary", "rotary", "concat", "concat", "attention", "relu"});
  CHECK(unfused(later) == 4 * (2 * 64 + 8 + 2 * 32 + 8 + 2 * 2 * 672 + (2 * 64 + 2 * 672) + 128));
  CHECK(later.origin.opaque == 0);
  CHECK(kernels_of(grouped(1, 20, 21, {}, false)) == kernels_of(later));
}

TEST_CASE("onnx: grouped attention over caches in place, or of a window, is a custom op") {
  CHECK(kernels_of(grouped(1, 20, 20)) == Words{"custom", "relu"});
  CHECK(kernels_of(grouped(1, 20, 21, {attribute("local_window_size", 8)})) ==
        Words{"custom", "relu"});
}

TEST_CASE("onnx: rotary embeddings of ONNX Runtime take places before their tables") {
  for (const bool each : {true, false}) {
    CAPTURE(each);
    Graph graph{
        .nodes = {node("RotaryEmbedding", {"x", "places", "cos", "sin"}, {"y"}, {}, kMicrosoft),
                  node("Relu", {"y"}, {"z"})},
        .inputs = {value("x", {2, 5, 16}), value("cos", {64, 4}), value("sin", {64, 4})},
        .outputs = {value("z", {2, 5, 16})}};
    graph.inputs.push_back(each ? value("places", {2, 5}, kInt64) : value("places", {1}, kInt64));
    const Model read_model = read(model(graph));
    CHECK(kernels_of(read_model) ==
          (each ? Words{"gather", "gather", "rotary", "relu"} : Words{"rotary", "relu"}));
    CHECK(read_model.origin.opaque == 0);
  }
}

TEST_CASE("onnx: embeddings with their norm, and attention with its product, are their ops") {
  Graph graph{.nodes = {node("EmbedLayerNormalization",
                             {"words", "segments", "we", "pe", "se", "g", "b", "mask"},
                             {"x", "counts"}, {}, kMicrosoft),
                        node("Attention", {"x", "w", "wb", "counts"}, {"a"},
                             {attribute("num_heads", 4)}, kMicrosoft),
                        node("Relu", {"a"}, {"y"})},
              .inputs = {value("words", {2, 6}, kInt32), value("segments", {2, 6}, kInt32),
                         value("mask", {2, 6}, kInt32), value("we", {1000, 16}),
                         value("pe", {64, 16}), value("se", {2, 16}), value("g", {16}),
                         value("b", {16}), value("w", {16, 48}), value("wb", {48})},
              .outputs = {value("y", {2, 6, 16})}};
  const Model both = read(model(graph));
  const Words rows = kernels_of(both);
  for (const char* row : {"embedding", "layer_norm", "lt", "attention"}) {
    CHECK(std::ranges::find(rows, row) != rows.end());
  }
  CHECK(std::ranges::find(rows, "custom") == rows.end());
  CHECK(both.origin.opaque == 0);
}

TEST_CASE("onnx: products and convolutions with activations are kernels of their own") {
  Graph graph{
      .nodes = {node("FusedConv", {"x", "w"}, {"c"},
                     {text_attribute("activation", "Relu"),
                      attribute("pads", std::vector<std::int64_t>{1, 1, 1, 1})},
                     kMicrosoft),
                node("Relu", {"c"}, {"y"}),
                node("FusedGemm", {"a", "g"}, {"p"},
                     {text_attribute("activation", "Relu"), attribute("transB", 1)}, kMicrosoft),
                node("Relu", {"p"}, {"z"}),
                node("DynamicQuantizeMatMul", {"a", "q", "s"}, {"d"}, {}, kMicrosoft),
                node("Relu", {"d"}, {"e"})},
      .inputs = {value("x", {1, 4, 6, 6}), value("w", {8, 4, 3, 3}), value("a", {5, 16}),
                 value("g", {12, 16}), value("q", {16, 12}, kInt8), value("s", {12})},
      .outputs = {value("y", {1, 8, 6, 6}), value("z", {5, 12}), value("e", {5, 12})}};
  const Model fused = read(model(graph));
  CHECK(rows_of(fused) == Words{"custom", "relu", "custom", "relu", "custom", "relu"});
  const std::uint64_t floats =
      (144 + 288 + 288 + 2 * 288) + (80 + 192 + 60 + 2 * 60) + (80 + 12 + 60 + 2 * 60);
  CHECK(unfused(fused) == 4 * floats + 16 * 12);
}
