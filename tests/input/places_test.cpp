// The reader that filled the graph names the place of a fault, in any format.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <vector>

#include "core/error.hpp"
#include "graph/graph_text.hpp"
#include "graph/op_graph.hpp"
#include "graph/written_graph.hpp"

using namespace fusecalc;
using namespace fusecalc::testing;

namespace {

// Fills a graph as a reader of models would: one node becomes several ops, and messages name nodes.
WrittenGraph model_of(std::vector<WrittenTensor> parameters, std::vector<WrittenOp> ops) {
  const std::vector<std::string> nodes = {"layers.0.mlp", "head"};
  WrittenGraph graph;
  graph.document = "m.onnx";
  graph.name_of_place = [nodes](const WrittenGraph& written, const WrittenPlace& place) {
    switch (place.part) {
      case WrittenPlace::Part::kGraph: return std::string();
      case WrittenPlace::Part::kTensor:
      case WrittenPlace::Part::kExtent:
        return fmt::format("parameter '{}'", written.tensors[place.index].name);
      default: return fmt::format("node '{}'", nodes[written.ops[place.index].source]);
    }
  };
  graph.tensors = std::move(parameters);
  graph.ops = std::move(ops);
  return graph;
}

std::string fault(const WrittenGraph& graph) {
  try {
    build_graph(graph, {});
  } catch (const Error& error) {
    CHECK(error.fault() == Fault::kBadInput);
    return error.what();
  }
  return {};
}

WrittenTensor tensor(std::string name, std::vector<WrittenDim> shape) {
  return {.name = std::move(name), .shape = std::move(shape), .dtype = {}};
}

WrittenOp op(std::string kind, std::string input, std::string output, std::uint32_t node) {
  WrittenOp written;
  written.op = std::move(kind);
  written.inputs.emplace_back(std::move(input));
  written.outputs.push_back(std::move(output));
  written.source = node;
  return written;
}

}  // namespace

TEST_CASE("a graph is built of typed values, without any text") {
  WrittenOp sum = op("sum", "h", "y", 1);
  sum.attributes.push_back({.name = "axes", .value = std::vector<WrittenDim>{std::int64_t{1}}});
  sum.attributes.push_back({.name = "keepdim", .value = true});
  const OpGraph graph =
      build_graph(model_of({tensor("x", {2, 3})}, {op("relu", "x", "h", 0), sum}), {});
  CHECK(tensor_named(graph, "y").type.shape == Shape{2, 1});
}

TEST_CASE("an error in an op names the node that it was read from") {
  CHECK(fault(model_of({tensor("x", {2, 3})},
                       {op("relu", "x", "h", 0), op("relu", "gone", "y", 0)})) ==
        "m.onnx: node 'layers.0.mlp': unknown tensor \"gone\"; graph inputs must be declared");
  WrittenOp sum = op("sum", "x", "y", 1);
  sum.attributes.push_back({.name = "axes", .value = std::int64_t{2}});
  CHECK(fault(model_of({tensor("x", {2, 3})}, {sum})) ==
        "m.onnx: node 'head': axis 2 is out of range for a shape with 2 axes");
}

TEST_CASE("a message that names a second place does so in the reader's words") {
  CHECK(fault(model_of({tensor("x", {2})}, {op("relu", "x", "y", 0), op("exp", "x", "y", 1)})) ==
        "m.onnx: node 'head': tensor \"y\" is written twice, first by node 'layers.0.mlp'");
}

TEST_CASE("an error in a tensor names its parameter, one in the whole graph names no place") {
  CHECK(fault(model_of({tensor("w", {2, -1})}, {op("relu", "w", "y", 0)})) ==
        "m.onnx: parameter 'w': must not be negative, but is -1");
  const WrittenGraph graph = model_of({tensor("w", {2})}, {op("relu", "w", "y", 0)});
  CHECK_THROWS_WITH_AS(build_graph(graph, {{"T", 4}}),
                       "m.onnx: --dim: unknown dim \"T\" (there are no dims)", Error);
}
