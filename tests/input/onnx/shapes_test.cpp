// Shapes that operators give or refuse where the file states none.

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "graph/op_graph.hpp"
#include "input/onnx/proto.hpp"
#include "input/onnx/reading.hpp"
#include "traffic/graph_bytes.hpp"

namespace fusecalc {
namespace {

using namespace proto;
using namespace testing;

using Lines = Words;

// The rows of one operator on x [2, 8], whose result, of a shape that is not stated, a Relu reads.
Lines rows_before_relu(const std::string& op, const std::vector<Message>& attributes = {}) {
  const Graph graph{.nodes = {node(op, {"x"}, {"m"}, attributes), node("Relu", {"m"}, {"y"})},
                    .inputs = {value("x", {2, 8})},
                    .outputs = {value("y", {2, 8})}};
  Lines rows;
  for (const WrittenOp& written : read(proto::model(graph)).graph.ops) rows.push_back(written.op);
  rows.pop_back();
  return rows;
}

TEST_CASE("onnx: activations without a row are those that compute them") {
  const auto factor = [](const char* name, float number) {
    return Message().text(1, name).real(2, number).number(20, 1);
  };
  CHECK(rows_before_relu("Softsign") == Lines{"abs", "add", "div"});
  CHECK(rows_before_relu("Celu") == Lines{"elu"});
  CHECK(rows_before_relu("Celu", {factor("alpha", 2)}) == Lines{"mul", "elu", "mul"});
  CHECK(rows_before_relu("ThresholdedRelu") == Lines{"gt", "where"});
  CHECK(rows_before_relu("Shrink") == Lines{"abs", "gt", "where"});
  CHECK(rows_before_relu("Shrink", {factor("bias", 0.5F)}) ==
        Lines{"abs", "gt", "sign", "fma", "where"});
  CHECK(rows_before_relu("LpNormalization") == Lines{"square", "sum", "sqrt", "div"});
  CHECK(rows_before_relu("LpNormalization", {attribute("p", 1)}) == Lines{"abs", "sum", "div"});
}

TEST_CASE("onnx: operators that keep a shape need none that the file states") {
  for (const char* op : {"LRN", "Hardmax", "MeanVarianceNormalization", "ReverseSequence",
                         "Bernoulli", "RandomNormalLike"}) {
    CAPTURE(op);
    CHECK(rows_before_relu(op) == Lines{"custom"});
  }
  CHECK(rows_before_relu("EyeLike") == Lines{"iota", "one_hot"});
  const Graph graph{.nodes = {node("RandomUniformLike", {"x"}, {"m"}, {attribute("dtype", 11)}),
                              node("Relu", {"m"}, {"y"})},
                    .inputs = {value("x", {2, 8})},
                    .outputs = {value("y", {2, 8}, 11)}};
  const Graph masked{.nodes = {node("Dropout", {"x"}, {"m", "k"}), node("Not", {"k"}, {"y"})},
                     .inputs = {value("x", {2, 8})},
                     .outputs = {value("y", {2, 8}, kBool)}};
  CHECK(ops_of(read(proto::model(masked))) == Lines{"custom(x) -> m k", "logical_not(k) -> y"});
  // Nothing of x is read, and f64 has 8 bytes.
  CHECK(testing::unfused_bytes(build_graph(read(proto::model(graph)).graph, {})).total() ==
        8 * 3 * 16);
}

TEST_CASE("onnx: a mean of tensors, and what is quantized by its range") {
  const Graph graph{.nodes = {node("Mean", {"a", "b", "c"}, {"m"}),
                              node("DynamicQuantizeLinear", {"m"}, {"q", "s", "z"}),
                              node("DequantizeLinear", {"q", "s", "z"}, {"y"})},
                    .inputs = {value("a", {4, 8}), value("b", {8}), value("c", {4, 8})},
                    .outputs = {value("y", {4, 8})}};
  const Model model = read(proto::model(graph));
  Lines rows;
  for (const WrittenOp& op : model.graph.ops) rows.push_back(op.op);
  CHECK(rows == Lines{"add", "add", "div", "custom", "cast", "cast", "sub", "mul"});
  CHECK(model.origin.opaque == 1);
  // The mean; the custom op, which writes 32 elements in a byte each, a scale and a zero point;
  // what they are read as.
  CHECK(testing::unfused_bytes(build_graph(model.graph, {})).total() ==
        4 * (72 + 96 + 64) + (128 + 32 + 4 + 1) + (32 + 128) + (1 + 4) + 2 * (128 + 4 + 128));
}

TEST_CASE("onnx: a target that a reshape cannot have is told") {
  const Graph graph{.nodes = {node("Reshape", {"x", "target"}, {"y"})},
                    .inputs = {value("x", {4, 8})},
                    .outputs = {value("y", {3, 10})},
                    .constants = {integers("target", {3, -1})}};
  CHECK(refusal(proto::model(graph)) ==
        "m.onnx: node \"node_y\" (Reshape): its input of shape [4, 8] cannot be read as shape [3, "
        "-1]");
}

TEST_CASE("onnx: inputs whose shapes do not fit are refused, also where a result is stated") {
  const auto with = [](const std::string& op, const std::vector<std::vector<Extent>>& shapes,
                       const std::vector<Message>& attributes = {}) {
    Graph graph{.outputs = {value("y", {4, 10})}};
    std::vector<std::string> names;
    for (const std::vector<Extent>& shape : shapes) {
      names.push_back("x" + std::to_string(names.size()));
      graph.inputs.push_back(value(names.back(), shape));
    }
    graph.nodes = {node(op, names, {"y"}, attributes)};
    const std::string message = refusal(proto::model(graph));
    const std::string place = "m.onnx: node \"node_y\" (" + op + "): its ";
    return message.starts_with(place) ? message.substr(place.size()) : message;
  };
  const auto transposed = attribute("transB", 1);
  CHECK(with("MatMul", {{4, 100}, {99, 10}}) ==
        "inputs of shapes [4, 100] and [99, 10] cannot be multiplied");
  CHECK(with("MatMul", {{2, 4, 8}, {3, 8, 10}}) ==
        "inputs of shapes [2, 4, 8] and [3, 8, 10] cannot be multiplied");
  CHECK(with("MatMul", {{4, 8}, {8, 10}}) == "accepted");
  CHECK(with("Gemm", {{4, 8}, {8, 10}}, {transposed}) ==
        "inputs of shapes [4, 8] and [10, 8] cannot be multiplied");
  CHECK(with("Gemm", {{4, 8}, {8, 10}, {9}}) ==
        "bias of shape [9] does not broadcast to its product of shape [4, 10]");
  CHECK(with("Gemm", {{4, 8}, {10, 8}, {10}}, {transposed}) == "accepted");
  CHECK(with("Add", {{4, 10}, {4, 9}}) == "inputs of shapes [4, 10] and [4, 9] do not broadcast");
  CHECK(with("Max", {{4, 10}, {10}, {9}}) == "inputs of shapes [4, 10] and [9] do not broadcast");
  CHECK(
      with("Conv", {{1, 3, 4, 30}, {8, 3, 7, 7}}, {attribute("pads", {1, 1, 1, 1})}) ==
      "window reaches over 7 elements of axis 2, but its input of shape [1, 3, 4, 30] has 6 there "
      "with its padding");
  CHECK(with("Conv", {{1, 3, 30, 30}, {8, 4, 7, 7}}) ==
        "input of shape [1, 3, 30, 30] has 3 channels, but its weight of shape [8, 4, 7, 7] takes "
        "4 (group 1)");
  CHECK(with("MaxPool", {{1, 3, 4, 4}}, {attribute("kernel_shape", {2, 5})}) ==
        "window reaches over 5 elements of axis 3, but its input of shape [1, 3, 4, 4] has 4 there "
        "with its padding");
}

}  // namespace
}  // namespace fusecalc
