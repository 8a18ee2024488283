// Numbers that are quantized block by block.

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

constexpr std::uint64_t kOpset = 21;
constexpr std::uint64_t kInt4 = 22;

// Weights [16, 256] of 4 bits, with a scale for every 128 along the last axis, and their product.
Model product(std::vector<std::string> quantized, std::vector<Extent> scales) {
  const Graph graph{.nodes = {node("DequantizeLinear", quantized, {"d"},
                                   {attribute("axis", 1), attribute("block_size", 128)}),
                              node("Gemm", {"x", "d"}, {"y"}, {attribute("transB", 1)})},
                    .inputs = {value("x", {4, 256}), value("w", {16, 256}, kInt4),
                               value("s", scales), value("z", scales, kInt4)},
                    .outputs = {value("y", {4, 16})}};
  return read(proto::model(graph, kOpset));
}

TEST_CASE("onnx: weights of blocks are computed in groups that have a scale each") {
  const Model plain = product({"w", "s"}, {16, 2});
  CHECK(rows_of(plain) == Words{"reshape", "reshape", "cast", "mul", "reshape", "linear"});
  // The cast reads half a byte of each of 4,096 weights, and the product reads them as f32.
  CHECK(unfused(plain) == 2048 + 4 * (4096 + 4096 + 32 + 4096 + 1024 + 4096 + 64));
  const Model shifted = product({"w", "s", "z"}, {16, 2});
  CHECK(rows_of(shifted) ==
        Words{"reshape", "reshape", "cast", "reshape", "cast", "sub", "mul", "reshape", "linear"});
  // As many zero points as scales.
  CHECK(unfused(shifted) == unfused(plain) + 16 + 4 * 32 + 4 * (4096 + 32 + 4096));
}

TEST_CASE("onnx: blocks that do not divide their axis, or other scales, are a custom op") {
  CHECK(rows_of(product({"w", "s"}, {16, 3})) == Words{"custom", "linear"});
  const Graph graph{.nodes = {node("DequantizeLinear", {"w", "s"}, {"y"},
                                   {attribute("axis", 0), attribute("block_size", 3)})},
                    .inputs = {value("w", {8, 16}, kInt8), value("s", {3, 16})},
                    .outputs = {value("y", {8, 16})}};
  CHECK(rows_of(read(proto::model(graph, kOpset))) == Words{"custom"});
}

TEST_CASE("onnx: what is quantized by blocks of the first axis has its shape again") {
  const Graph graph{
      .nodes = {node("QuantizeLinear", {"x", "s", "z"}, {"y"},
                     {attribute("axis", 0), attribute("block_size", 4)})},
      .inputs = {value("x", {8, 16}), value("s", {2, 16}), value("z", {2, 16}, kInt8)},
      .outputs = {value("y", {8, 16}, kInt8)}};
  const Model model = read(proto::model(graph, kOpset));
  CHECK(model.origin.opaque == 0);
  CHECK(rows_of(model) ==
        Words{"reshape", "reshape", "div", "round", "reshape", "cast", "add", "cast", "reshape"});
}

}  // namespace
}  // namespace fusecalc
