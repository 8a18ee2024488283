// Pooling whose windows pad one end more than the other.

#include <doctest/doctest.h>

#include <string>
#include <variant>
#include <vector>

#include "graph/op_graph.hpp"
#include "input/onnx/proto.hpp"
#include "input/onnx/reading.hpp"

namespace fusecalc {
namespace {

using namespace proto;
using namespace testing;

// Windows of 3 x 3, 2 apart, on x [1, 4, 8, 8].
Model pooled(const std::string& op, std::vector<Message> attributes, std::uint64_t type = kFloat,
             int results = 4) {
  attributes.push_back(attribute("kernel_shape", {3, 3}));
  attributes.push_back(attribute("strides", {2, 2}));
  const Graph graph{.nodes = {node(op, {"x"}, {"y"}, attributes)},
                    .inputs = {value("x", {1, 4, 8, 8}, type)},
                    .outputs = {value("y", {1, 4, results, results}, type)}};
  return read(proto::model(graph));
}

double value_of(const WrittenOp& pad) {
  for (const WrittenAttribute& each : pad.attributes) {
    if (each.name == "value") return std::get<double>(each.value);
  }
  return 0;
}

TEST_CASE("onnx: pooling that pads one end more is a row where its results are as many") {
  for (const std::string op : {"MaxPool", "AveragePool"}) {
    for (const Message& padding :
         {text_attribute("auto_pad", "SAME_UPPER"), text_attribute("auto_pad", "SAME_LOWER"),
          attribute("pads", {0, 0, 1, 1}), attribute("pads", {1, 1, 1, 1})}) {
      const Model model = pooled(op, {padding});
      CHECK(model.graph.ops.size() == 1);
      CHECK(model.origin.opaque == 0);
      CHECK(unfused(model) == 4 * 4 * (64 + 16));
    }
  }
}

TEST_CASE("onnx: what a maximum is padded with is less than all elements") {
  // 8 + 3 elements have windows of 3 at 0, 2, 4, 6 and 8; without the padding none begins at 8.
  const Message padding = attribute("pads", {0, 0, 3, 3});
  const Model model = pooled("MaxPool", {padding}, kFloat, 5);
  CHECK(ops_of(model) == Words{"pad(x) -> y.pad", "max_pool(y.pad) -> y"});
  CHECK(value_of(model.graph.ops[0]) < -1e38);
  // The padded 11 x 11 elements of each plane are written, and read again.
  CHECK(unfused(model) == 4 * 4 * (64 + 121 + 121 + 25));
  CHECK(value_of(pooled("MaxPool", {padding}, kInt8, 5).graph.ops[0]) == -128);
}

TEST_CASE("onnx: an average of windows reads padded elements only where they count") {
  const Message padding = attribute("pads", {0, 0, 1, 1});
  const Model counted = pooled("AveragePool", {padding, attribute("count_include_pad", 1)});
  CHECK(ops_of(counted) == Words{"pad(x) -> y.pad", "avg_pool(y.pad) -> y"});
  CHECK(value_of(counted.graph.ops[0]) == 0);
  CHECK(ops_of(pooled("AveragePool", {attribute("pads", {0, 0, 3, 3})}, kFloat, 5)) ==
        Words{"custom(x) -> y"});
}

}  // namespace
}  // namespace fusecalc
