// Symbolic dimensions, which --dim sets.

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

// What is said of a model whose graph is built with these dims.
std::string said(const Graph& graph, const std::vector<DimOverride>& dims) {
  try {
    build_graph(read(proto::model(graph), dims).graph, dims);
  } catch (const Error& error) {
    CHECK(error.fault() == Fault::kBadInput);
    return error.what();
  }
  return "accepted";
}

TEST_CASE("onnx: a dim that the model does not name is refused") {
  Graph graph{.nodes = {node("Relu", {"x"}, {"h"}), node("Relu", {"h"}, {"y"})},
              .inputs = {value("x", {4, 8})},
              .outputs = {value("y", {4, 8})}};
  CHECK(said(graph, {{"Qxyz", 4}}) == "m.onnx: --dim: unknown dim \"Qxyz\" (there are no dims)");
  graph.inputs = {value("x", {"batch", 8})};
  CHECK(said(graph, {{"batch", 4}}) == "accepted");
  CHECK(said(graph, {{"batch", 4}, {"Qxyz", 4}}) ==
        "m.onnx: --dim: unknown dim \"Qxyz\" (known: batch)");
  CHECK(said(graph, {{"batch", 4}, {"bacth", 4}}) ==
        "m.onnx: --dim: unknown dim \"bacth\" (did you mean \"batch\"?)");
  CHECK(said(graph, {{"bacth", 4}}) ==
        "m.onnx: the model leaves a dimension open; set it with --dim batch=N (unknown dim "
        "\"bacth\")");
  graph.outputs = {value("y", {"rows", 8})};
  graph.values = {value("h", {"h_rows", 8})};
  CHECK(said(graph, {{"batch", 4}, {"rows", 4}, {"h_rows", 4}}) == "accepted");
}

// An input of which the file states so many extents, all open and without a name.
Message open_value(std::string_view name, int extents) {
  Message dims;
  for (int i = 0; i < extents; ++i) dims.message(1, Message());
  return Message().text(1, name).message(
      2, Message().message(1, Message().number(1, kFloat).message(2, dims)));
}

TEST_CASE("onnx: open dims without a name have that of their input and axis") {
  Graph graph{.nodes = {node("Add", {"x", "bias"}, {"y"})},
              .inputs = {open_value("x", 2), value("bias", {-1})},
              .outputs = {open_value("y", 2)}};
  CHECK(said(graph, {}) ==
        "m.onnx: the model leaves dimensions open; set them with --dim bias_0=N --dim x_0=N --dim "
        "x_1=N");
  const std::vector<DimOverride> dims = {{"x_0", 4}, {"x_1", 8}, {"bias_0", 8}};
  CHECK(said(graph, dims) == "accepted");
  CHECK(unfused(read(proto::model(graph), dims)) == 4 * (32 + 8 + 32));
  CHECK(said(graph, {{"x_0", 4}, {"x_1", 8}, {"bias_1", 8}}) ==
        "m.onnx: the model leaves a dimension open; set it with --dim bias_0=N (unknown dim "
        "\"bias_1\")");
  // A name that the file gives to another extent stays with it.
  graph.inputs[1] = value("bias", {"x_1"});
  CHECK(said(graph, {{"x_0", 4}, {"x_1", 1}, {"x_1_", 8}}) == "accepted");
}

TEST_CASE("onnx: a dim that no shape has does not keep stated shapes from being checked") {
  const Graph graph{.nodes = {node("Relu", {"x"}, {"y"})},
                    .inputs = {value("x", {4, 8})},
                    .outputs = {value("y", {5, 8})}};
  CHECK(refusal(proto::model(graph), {{"Qxyz", 4}}) ==
        "m.onnx: the output \"y\" has the shape [4, 8], but the file states [5, 8]; run ONNX shape "
        "inference on the model");
}

}  // namespace
}  // namespace fusecalc
