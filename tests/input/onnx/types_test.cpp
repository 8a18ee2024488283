// Element types: those that operators give, and those that the file states.

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

constexpr std::uint64_t kInt32 = 6;
constexpr std::uint64_t kFloat16 = 10;
constexpr std::uint64_t kDouble = 11;

TEST_CASE("onnx: a power has the type of its base") {
  const auto bytes = [](std::uint64_t base, std::uint64_t exponent) {
    const Graph graph{.nodes = {node("Pow", {"x", "n"}, {"y"})},
                      .inputs = {value("x", {100}, base), value("n", {100}, exponent)},
                      .outputs = {value("y", {100}, base)}};
    const Model model = read(proto::model(graph));
    CHECK(ops_of(model) == Lines{"pow(x, n) -> y"});
    return unfused(model);
  };
  CHECK(bytes(kInt64, kFloat) == 100 * (8 + 4 + 8));
  CHECK(bytes(kFloat16, kFloat) == 100 * (2 + 4 + 2));
  CHECK(bytes(kFloat, kInt64) == 100 * (4 + 8 + 4));
}

TEST_CASE("onnx: what is computed of integers has their type") {
  const auto bytes = [](const Message& computed, const std::vector<Message>& inputs,
                        const Message& output) {
    const Graph graph{.nodes = {computed},
                      .inputs = inputs,
                      .outputs = {output},
                      .constants = {integers("axis", {1})}};
    const Model model = read(proto::model(graph));
    CHECK(model.origin.opaque == 0);
    return unfused(model);
  };
  const Message x = value("x", {10, 20}, kInt32);
  const Message rows = value("y", {10, 1}, kInt32);
  for (const char* op : {"ReduceSum", "ReduceProd", "ReduceMean"}) {
    CAPTURE(op);
    const bool attributed = std::string(op) != "ReduceSum";  // axes in opset 13
    const std::vector<std::int64_t> axes = {1};
    const Graph graph{.nodes = {attributed ? node(op, {"x"}, {"y"}, {attribute("axes", axes)})
                                           : node(op, {"x", "axis"}, {"y"})},
                      .inputs = {x},
                      .outputs = {rows},
                      .constants = {integers("axis", {1})}};
    CHECK(unfused(read(proto::model(graph, 13))) == 4 * (200 + 10));
  }
  CHECK(bytes(node("CumSum", {"x", "axis"}, {"y"}), {x}, value("y", {10, 20}, kInt32)) ==
        4 * (200 + 200));
  CHECK(bytes(node("Erf", {"x"}, {"y"}), {x}, value("y", {10, 20}, kInt32)) == 4 * (200 + 200));
  CHECK(bytes(node("MatMul", {"x", "w"}, {"y"}),
              {value("x", {10, 20}, kInt64), value("w", {20, 30}, kInt64)},
              value("y", {10, 30}, kInt64)) == 8 * (200 + 600 + 300));
  // A product and its bias are one linear.
  const Graph biased{.nodes = {node("MatMul", {"x", "w"}, {"p"}), node("Add", {"p", "b"}, {"y"})},
                     .inputs = {value("x", {10, 20}, kInt64), value("w", {20, 30}, kInt64),
                                value("b", {30}, kInt64)},
                     .outputs = {value("y", {10, 30}, kInt64)}};
  CHECK(unfused(read(proto::model(biased))) == 8 * (200 + 600 + 30 + 300));
}

TEST_CASE("onnx: the statistics of a layer norm have the type in which they are computed") {
  const Graph graph{.nodes = {node("LayerNormalization", {"x", "w"}, {"y", "mean"})},
                    .inputs = {value("x", {10, 20}, kDouble), value("w", {20}, kDouble)},
                    .outputs = {value("y", {10, 20}, kDouble), value("mean", {10, 1}, kFloat)}};
  CHECK(unfused(read(proto::model(graph))) == 8 * (200 + 20 + 200) + 4 * 10);
}

TEST_CASE("onnx: outputs have the types that the file states") {
  Graph graph{.nodes = {node("Relu", {"x"}, {"y"})},
              .inputs = {value("x", {"rows", 8})},
              .outputs = {value("y", {"rows", 8}, kFloat16)}};
  CHECK(refusal(proto::model(graph), {{"rows", 4}}) ==
        "m.onnx: the output \"y\" has the type f32, but the file states f16; run ONNX shape "
        "inference on the model");
  graph.outputs = {value("y", {"rows", 8})};
  CHECK(refusal(proto::model(graph), {{"rows", 4}}) == "accepted");
  constexpr std::uint64_t kNotStated = 0;
  graph.outputs = {value("y", {"rows", 8}, kNotStated)};
  CHECK(refusal(proto::model(graph), {{"rows", 4}}) == "accepted");
}

}  // namespace
}  // namespace fusecalc
