
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "graph/op_graph.hpp"
#include "input/onnx/proto.hpp"
#include "input/onnx/reading.hpp"

namespace fusecalc {
namespace {

using namespace proto;
using namespace testing;

using Lines = Words;

TEST_CASE("onnx: a product with a transposed weight and a bias is one linear") {
  const Graph graph{
      .nodes = {node("Transpose", {"fc.weight"}, {"wt"}, {attribute("perm", {1, 0})}),
                node("MatMul", {"x", "wt"}, {"p"}), node("Add", {"p", "fc.bias"}, {"y"})},
      .inputs = {value("x", {8, 32, 64}), value("fc.weight", {128, 64}), value("fc.bias", {128})},
      .outputs = {value("y", {8, 32, 128})}};
  const Model model = read(proto::model(graph));
  CHECK(ops_of(model) == Lines{"linear(x, fc.weight, fc.bias) -> fc"});
  CHECK(*model.graph.ops[0].name == "fc");
}

TEST_CASE("onnx: a product that others read keeps its own result beside the bias") {
  const Graph graph{.nodes = {node("Transpose", {"w"}, {"wt"}, {attribute("perm", {1, 0})}),
                              node("MatMul", {"x", "wt"}, {"p"}), node("Add", {"p", "b"}, {"y"})},
                    .inputs = {value("x", {32, 64}), value("w", {128, 64}), value("b", {128})},
                    .outputs = {value("y", {32, 128}), value("p", {32, 128})}};
  CHECK(ops_of(read(proto::model(graph))) == Lines{"linear(x, w) -> p", "linear(x, w, b) -> y"});
}

TEST_CASE("onnx: shape arithmetic is folded") {
  const Graph graph{
      .nodes = {node("Shape", {"x"}, {"s"}),
                node("Gather", {"s", "first"}, {"rows"}, {attribute("axis", 0)}),
                node("Unsqueeze", {"rows", "axis"}, {"rows1"}),
                node("Concat", {"rows1", "rest"}, {"target"}, {attribute("axis", 0)}),
                node("Reshape", {"x", "target"}, {"v"}), node("Relu", {"v"}, {"y"})},
      .inputs = {value("x", {6, 4, 10})},
      .outputs = {value("y", {6, 40})},
      .constants = {integers("first", {0}, true), integers("axis", {0}), integers("rest", {-1})}};
  const Model model = read(proto::model(graph));
  CHECK(ops_of(model) == Lines{"reshape(x) -> v", "relu(v) -> y"});
  CHECK(model.origin.folded == 4);
  CHECK(model.origin.views == 1);
  CHECK(model.origin.exact == 1);
  CHECK(model.origin.opaque == 0);
  CHECK(build_graph(model.graph, {}).tensors.back().type.shape == Shape{6, 40});
}

TEST_CASE("onnx: a constant that is cast like a tensor is a number, as one that is cast") {
  constexpr std::uint64_t kFloat16 = 10;
  const auto scaled = [](const Message& cast) {
    const Graph graph{.nodes = {cast, node("Mul", {"x", "c"}, {"y"})},
                      .inputs = {value("x", {100}, kFloat16)},
                      .outputs = {value("y", {100}, kFloat16)},
                      .constants = {real("two", 2)}};
    return read(proto::model(graph));
  };
  for (const Message& cast : {node("Cast", {"two"}, {"c"}, {attribute("to", 10)}),
                              node("CastLike", {"two", "x"}, {"c"})}) {
    const Model model = scaled(cast);
    CHECK(ops_of(model) == Lines{"mul(x, #) -> y"});
    CHECK(model.origin.folded == 1);
    CHECK(unfused(model) == 400);  // 100 elements of 2 bytes, read and written
  }
}

TEST_CASE("onnx: a reshape of a transposed tensor copies unless its strides allow it") {
  const auto reshaped = [](std::vector<std::int64_t> target) {
    const Graph graph{
        .nodes = {node("Transpose", {"x"}, {"t"}, {attribute("perm", {0, 2, 1})}),
                  node("Reshape", {"t", "target"}, {"v"}), node("Relu", {"v"}, {"y"})},
        .inputs = {value("x", {2, 6, 8})},
        .outputs = {value("y", {})},
        .constants = {integers("target", target)}};
    return ops_of(read(proto::model(graph)));
  };
  CHECK(reshaped({16, 6}).size() == 4);       // axes 2 and 8 are apart in memory
  CHECK(reshaped({2, 4, 2, 6}).size() == 3);  // an axis is split
  CHECK(reshaped({2, 8, 2, 3}).size() == 3);
}

TEST_CASE("onnx: an axis of one element lies anywhere in memory") {
  // [2, 1, 8] of strides 8, 8, 1 becomes [1, 2, 8], which is in order all the same.
  const Graph graph{.nodes = {node("Transpose", {"x"}, {"t"}, {attribute("perm", {1, 0, 2})}),
                              node("Reshape", {"t", "target"}, {"v"}), node("Relu", {"v"}, {"y"})},
                    .inputs = {value("x", {2, 1, 8})},
                    .outputs = {value("y", {16})},
                    .constants = {integers("target", {16})}};
  CHECK(ops_of(read(proto::model(graph))) ==
        Lines{"permute_view(x) -> t", "reshape(t) -> v", "relu(v) -> y"});
}

TEST_CASE("onnx: attention written out is one op") {
  const Graph graph{.nodes = {node("Transpose", {"k"}, {"kt"}, {attribute("perm", {0, 1, 3, 2})}),
                              node("MatMul", {"q", "kt"}, {"s"}),
                              node("Mul", {"s", "scale"}, {"t"}), node("Add", {"t", "mask"}, {"m"}),
                              node("Softmax", {"m"}, {"p"}), node("MatMul", {"p", "v"}, {"y"})},
                    .inputs = {value("q", {2, 4, 8, 16}), value("k", {2, 4, 8, 16}),
                               value("v", {2, 4, 8, 16}), value("mask", {2, 1, 1, 8})},
                    .outputs = {value("y", {2, 4, 8, 16})},
                    .constants = {Message().number(2, kFloat).text(8, "scale").real(4, 0.5F)}};
  const Model model = read(proto::model(graph));
  CHECK(ops_of(model) == Lines{"attention(q, k, v, mask) -> y"});
  REQUIRE(model.graph.ops[0].attributes.size() == 1);
  CHECK(model.graph.ops[0].attributes[0].name == "scale");
}

TEST_CASE("onnx: open dimensions are named, and set by name") {
  const Graph graph{.nodes = {node("Relu", {"x"}, {"y"})},
                    .inputs = {value("x", {"batch", 16})},
                    .outputs = {value("y", {"batch", 16})}};
  CHECK(refusal(proto::model(graph)) ==
        "m.onnx: the model leaves a dimension open; set it with --dim batch=N");
  const Model model = read(proto::model(graph), {{"batch", 12}});
  CHECK(build_graph(model.graph, {}).tensors[0].type.shape == Shape{12, 16});
}

TEST_CASE("onnx: repeated key heads are read once by attention") {
  const auto repeat = [](const std::string& x) {
    return std::vector<Message>{node("Unsqueeze", {x, "two"}, {x + "1"}),
                                node("Expand", {x + "1", "five"}, {x + "2"}),
                                node("Reshape", {x + "2", "four"}, {x + "3"})};
  };
  Graph graph{.inputs = {value("q", {1, 8, 64, 32}), value("k", {1, 2, 64, 32}),
                         value("v", {1, 2, 64, 32})},
              .outputs = {value("y", {1, 8, 64, 32})},
              .constants = {integers("two", {2}), integers("five", {1, 2, 4, 64, 32}),
                            integers("four", {1, 8, 64, 32})}};
  for (const std::string& x : {std::string("k"), std::string("v")}) {
    for (const Message& each : repeat(x)) graph.nodes.push_back(each);
  }
  graph.nodes.push_back(node("Attention", {"q", "k3", "v3"}, {"y"}, {attribute("is_causal", 1)}));
  CHECK(ops_of(read(proto::model(graph, 23))) == Lines{"attention(q, k, v) -> y"});
}

TEST_CASE("onnx: shapes that depend on data and sequences are told as what they are") {
  const auto refused = [](const char* type) {
    return refusal(proto::model({.nodes = {node(type, {"x"}, {"m"}), node("Relu", {"m"}, {"y"})},
                                 .inputs = {value("x", {100})},
                                 .outputs = {value("y", {50})}}));
  };
  CHECK(refused("NonZero") ==
        "m.onnx: node \"node_m\" (NonZero): how many elements \"m\" has depends on data, not on "
        "shapes; export the model up to here, or without the operator (a mask as Where in place of "
        "its indices)");
  CHECK(refused("SequenceConstruct") ==
        "m.onnx: node \"node_m\" (SequenceConstruct): \"m\" is a sequence of tensors, which "
        "fusecalc does not read; export the model without it");
}

TEST_CASE("onnx: convolutions of integers need no shape inference") {
  constexpr int kU8 = 2;
  constexpr int kI32 = 6;
  Graph graph{.nodes = {node("QLinearConv", {"x", "s", "z", "w", "s", "z", "s", "z"}, {"c"},
                             {attribute("pads", {1, 1, 1, 1}), attribute("strides", {2, 2})}),
                        node("ConvInteger", {"c", "v"}, {"i"}), node("Relu", {"i"}, {"y"})},
              .inputs = {value("x", {2, 3, 8, 8}, kU8), value("w", {16, 3, 3, 3}, kU8),
                         value("v", {4, 16, 1, 1}, kU8), value("s", {}), value("z", {}, kU8)},
              .outputs = {value("y", {2, 4, 4, 4}, kI32)}};
  const Model model = read(proto::model(graph));
  // x, the scale, the zero point, w and c of 2 x 16 x 4 x 4 bytes; c, v and i of 2 x 4 x 4 x 4
  // 32-bit integers; i twice.
  const std::uint64_t c = 2 * 16 * 16;
  const std::uint64_t i = 4 * 2 * 4 * 16;
  CHECK(unfused(model) == (2 * 3 * 64 + 4 + 1 + 16 * 27 + c) + (c + 64 + i) + 2 * i);
}

TEST_CASE("onnx: an unknown operator is opaque if the file states its shape") {
  Graph graph{.nodes = {node("Strange", {"x"}, {"m"}, {}, "vendor"), node("Relu", {"m"}, {"y"})},
              .inputs = {value("x", {100})},
              .outputs = {value("y", {50})}};
  CHECK(refusal(proto::model(graph)) ==
        "m.onnx: node \"node_m\" (Strange): the file states no shape of \"m\", and fusecalc does "
        "not know the operator; run ONNX shape inference on the model first");
  graph.values = {value("m", {50})};
  const Model model = read(proto::model(graph));
  CHECK(ops_of(model) == Lines{"custom(x) -> m", "relu(m) -> y"});
  CHECK(model.origin.opaque == 1);
  REQUIRE(model.origin.missing.size() == 1);
  CHECK(model.origin.missing[0].target == "vendor.Strange");
}

TEST_CASE(
    "onnx: recurrent networks are opaque, with shapes of their own and the arithmetic of "
    "products") {
  // 5 steps of 2 sequences, 3 inputs, 4 hidden, 3 gates, both directions.
  const auto graph = [](bool batch_first) {
    return Graph{.nodes = {node("GRU", {"x", "w", "r", "b"}, {"h", "last"},
                                {attribute("layout", std::int64_t{batch_first ? 1 : 0})}),
                           node("Relu", {"h"}, {"y"})},
                 .inputs = {value("x", batch_first ? std::vector<Extent>{2, 5, 3}
                                                   : std::vector<Extent>{5, 2, 3}),
                            value("w", {2, 12, 3}), value("r", {2, 12, 4}), value("b", {2, 24})},
                 .outputs = {value("y", batch_first ? std::vector<Extent>{2, 5, 2, 4}
                                                    : std::vector<Extent>{5, 2, 2, 4})}};
  };
  for (const bool batch_first : {false, true}) {
    const Model model = read(proto::model(graph(batch_first)));
    CHECK(model.origin.opaque == 1);
    const OpGraph built = build_graph(model.graph, {});
    CHECK(built.ops[0].flops == 2 * (5 * 2 * 2 * 12) * (3 + 4));
    CHECK(built.tensors[built.ops[1].outputs[0]].type.shape ==
          (batch_first ? Shape{2, 5, 2, 4} : Shape{5, 2, 2, 4}));
  }
}

TEST_CASE(
    "onnx: activations that are written out are one op, whatever the order of their factors") {
  const auto gelu = [&](bool half_last) {
    std::vector<Message> nodes = {node("Div", {"x", "root"}, {"d"}), node("Erf", {"d"}, {"e"}),
                                  node("Add", {"e", "one"}, {"a"})};
    if (half_last) {
      nodes.push_back(node("Mul", {"x", "a"}, {"m"}));
      nodes.push_back(node("Mul", {"m", "half"}, {"y"}));
    } else {
      nodes.push_back(node("Mul", {"half", "a"}, {"m"}));
      nodes.push_back(node("Mul", {"x", "m"}, {"y"}));
    }
    return Graph{.nodes = nodes,
                 .inputs = {value("x", {4, 6})},
                 .outputs = {value("y", {4, 6})},
                 .constants = {real("root", 1.4142135F), real("one", 1), real("half", 0.5F)}};
  };
  CHECK(ops_of(read(proto::model(gelu(false)))) == Lines{"gelu(x) -> y"});
  CHECK(ops_of(read(proto::model(gelu(true)))) == Lines{"gelu(x) -> y"});
  Graph other = gelu(true);
  other.constants[2] = real("half", 0.25F);
  CHECK(ops_of(read(proto::model(other))).size() == 5);

  const auto gate = [](const std::string& factor, const std::vector<Message>& outputs) {
    return Graph{.nodes = {node("Sigmoid", {"x"}, {"s"}), node("Mul", {"s", factor}, {"y"})},
                 .inputs = {value("x", {4, 6}), value("z", {4, 6})},
                 .outputs = outputs};
  };
  CHECK(ops_of(read(proto::model(gate("x", {value("y", {4, 6})})))) == Lines{"silu(x) -> y"});
  CHECK(ops_of(read(proto::model(gate("x", {value("y", {4, 6}), value("s", {4, 6})})))) ==
        Lines{"sigmoid(x) -> s", "mul(s, x) -> y"});
  CHECK(ops_of(read(proto::model(gate("z", {value("y", {4, 6})})))) ==
        Lines{"sigmoid(x) -> s", "mul(s, z) -> y"});
}

TEST_CASE("onnx: slices, splits and single rows are parts of their tensor") {
  const Graph graph{.nodes = {node("Split", {"x"}, {"a", "b"}, {attribute("axis", 1)}),
                              node("Slice", {"b", "from", "to", "axis"}, {"c"}),
                              node("Gather", {"c", "row"}, {"d"}, {attribute("axis", 0)}),
                              node("Relu", {"d"}, {"y"}), node("Relu", {"a"}, {"z"})},
                    .inputs = {value("x", {10, 6})},
                    .outputs = {value("y", {2}), value("z", {10, 3})},
                    .constants = {integers("from", {1}), integers("to", {INT64_MAX}),
                                  integers("axis", {-1}), integers("row", {-1}, true)}};
  const OpGraph built = build_graph(read(proto::model(graph)).graph, {});
  std::vector<Shape> outputs;
  for (const Tensor& tensor : built.tensors) {
    if (tensor.output) outputs.push_back(tensor.type.shape);
  }
  CHECK(outputs == std::vector<Shape>{{2}, {10, 3}});
}

TEST_CASE("onnx: weights of 8 bits are scaled by column after they are read") {
  const Graph graph{
      .nodes = {node("DequantizeLinear", {"w", "s"}, {"wide"}, {attribute("axis", 1)}),
                node("MatMul", {"x", "wide"}, {"y"})},
      .inputs = {value("x", {4, 32}), value("w", {32, 64}, kInt8), value("s", {64})},
      .outputs = {value("y", {4, 64})}};
  const Model model = read(proto::model(graph));
  CHECK(ops_of(model).back() == "matmul(x, wide) -> y");
  CHECK(model.origin.opaque == 0);
}

TEST_CASE("onnx: slopes of channels, shifts of packed weights and curves have rows") {
  const Graph graph{
      .nodes = {node("PRelu", {"x", "slope"}, {"p"}), node("Selu", {"p"}, {"s"}),
                node("Asinh", {"s"}, {"y"}),
                node("BitShift", {"w", "four"}, {"high"}, {text_attribute("direction", "RIGHT")}),
                node("BitShift", {"w", "four"}, {"low"}, {text_attribute("direction", "LEFT")})},
      .inputs = {value("x", {2, 3, 4, 4}), value("slope", {3, 1, 1}), value("w", {8}, kInt8),
                 value("four", {1}, kInt8)},
      .outputs = {value("y", {2, 3, 4, 4}), value("high", {8}, kInt8), value("low", {8}, kInt8)}};
  const Model model = read(proto::model(graph));
  CHECK(model.origin.opaque == 0);
  CHECK(ops_of(model) == Lines{"prelu(x, slope) -> p", "selu(p) -> s", "asinh(s) -> y",
                               "bitwise_right_shift(w, four) -> high",
                               "bitwise_left_shift(w, four) -> low"});
}

TEST_CASE("onnx: pooling, transposed convolutions and resizing have rows") {
  const Graph graph{
      .nodes = {node("MaxPool", {"x"}, {"p"},
                     {attribute("kernel_shape", {3, 3}), attribute("strides", {2, 2}),
                      attribute("pads", {1, 1, 1, 1})}),
                node("ConvTranspose", {"p", "w"}, {"c"}, {attribute("strides", {2, 2})}),
                node("AveragePool", {"c"}, {"a"}, {attribute("kernel_shape", {2, 2})}),
                node("Resize", {"a", "", "", "size"}, {"y"},
                     {proto::text_attribute("mode", "nearest"),
                      proto::text_attribute("coordinate_transformation_mode", "asymmetric"),
                      proto::text_attribute("nearest_mode", "floor")})},
      .inputs = {value("x", {1, 4, 16, 16}), value("w", {4, 2, 2, 2})},
      .outputs = {value("y", {1, 2, 30, 30})},
      .constants = {integers("size", {1, 2, 30, 30})}};
  const Model model = read(proto::model(graph));
  CHECK(ops_of(model) == Lines{"max_pool(x) -> p", "conv_transpose2d(p, w) -> c",
                               "avg_pool(c) -> a", "upsample_nearest(a) -> y"});
  CHECK(build_graph(model.graph, {}).tensors.back().type.shape == Shape{1, 2, 30, 30});
}

TEST_CASE("onnx: a convolution of images of one pixel is a linear of their channels") {
  const Graph graph{.nodes = {node("Conv", {"x", "w", "b"}, {"y"})},
                    .inputs = {value("x", {2, 4, 1, 1}), value("w", {8, 4, 1, 1}), value("b", {8})},
                    .outputs = {value("y", {2, 8, 1, 1})}};
  const Model model = read(proto::model(graph));
  CHECK(ops_of(model) == Lines{"reshape(x) -> y.reshape", "reshape(w) -> y.reshape_2",
                               "linear(y.reshape, y.reshape_2, b) -> y.linear",
                               "reshape(y.linear) -> y"});
}

TEST_CASE("onnx: windows that pad one end more than the other read a padded input") {
  const Graph graph{.nodes = {node("Conv", {"x", "w"}, {"y"}, {attribute("pads", {2, 0})})},
                    .inputs = {value("x", {2, 4, 10}), value("w", {8, 4, 3})},
                    .outputs = {value("y", {2, 8, 10})}};
  CHECK(ops_of(read(proto::model(graph))) == Lines{"pad(x) -> y.pad", "conv1d(y.pad, w) -> y"});
}

TEST_CASE("onnx: what is damaged, old or too deep is refused in one line") {
  const Graph graph{.nodes = {node("Relu", {"x"}, {"y"})},
                    .inputs = {value("x", {4})},
                    .outputs = {value("y", {4})}};
  const std::string whole = proto::model(graph);
  CHECK(refusal(whole) == "accepted");
  for (std::size_t length = 0; length < whole.size(); ++length) {
    CHECK(refusal(whole.substr(0, length)).starts_with("m.onnx: "));
  }
  CHECK(refusal(proto::model(graph, 12)) ==
        "m.onnx: opset 12 is older than 13, the oldest that fusecalc reads; convert the model with "
        "onnx.version_converter");
  CHECK(refusal(proto::model(graph, 23)) == "accepted");
  CHECK(refusal(proto::model(graph, 24)) ==
        "m.onnx: opset 24 is newer than 23, the latest that fusecalc reads; convert the model with "
        "onnx.version_converter");
  Message deep = Graph{}.encoded();
  for (int i = 0; i < 40; ++i) {
    deep = Graph{.nodes = {node("If", {"c"}, {"y"}, {Message().text(1, "g").message(6, deep)})}}
               .encoded();
  }
  CHECK(refusal(Message().message(7, deep).bytes())
            .starts_with("m.onnx: not a valid ONNX file: graphs nested more than 16 deep at byte"));
}

TEST_CASE("onnx: a node that reads what nothing wrote is refused") {
  const Graph graph{.nodes = {node("Relu", {"hidden"}, {"y"})}, .outputs = {value("y", {4})}};
  CHECK(refusal(proto::model(graph)) ==
        "m.onnx: node \"node_y\" (Relu): its input \"hidden\" is not known: no earlier node writes "
        "it");
}

TEST_CASE("onnx: an input that cannot be counted is told by its own fault") {
  const auto with = [](const Message& input) {
    const Graph graph{
        .nodes = {node("Relu", {"x"}, {"y"})}, .inputs = {input}, .outputs = {value("y", {4})}};
    return refusal(proto::model(graph));
  };
  const std::string input = "m.onnx: node \"node_y\" (Relu): the graph's input \"x\" is not read: ";
  constexpr std::uint64_t kString = 8;
  CHECK(with(value("x", {4}, kString)) ==
        input + "its elements are of a type that fusecalc does not read");
  CHECK(
      with(Message().text(1, "x").message(2, Message().message(1, Message().number(1, kFloat)))) ==
      input + "the file does not state its shape");
  CHECK(with(value("x", {2'000'000'000, 2'000'000'000, 2'000'000'000})) ==
        input + "it has more than 9223372036854775807 bytes");
}

TEST_CASE("onnx: a value has one writer, and outputs have the shapes that the file states") {
  Graph graph{.nodes = {node("Relu", {"x"}, {"y"}), node("Exp", {"x"}, {"y"})},
              .inputs = {value("x", {4, 8})},
              .outputs = {value("y", {4, 8})}};
  CHECK(refusal(proto::model(graph)) ==
        "m.onnx: node \"node_y\" (Exp): its output \"y\" is already written by node \"node_y\" "
        "(Relu)");
  graph.nodes = {node("Relu", {"x"}, {"x"})};
  CHECK(refusal(proto::model(graph)) ==
        "m.onnx: node \"node_x\" (Relu): its output \"x\" is already an input of the graph");
  graph.nodes = {node("Relu", {"x"}, {"y"})};
  CHECK(refusal(proto::model(graph)) == "accepted");
  graph.outputs = {value("y", {5, 8})};
  CHECK(refusal(proto::model(graph)) ==
        "m.onnx: the output \"y\" has the shape [4, 8], but the file states [5, 8]; run ONNX shape "
        "inference on the model");
  // An export with sizes of its own, which --dim changes.
  graph.inputs = {value("x", {"rows", 8})};
  CHECK(refusal(proto::model(graph), {{"rows", 7}}) == "accepted");
}

}  // namespace
}  // namespace fusecalc
