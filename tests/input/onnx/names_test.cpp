// Names of weights, and of the ops that read them.

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

// A matrix whose elements, all 0, are in the file.
Message stored(std::string_view name, std::uint64_t rows, std::uint64_t columns) {
  return Message()
      .number(1, rows)
      .number(1, columns)
      .number(2, kFloat)
      .text(8, name)
      .text(9, std::string(4 * rows * columns, '\0'));
}

TEST_CASE("onnx: a stored weight has its name, and its op that of its module, whatever its size") {
  for (const int size : {1, 100, 1000}) {
    CAPTURE(size);
    const auto extent = static_cast<std::uint64_t>(size);
    const Graph graph{
        .nodes = {node("MatMul", {"x", "fc.weight"}, {"p"}), node("Relu", {"p"}, {"y"})},
        .inputs = {value("x", {8, size})},
        .outputs = {value("y", {8, 2 * size})},
        .constants = {stored("fc.weight", extent, 2 * extent)}};
    CHECK(ops_of(read(proto::model(graph))) ==
          Lines{"matmul(x, fc.weight) -> fc", "relu(fc) -> y"});
  }
}

TEST_CASE("onnx: a small weight keeps its name in views and casts, which leave no op") {
  const auto ops = [](const Message& shown, int rows, int columns, std::uint64_t type = kFloat) {
    const Graph graph{.nodes = {shown, node("MatMul", {"x", "w"}, {"y"})},
                      .inputs = {value("x", {8, rows}, type)},
                      .outputs = {value("y", {8, columns}, type)},
                      .constants = {stored("fc.weight", 10, 20), integers("target", {20, 10})}};
    return ops_of(read(proto::model(graph)));
  };
  const Lines named = {"matmul(x, fc.weight) -> fc"};
  CHECK(ops(node("Identity", {"fc.weight"}, {"w"}), 10, 20) == named);
  CHECK(ops(node("Transpose", {"fc.weight"}, {"w"}), 20, 10) == named);
  CHECK(ops(node("Reshape", {"fc.weight", "target"}, {"w"}), 20, 10) == named);
  CHECK(ops(node("Cast", {"fc.weight"}, {"w"}, {attribute("to", 11)}), 10, 20, 11) == named);
}

TEST_CASE("onnx: each of several results has its name in the file") {
  const auto ops = [](const Message& made, const std::vector<Message>& outputs) {
    const Graph graph{.nodes = {made},
                      .inputs = {value("x", {4, 10})},
                      .outputs = outputs,
                      .constants = {integers("three", {3})}};
    return ops_of(read(proto::model(graph)));
  };
  const Message best = node("TopK", {"x", "three"}, {"values", "/head/places"});
  CHECK(ops(best, {value("values", {4, 3}), value("/head/places", {4, 3}, kInt64)}) ==
        Lines{"topk(x) -> values head.places"});
  CHECK(ops(node("Split", {"x"}, {"a", "b"}), {value("a", {2, 10}), value("b", {2, 10})}) ==
        Lines{"slice_view(x) -> a", "slice_view(x) -> b"});
  CHECK(ops(node("Some", {"x"}, {"y", "", "state"}), {value("y", {2}), value("state", {3})}) ==
        Lines{"custom(x) -> y state"});
}

TEST_CASE("onnx: constants that the file does not name are constants") {
  const Message whole = Message().text(1, "value").message(5, stored("", 10, 20)).number(20, 4);
  const Graph graph{
      .nodes = {node("Constant", {}, {"val_3"}, {whole}), node("MatMul", {"x", "val_3"}, {"y"})},
      .inputs = {value("x", {8, 10})},
      .outputs = {value("y", {8, 20})}};
  CHECK(ops_of(read(proto::model(graph))) == Lines{"matmul(x, constant) -> y"});
}

}  // namespace
}  // namespace fusecalc
