// Norms in training.

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

// Of x [4, 8, 3], by 8 channels.
Model trained(const std::vector<std::string>& outputs) {
  Graph graph{.nodes = {node("BatchNormalization", {"x", "weight", "bias", "mean", "variance"},
                             outputs, {attribute("training_mode", 1)})},
              .inputs = {value("x", {4, 8, 3})},
              .outputs = {}};
  for (const char* name : {"weight", "bias", "mean", "variance"}) {
    graph.inputs.push_back(value(name, {8}));
  }
  for (const std::string& output : outputs) graph.outputs.push_back(Message().text(1, output));
  return read(proto::model(graph));
}

TEST_CASE("onnx: a batch norm in training gives what running statistics become") {
  const Model all = trained({"y", "running_mean", "running_variance"});
  CHECK(ops_of(all) == Words{"batch_norm(x, weight, bias, mean, variance) -> y y.1 y.2 "
                             "running_mean running_variance"});
  // x is read twice: for its statistics, and for y.
  CHECK(unfused(all) == 4 * (2 * 96 + 4 * 8 + 96 + 2 * 8));
  const Model alone = trained({"y"});
  CHECK(ops_of(alone) == Words{"batch_norm(x, weight, bias) -> y"});
  CHECK(unfused(alone) == 4 * (2 * 96 + 2 * 8 + 96));
}

}  // namespace
}  // namespace fusecalc
