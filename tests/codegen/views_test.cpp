// Kernels that read views where they lie, and that store results in another order.

#include <doctest/doctest.h>

#include <string>

#include "codegen/generate.hpp"
#include "codegen/matrix_product.hpp"
#include "graph/graph_text.hpp"
#include "plan/legality.hpp"
#include "support/devices.hpp"
#include "support/generated_code.hpp"

namespace fusecalc {
namespace {

using testing::bf16_list;
using testing::contains;
using testing::generated;
using testing::graph_of;
using testing::op_called;

// Why all ops of the graph cannot be one kernel of ours, or of a general compiler.
std::string obstacle(const OpGraph& graph, bool epilogues = true) {
  PhaseFinder phases(graph);
  Kernel all;
  for (OpId id = 0; id < graph.ops.size(); ++id) all.push_back(id);
  const Rules rules{.epilogues = epilogues, .on_chip_bytes = 232'448};
  return explain(graph, check_kernel(phases, all, rules));
}

TEST_CASE("a part of a row is read in whole groups where it begins at one") {
  const OpGraph graph = graph_of(
      bf16_list(R"("x": {"shape": [100, 256]})",
                R"({"op": "split_view", "inputs": ["x"], "outputs": ["gate", "up"], "axis": 1},
         {"op": "silu", "inputs": ["gate"], "output": "s"},
         {"op": "mul", "inputs": ["s", "up"], "output": "y"})"));
  const GeneratedKernel kernel = generated(graph, {0, 1});
  CHECK(kernel.storages.size() == 2);
  CHECK(contains(kernel, "i / 128 * 256 + i % 128 + 128"));
  CHECK(!contains(kernel, "fetch(p0"));
  // Not where it begins in between.
  const OpGraph odd = graph_of(bf16_list(
      R"("x": {"shape": [100, 256]})",
      R"({"op": "slice_view", "inputs": ["x"], "output": "v", "axis": 1, "start": 3, "end": 131},
         {"op": "neg", "inputs": ["v"], "output": "y"})"));
  CHECK(contains(generated(odd, {0}), "fetch(p0"));
}

TEST_CASE("a part of a product's columns is an operand with a longer line") {
  const OpGraph graph = graph_of(bf16_list(
      R"("x": {"shape": [60, 96]}, "w": {"shape": [64, 32]}, "b": {"shape": [100]})",
      R"({"op": "slice_view", "inputs": ["x"], "output": "v", "axis": 1, "start": 32, "end": 64},
         {"op": "slice_view", "inputs": ["w"], "output": "u", "start": 8, "end": 40},
         {"op": "slice_view", "inputs": ["b"], "output": "c", "start": 4, "end": 36},
         {"op": "linear", "inputs": ["v", "u", "c"], "output": "y"})"));
  const auto product = matrix_product(graph, graph.ops[0]);
  REQUIRE(product);
  CHECK(product->a.offset == 32);
  CHECK(product->a.line == 96);
  CHECK(product->b.offset == 8 * 32);
  CHECK(product->b.line == 32);
  const GeneratedKernel kernel = generated(graph, {0});
  REQUIRE(kernel.library);
  CHECK(kernel.library->matmul.a_line == 96);
  CHECK(kernel.library->a_offset == 32);
  CHECK(kernel.library->b_offset == 256);
  CHECK(kernel.library->bias_offset == 4);
  REQUIRE(kernel.maps.size() == 2);
  CHECK(kernel.maps[0].offset == 64);
  CHECK(contains(generated(graph, {0}, {8, 0}), "p0 + 256"));
}

TEST_CASE("a product reads repeated or scattered lines element by element, or from a copy") {
  const OpGraph graph = graph_of(
      bf16_list(R"("x": {"shape": [1, 64]}, "w": {"shape": [32, 128]}, "z": {"shape": [16, 128]})",
                R"({"op": "expand_view", "inputs": ["x"], "output": "e", "shape": [40, 64]},
         {"op": "slice_view", "inputs": ["w"], "output": "odd", "axis": 1, "start": 0, "step": 2},
         {"op": "slice_view", "inputs": ["z"], "output": "even", "axis": 1, "start": 0, "step": 2},
         {"name": "repeated", "op": "linear", "inputs": ["e", "even"], "output": "a"},
         {"name": "gaps", "op": "linear", "inputs": ["even", "w64"], "output": "b"},
         {"op": "reshape", "inputs": ["w"], "output": "w64", "shape": [64, 64]})"));
  CHECK(contains(generated(graph, {op_called(graph, "repeated")}), "ContractAny<"));
  const GeneratedKernel gaps = generated(graph, {op_called(graph, "gaps")});
  CHECK(gaps.packing);
  REQUIRE(gaps.library);
  CHECK(gaps.library->a == kNone);
}

// Queries and keys of one product, by heads: [B, T, (8 + 2 + 2) * 64].
const std::string kPacked = R"("qkv": {"shape": [2, 300, 768]})";
const std::string kHeads = R"(
  {"op": "split_view", "inputs": ["qkv"], "outputs": ["qs", "ks", "vs"], "axis": 2,
   "sizes": [512, 128, 128]},
  {"op": "reshape", "inputs": ["qs"], "output": "qh", "shape": [2, 300, 8, 64]},
  {"op": "reshape", "inputs": ["ks"], "output": "kh", "shape": [2, 300, 2, 64]},
  {"op": "reshape", "inputs": ["vs"], "output": "vh", "shape": [2, 300, 2, 64]},
  {"op": "permute_view", "inputs": ["qh"], "output": "q", "perm": [0, 2, 1, 3]},
  {"op": "permute_view", "inputs": ["kh"], "output": "k", "perm": [0, 2, 1, 3]},
  {"op": "permute_view", "inputs": ["vh"], "output": "v", "perm": [0, 2, 1, 3]},)";

TEST_CASE("attention reads the parts of one product through strides") {
  const OpGraph graph = graph_of(bf16_list(
      kPacked, kHeads + R"({"op": "attention", "inputs": ["q", "k", "v"], "output": "y"})"));
  const GeneratedKernel kernel = generated(graph, {0});
  REQUIRE(kernel.maps.size() == 3);
  CHECK(kernel.maps[0].offset == 0);
  CHECK(kernel.maps[1].offset == 1024);
  CHECK(kernel.maps[2].offset == 1280);
  CHECK(kernel.maps[2].strides == std::array<std::uint64_t, 3>{1536, 128, 300 * 1536});
  CHECK(contains(kernel, "kShape = {2, 8, 2, 300, 300,"));
  const GeneratedKernel older = generated(graph, {0}, {8, 0});
  CHECK(contains(older, "Attention::run(p0, p0 + 512, p0 + 640,"));
}

// Each key head for four query heads, written out.
const std::string kRepeated = R"(
  {"op": "reshape", "inputs": ["k"], "output": "k5", "shape": [2, 2, 1, 300, 64]},
  {"op": "reshape", "inputs": ["v"], "output": "v5", "shape": [2, 2, 1, 300, 64]},
  {"op": "expand_view", "inputs": ["k5"], "output": "kr", "shape": [2, 2, 4, 300, 64]},
  {"op": "expand_view", "inputs": ["v5"], "output": "vr", "shape": [2, 2, 4, 300, 64]},
  {"op": "reshape", "inputs": ["kr"], "output": "k8", "shape": [2, 8, 300, 64]},
  {"op": "reshape", "inputs": ["vr"], "output": "v8", "shape": [2, 8, 300, 64]},)";

TEST_CASE("key heads that a view repeats are read once") {
  const OpGraph graph = graph_of(bf16_list(
      kPacked,
      kHeads + kRepeated + R"({"op": "attention", "inputs": ["q", "k8", "v8"], "output": "y"})"));
  const GeneratedKernel kernel = generated(graph, {0});
  CHECK(contains(kernel, "kShape = {2, 8, 2, 300, 300,"));
  CHECK(kernel.maps[1].extents == std::array<std::uint64_t, 4>{64, 300, 2, 2});
  TrafficCounter counter(graph, known_devices().front());
  CHECK(counter.bytes({0}).read == 2 * 300 * 768 * 2);
  // Only the values are repeated: they are read element by element.
  const OpGraph mixed = graph_of(bf16_list(
      kPacked + R"(, "z": {"shape": [2, 8, 300, 64]})",
      kHeads + kRepeated + R"({"op": "attention", "inputs": ["q", "z", "v8"], "output": "y"})"));
  CHECK(contains(generated(mixed, {0}), "AttentionAny<"));
}

const std::string kTransposed =
    kHeads + R"({"name": "attend", "op": "attention", "inputs": ["q", "k", "v"], "output": "o"},
                {"op": "permute_view", "inputs": ["o"], "output": "t", "perm": [0, 2, 1, 3]},
                {"name": "store", "op": "copy", "inputs": ["t"], "output": "c"},
                {"op": "reshape", "inputs": ["c"], "output": "rows", "shape": [600, 512]},
                {"name": "project", "op": "linear", "inputs": ["rows", "w"], "output": "y"})";

TEST_CASE("attention stores its result in the order of the next op") {
  const OpGraph graph =
      graph_of(bf16_list(kPacked + R"(, "w": {"shape": [512, 512]})", kTransposed));
  for (const ComputeCapability capability : {kHopper, ComputeCapability{8, 0}}) {
    const GeneratedKernel kernel = generated(graph, {0, 1}, capability);
    CHECK(kernel.source.entries.size() == 1);
    CHECK(kernel.storages.size() == 2);
    // From [batch][head][query] to [batch][query][head], lines of 64.
    CHECK(contains(kernel,
                   "(idx)(q32 / 2400 * 153600 + q32 / 300 % 8 * 64 + q32 % 300 * 512) + column"));
    CHECK(contains(kernel, "store_columns<8>("));
  }
  TrafficCounter counter(graph, known_devices().front());
  const Bytes bytes = counter.bytes({0, 1});
  CHECK(bytes.read == 2 * 300 * 768 * 2);
  CHECK(bytes.write == 600 * 512 * 2);
}

// Of x [2, 40, 64] and as many columns, in heads of `size`.
GeneratedKernel heads_apart(int columns, int size) {
  return generated(graph_of(fmt::format(
                       R"({{"format": "fusecalc.ops/1", "dtype": "bf16",
              "tensors": {{"x": {{"shape": [2, 40, 64]}}, "w": {{"shape": [{0}, 64]}}}},
              "ops": [{{"op": "linear", "inputs": ["x", "w"], "output": "h"}},
                      {{"op": "view", "inputs": ["h"], "output": "v",
                        "shape": [2, 40, {1}, {2}]}},
                      {{"op": "transpose", "inputs": ["v"], "output": "y",
                        "perm": [0, 2, 1, 3]}}]}})",
                       columns, columns / size, size)),
                   {0, 1});
}

TEST_CASE("a product stores its heads apart, eight neighbours at a time where they stay so") {
  const GeneratedKernel eights = heads_apart(96, 24);
  CHECK(contains(eights,
                 "(idx)(q32 / 40 * 3840 + q32 % 40 * 24) + "
                 "(idx)((u32)column / 24 * 960 + (u32)column % 24);"));
  CHECK(contains(eights, "store_columns<8>("));
  CHECK(!contains(eights, "if (j < valid) put("));
  const GeneratedKernel twelve = heads_apart(48, 12);
  CHECK(contains(twelve, "if (j < valid) put("));
}

TEST_CASE("places beyond 32 bits are computed in 64") {
  // 3 x 70,000 rows of 40,960 columns.
  const GeneratedKernel kernel = generated(graph_of(R"({"format": "fusecalc.ops/1", "dtype": "bf16",
          "tensors": {"x": {"shape": [3, 70000, 64]}, "w": {"shape": [40960, 64]}},
          "ops": [{"op": "linear", "inputs": ["x", "w"], "output": "h"},
                  {"op": "view", "inputs": ["h"], "output": "v", "shape": [3, 70000, 640, 64]},
                  {"op": "transpose", "inputs": ["v"], "output": "y", "perm": [0, 2, 1, 3]}]})"),
                                           {0, 1});
  CHECK(contains(kernel,
                 "(idx)(q / 70000 * 2867200000 + q % 70000 * 64) + "
                 "(idx)((u32)column / 64 * 4480000 + (u32)column % 64);"));
}

TEST_CASE("a general compiler stores an attention's result in any order, not a product's") {
  const auto of = [](const std::string& ops) {
    return graph_of(bf16_list(kPacked + R"(, "w": {"shape": [256, 768]})", ops));
  };
  const OpGraph attention =
      of(kHeads + R"({"op": "attention", "inputs": ["q", "k", "v"], "output": "o"},
                     {"op": "transpose", "inputs": ["o"], "output": "y", "perm": [0, 2, 1, 3]})");
  CHECK(obstacle(attention).empty());
  CHECK(obstacle(attention, false).empty());
  const OpGraph product = of(R"({"op": "linear", "inputs": ["qkv", "w"], "output": "h"},
            {"op": "transpose", "inputs": ["h"], "output": "y", "perm": [1, 0, 2]})");
  CHECK(obstacle(product).empty());
  CHECK(obstacle(product, false) ==
        "a general compiler leaves linear to a library, as a separate kernel");
  // [batch][row] to [row][batch], lines of 256.
  CHECK(contains(generated(product, {0, 1}), "(idx)(q32 / 300 * 256 + q32 % 300 * 512) + column"));
}

TEST_CASE("what works on the transposed result is no part of the kernel that stores it") {
  const OpGraph graph = graph_of(bf16_list(R"("x": {"shape": [64, 64]}, "w": {"shape": [64, 64]})",
                                           R"({"op": "linear", "inputs": ["x", "w"], "output": "h"},
         {"op": "transpose", "inputs": ["h"], "output": "t"},
         {"op": "relu", "inputs": ["t"], "output": "y"})"));
  CHECK(obstacle(graph) ==
        "the epilogue of linear writes its tiles in order; transpose rearranges elements");
}

TEST_CASE("a part of a product is read after it is written, two halves of one with it") {
  const OpGraph graph = graph_of(bf16_list(R"("x": {"shape": [64, 64]}, "w": {"shape": [128, 64]})",
                                           R"({"op": "linear", "inputs": ["x", "w"], "output": "h"},
         {"op": "split_view", "inputs": ["h"], "outputs": ["gate", "up"], "axis": 1},
         {"op": "silu", "inputs": ["gate"], "output": "s"},
         {"op": "mul", "inputs": ["s", "up"], "output": "y"})"));
  CHECK(obstacle(graph).empty());
  PhaseFinder phases(graph);
  CHECK(check_kernel(phases, {1, 2}, {.epilogues = false}).legal());
  const OpGraph quarter =
      graph_of(bf16_list(R"("x": {"shape": [64, 64]}, "w": {"shape": [128, 64]})",
                         R"({"op": "linear", "inputs": ["x", "w"], "output": "h"},
         {"op": "slice_view", "inputs": ["h"], "output": "part", "axis": 1, "end": 32},
         {"op": "silu", "inputs": ["part"], "output": "s"})"));
  CHECK(obstacle(quarter) ==
        "an epilogue computes each element from one element of the result of linear, or from one "
        "of each half of its columns; silu reads a part of that result as a tensor of its own");
}

TEST_CASE("rows that are parts of longer ones are held on chip") {
  const OpGraph graph = graph_of(
      bf16_list(R"("x": {"shape": [100, 256]})",
                R"({"op": "slice_view", "inputs": ["x"], "output": "v", "axis": 1, "start": 128},
         {"op": "softmax", "inputs": ["v"], "output": "y"})"));
  const GeneratedKernel kernel = generated(graph, {0});
  CHECK(kernel.schedule.find("held in registers") != std::string::npos);
  // One load: the second pass takes what the first one held.
  const std::string& text = kernel.source.text;
  const std::size_t body = text.find("fused(");
  const std::size_t load = text.find("load_pack<", body);
  REQUIRE(load != std::string::npos);
  CHECK(text.find("load_pack<", load + 1) == std::string::npos);
}

TEST_CASE("a row's result that a view repeats along the row is that of the row") {
  const std::string tensors = R"("x": {"shape": [100, 256]})";
  const std::string mean =
      R"({"op": "mean", "inputs": ["x"], "output": "m", "axis": 1, "keepdim": true},)";
  const OpGraph along = graph_of(bf16_list(
      tensors, mean + R"({"op": "expand_view", "inputs": ["m"], "output": "e", "shape": [100, 256]},
                              {"op": "sub", "inputs": ["x", "e"], "output": "y"})"));
  CHECK(obstacle(along).empty());
  CHECK(!generated(along, {0, 1}).source.text.empty());
  const OpGraph across = graph_of(
      bf16_list(R"("x": {"shape": [256, 256]})",
                mean + R"({"op": "reshape", "inputs": ["m"], "output": "row", "shape": [1, 256]},
                {"op": "expand_view", "inputs": ["row"], "output": "e", "shape": [256, 256]},
                {"op": "sub", "inputs": ["x", "e"], "output": "y"})"));
  CHECK(obstacle(across) ==
        "sub aligns the result of mean with another axis than the one that mean reduces");
}

}  // namespace
}  // namespace fusecalc
