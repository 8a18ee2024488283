#include <doctest/doctest.h>
#include <fmt/format.h>

#include <array>
#include <string>
#include <utility>

#include "codegen/generate.hpp"
#include "codegen/matrix_product.hpp"
#include "core/error.hpp"
#include "graph/graph_text.hpp"
#include "plan/tiling.hpp"
#include "support/devices.hpp"
#include "support/generated_code.hpp"

namespace fusecalc {
namespace {

using testing::bf16_list;
using testing::contains;
using testing::generated;
using testing::graph_of;
using testing::op_called;

const std::string kLinear =
    bf16_list(R"("x": {"shape": [2, 30, 16]}, "w": {"shape": [10, 16]}, "b": {"shape": [10]})",
              R"({"name": "up", "op": "linear", "inputs": ["x", "w", "b"], "output": "u"},
       {"name": "relu", "op": "relu", "inputs": ["u"], "output": "y"},
       {"name": "most", "op": "max", "inputs": ["y"], "output": "m", "axes": [1]})");

TEST_CASE("rows that a kernel computes are loaded apart from what is computed of them") {
  const auto graph = [](int depth) {
    return graph_of(bf16_list(
        fmt::format(
            R"("x": {{"shape": [4, 80, {0}], "dtype": "f32"}}, "w": {{"shape": [4, {0}, 64]}})",
            depth),
        R"({"op": "cast", "inputs": ["x"], "output": "c", "dtype": "bf16"},
           {"op": "matmul", "inputs": ["c", "w"], "output": "y"})"));
  };
  // Each matrix has 80 lines.
  const GeneratedKernel wide = generated(graph(72), {0, 1});
  CHECK(wide.schedule == "wgmma, tiles of 128 x 128, rows computed as they are read");
  CHECK(contains(wide, "kInner = 80, kOuter = 0;\n  typedef Eight Valid;"));
  CHECK(contains(wide, "load_neighbours<8, 8>(p0 + i);\n    return [=](u32 (&words)[4]) {"));
  CHECK(wide.maps.size() == 1);  // of B
  CHECK(wide.packing.has_value() == false);
  const GeneratedKernel older = generated(graph(72), {0, 1}, {8, 0});
  CHECK(older.schedule == "mma, tiles of 128 x 128, rows computed as they are read");
  // Lines that end within a group of eight are filled up with zeros.
  const GeneratedKernel odd = generated(graph(71), {0, 1}, {8, 0});
  CHECK(contains(odd, "typedef int Valid;"));
  CHECK(contains(odd, "y[j] = j < valid ? "));
}

TEST_CASE("blocks whose tiles lie side by side share the rows they make") {
  struct Case {
    int columns;
    std::string_view shared, cluster;
    std::uint64_t blocks;  // of 20 tiles above each other
  };
  const auto code = [](int columns) {
    return generated(
        graph_of(bf16_list(
            fmt::format(
                R"("x": {{"shape": [2560, 64], "dtype": "f32"}}, "w": {{"shape": [{}, 64]}})",
                columns),
            R"({"op": "cast", "inputs": ["x"], "output": "c", "dtype": "bf16"},
               {"op": "linear", "inputs": ["c", "w"], "output": "y"})")),
        {0, 1});
  };
  for (const Case& one : {Case{256, "kBeside = 1;", "__cluster_dims__(2, 1, 1)", 20},
                          Case{512, "kBeside = 2;", "__cluster_dims__(2, 1, 1)", 40},
                          Case{768, "kBeside = 1;", "__cluster_dims__(2, 1, 1)", 60},
                          Case{1000, "kBeside = 4;", "__cluster_dims__(8, 1, 1)", 80}}) {
    CAPTURE(one.columns);
    const GeneratedKernel kernel = code(one.columns);
    CHECK(contains(kernel, one.shared));
    CHECK(contains(kernel, one.cluster));
    CHECK(kernel.blocks == one.blocks);
  }
  CHECK(code(1000).persistent_cluster == 8);
}

TEST_CASE("a linear layer's rows are one matrix, or a batch of matrices of the requested rows") {
  const OpGraph graph = graph_of(kLinear);
  const auto whole = matrix_product(graph, graph.ops[op_called(graph, "up")]);
  REQUIRE(whole);
  CHECK(whole->m == 60);
  CHECK(whole->n == 10);
  CHECK(whole->k == 16);
  CHECK(whole->batches() == 1);
  CHECK(whole->a.line == 16);
  CHECK(!whole->a.across);
  CHECK(!whole->b.across);
  const auto split = matrix_product(graph, graph.ops[op_called(graph, "up")], 30);
  REQUIRE(split);
  CHECK(split->m == 30);
  CHECK(split->inner == 2);
  CHECK(split->a.inner == 30 * 16);
  CHECK(split->b.inner == 0);
}

// q lies as [2][3][4][8]: batch, row, head, column.
TEST_CASE("views become strides if lines stay contiguous") {
  const OpGraph graph = graph_of(bf16_list(
      R"("q": {"shape": [2, 3, 4, 8]}, "k": {"shape": [2, 3, 4, 8]}, "w": {"shape": [5, 32]},
         "c": {"shape": [2, 4, 3, 8]})",
      R"({"name": "vq", "op": "permute_view", "inputs": ["q"], "output": "qh", "perm": [0, 2, 1, 3]},
         {"name": "vk", "op": "permute_view", "inputs": ["k"], "output": "kh", "perm": [0, 2, 1, 3]},
         {"name": "scores", "op": "matmul", "inputs": ["qh", "kh"], "output": "s",
          "transpose_b": true},
         {"name": "vc", "op": "permute_view", "inputs": ["c"], "output": "ct", "perm": [0, 2, 1, 3]},
         {"name": "vm", "op": "view", "inputs": ["ct"], "output": "cm", "shape": [6, 32]},
         {"name": "out", "op": "linear", "inputs": ["cm", "w"], "output": "o"})"));
  const auto scores = matrix_product(graph, graph.ops[op_called(graph, "scores")]);
  REQUIRE(scores);
  CHECK(scores->m == 3);
  CHECK(scores->n == 3);
  CHECK(scores->k == 8);
  CHECK(scores->inner == 4);
  CHECK(scores->outer == 2);
  CHECK(scores->a.line == 4 * 8);
  CHECK(scores->a.inner == 8);
  CHECK(scores->a.outer == 3 * 4 * 8);
  CHECK(!scores->b.across);
  // A line of 32 is 4 pieces, 3 * 8 apart: 2 * 3 * 32 elements of 2 bytes are put in order before.
  CHECK(!matrix_product(graph, graph.ops[op_called(graph, "out")]));
  const GeneratedKernel out = generated(graph, {op_called(graph, "out")});
  CHECK(out.workspace_bytes == 384);
  CHECK(out.source.entries == std::vector<std::string>{"fused", "pack"});
  REQUIRE(out.library);
  CHECK(out.library->a == kNone);
}

TEST_CASE("matrices that share the other operand are one") {
  const OpGraph graph =
      graph_of(bf16_list(R"("x": {"shape": [2, 6, 4]}, "w": {"shape": [4, 5]})",
                         R"({"name": "p", "op": "matmul", "inputs": ["x", "w"], "output": "y"})"));
  const auto product = matrix_product(graph, graph.ops[0]);
  REQUIRE(product);
  CHECK(product->m == 12);
  CHECK(product->batches() == 1);
  CHECK(product->b.across);
  CHECK(product->b.line == 5);
}

TEST_CASE("a fused product has code of ours for its architecture") {
  const OpGraph graph = graph_of(kLinear);
  const GeneratedKernel lone = generated(graph, {0});
  REQUIRE(lone.library);
  CHECK(lone.library->matmul.epilogue == MatmulEpilogue::kBias);
  CHECK(lone.library->matmul.b_transposed);
  CHECK(lone.library->matmul.m == 60);
  const GeneratedKernel fused = generated(graph, {0, 1});
  CHECK(fused.source.architecture_bound);
  CHECK(fused.maps.size() == 2);
  // Rows of 10 elements begin at multiples of 2.
  CHECK(contains(fused, "store_columns<2>("));
  const GeneratedKernel older = generated(graph, {0, 1}, {8, 0});
  CHECK(!older.source.architecture_bound);
  CHECK(older.maps.empty());
  CHECK(
      contains(older,
               "ContractSm80<bf16, bf16, MmaTile<64, 64, 32, 2, 128, 4, 2, 1>, 8, 8, false, false, "
               "Epilogue>"));
}

// m x k times [n][k], then relu, for 132 multiprocessors.
GeneratedKernel product_with_relu(const std::string& m, const std::string& n, const std::string& k,
                                  const std::string& type = "bf16") {
  const OpGraph graph = graph_of(
      bf16_list(R"("x": {"shape": [)" + m + ", " + k + R"(], "dtype": ")" + type +
                    R"("}, "w": {"shape": [)" + n + ", " + k + R"(], "dtype": ")" + type + R"("})",
                R"({"name": "up", "op": "linear", "inputs": ["x", "w"], "output": "u"},
         {"name": "relu", "op": "relu", "inputs": ["u"], "output": "y"})"));
  TrafficCounter counter(graph, known_devices().front());
  return generate(counter, {0, 1}, counter.device());
}

// A cluster's tiles fetch what they share once. 32768 x 1536 x 704: 768 squares of four tiles of
// 128 columns are 26 rounds of 30, of 11 steps in which 346 cycles of fetching, but for 16 %, hide
// behind 512 of multiplying, and 90; 768 pairs of 256 columns are 12 rounds of 66, of 11 steps of
// 1024 and 16 % of 762, and 1200: 171k and 172k. 16384 x 4096 x 1024: 35 rounds and 16: 336k and
// 327k.
TEST_CASE("tiles are as wide as takes the least time in rounds") {
  const GeneratedKernel narrow = product_with_relu("32768", "1536", "704");
  CHECK(contains(narrow,
                 "ContractSm90<bf16, 128, 2, false, LinesOfB::kInOrder, Epilogue, MatrixB, "
                 "NoPrologue, 2>"));
  CHECK(narrow.blocks == 132);
  CHECK(narrow.shared_bytes == 6 * (16384 + 16384 + 16));
  const GeneratedKernel wide = product_with_relu("16384", "4096", "1024");
  CHECK(contains(wide, "ContractSm90<bf16, 256, 2, false, LinesOfB::kInOrder, Epilogue>"));
  CHECK(wide.shared_bytes == 4 * (16384 + 32768 + 16));
}

// 16384 x 4160 x 1032: lines of k straddle the L2's, which gives a block 35.7 bytes a cycle instead
// of 43. Of 17 steps, pairs of 160 columns fetch for 746 cycles and multiply for 640, in 26 rounds,
// squares of four fetch for 469, in 28 of 30 clusters: 383k and 370k.
TEST_CASE("more blocks share what they fetch where lines straddle those of the L2") {
  const GeneratedKernel kernel = product_with_relu("16384", "4160", "1032");
  CHECK(contains(kernel,
                 "ContractSm90<bf16, 160, 2, false, LinesOfB::kInOrder, Epilogue, MatrixB, "
                 "NoPrologue, 2>"));
  CHECK(kernel.schedule == "wgmma, tiles of 128 x 160, 2 x 2 in clusters");
  CHECK(kernel.persistent_cluster == 4);
  CHECK(kernel.maps[0].box[1] == 64);
}

// 32768 x 1536 x 704 with a residual, read in 9.4 cycles for each column of a tile: 26 rounds of
// 128 columns take 203k and 12 of 256 201k.
TEST_CASE("tiles are wider where the epilogue reads as much as it writes") {
  const OpGraph graph = graph_of(bf16_list(
      R"("x": {"shape": [32768, 704]}, "w": {"shape": [1536, 704]}, "r": {"shape": [32768, 1536]})",
      R"({"name": "up", "op": "linear", "inputs": ["x", "w"], "output": "u"},
         {"name": "add", "op": "add", "inputs": ["u", "r"], "output": "y"})"));
  TrafficCounter counter(graph, known_devices().front());
  CHECK(contains(generate(counter, {0, 1}, counter.device()), "ContractSm90<bf16, 256, 2,"));
}

// 18992 x 2240 x 7424: 75 pairs of rows of seven tiles of 320 columns are 8 rounds of 66 clusters,
// of 116 * (4 * 320 + 0.16 * 857) + 3190 cycles; of 192, of which twelve are no whole rows, 14 of
// 116 * (4 * 192 + 0.16 * 667) + 980: 1344k and 1438k before the clock falls. A maximum of columns
// takes the place of a stage.
TEST_CASE("tiles are of 320 columns where these are whole rounds") {
  const GeneratedKernel kernel = product_with_relu("18992", "2240", "7424");
  CHECK(contains(kernel, "ContractSm90<bf16, 320, 2, false, LinesOfB::kInOrder, Epilogue>"));
  CHECK(kernel.schedule == "wgmma, tiles of 128 x 320");
  // Sums of single bytes would be spilled, in every way to run the product.
  const GeneratedKernel bytes = product_with_relu("18992", "2240", "14848", "fp8_e4m3");
  CHECK_FALSE(contains(bytes, "ContractSm90<fp8_e4m3, 320,"));
  for (const GeneratedKernel& other : bytes.others) {
    CHECK_FALSE(contains(other, "ContractSm90<fp8_e4m3, 320,"));
  }
  CHECK(kernel.shared_bytes == 4 * (16384 + 40960 + 16));
  const OpGraph graph =
      graph_of(bf16_list(R"("x": {"shape": [18992, 7424]}, "w": {"shape": [2240, 7424]})",
                         R"({"name": "up", "op": "linear", "inputs": ["x", "w"], "output": "u"},
         {"name": "max", "op": "max", "inputs": ["u"], "output": "y", "axes": [0]})"));
  TrafficCounter counter(graph, known_devices().front());
  const GeneratedKernel most = generate(counter, {0, 1}, counter.device());
  CHECK(contains(most, "ContractSm90<bf16, 320, 2,"));
  CHECK(most.shared_bytes == 3 * (16384 + 40960 + 16) + 8 * 320 * 4);
  // No registers are left for an operand that is loaded ahead, and B that lies across k would be
  // multiplied in parts of boxes.
  const OpGraph residual = graph_of(bf16_list(
      R"("x": {"shape": [18992, 7424]}, "w": {"shape": [2240, 7424]}, "r": {"shape": [18992, 2240]})",
      R"({"name": "up", "op": "linear", "inputs": ["x", "w"], "output": "u"},
         {"name": "add", "op": "add", "inputs": ["u", "r"], "output": "y"})"));
  TrafficCounter with_residual(residual, known_devices().front());
  const GeneratedKernel added = generate(with_residual, {0, 1}, with_residual.device());
  CHECK(contains(added, "ContractSm90<bf16, 320, 2,"));
  CHECK(!contains(added, "return load_ahead("));
  const OpGraph across =
      graph_of(bf16_list(R"("x": {"shape": [18992, 7424]}, "w": {"shape": [7424, 2240]})",
                         R"({"name": "up", "op": "matmul", "inputs": ["x", "w"], "output": "u"},
         {"name": "relu", "op": "relu", "inputs": ["u"], "output": "y"})"));
  TrafficCounter lies_across(across, known_devices().front());
  CHECK(!contains(generate(lies_across, {0, 1}, lies_across.device()), "ContractSm90<bf16, 320,"));
}

// 8 MiB of weights stay in the L2, 64 MiB do not: then eight rows of tiles of 2 x 128 x 4096.
TEST_CASE("rows of tiles follow each other where the second operand stays in the L2") {
  CHECK(contains(product_with_relu("16384", "2048", "2048"),
                 "kShape = {16384, 2048, 2048, 1, 1, 0, 0, 0, 0, 1, 0};"));
  CHECK(contains(product_with_relu("16384", "8192", "4096"),
                 "kShape = {16384, 8192, 4096, 1, 1, 0, 0, 0, 0, 8, 0};"));
  CHECK(contains(product_with_relu("16384", "16384", "1024"),
                 "kShape = {16384, 16384, 1024, 1, 1, 0, 0, 0, 0, 16, 0};"));
}

// Sums of 256 columns leave registers for one operand.
TEST_CASE("a tensor as large as the result is loaded ahead in wide tiles") {
  const auto text = [](const std::string& m, const std::string& n, const std::string& k) {
    const OpGraph graph =
        graph_of(bf16_list(R"("x": {"shape": [)" + m + ", " + k + R"(]}, "w": {"shape": [)" + n +
                               ", " + k + R"(]}, "r": {"shape": [)" + m + ", " + n +
                               R"(]}, "s": {"shape": [)" + m + ", " + n + R"(]})",
                           R"({"name": "up", "op": "linear", "inputs": ["x", "w"], "output": "u"},
           {"name": "add", "op": "add", "inputs": ["u", "r"], "output": "v"},
           {"name": "mul", "op": "mul", "inputs": ["v", "s"], "output": "y"})"));
    TrafficCounter counter(graph, known_devices().front());
    return generate(counter, {0, 1, 2}, counter.device()).source.text;
  };
  const std::string wide = text("8192", "8192", "8192");
  CHECK(wide.find("return load_ahead(") != std::string::npos);
  CHECK(wide.find("unpack(ahead, ") != std::string::npos);
  CHECK(wide.find("load_columns<8>(") != std::string::npos);  // the other one
  const std::string narrow = text("200", "72", "64");
  CHECK(narrow.find("return load_ahead(") == std::string::npos);
}

TEST_CASE("lines of the second operand are fetched in the lanes' column order") {
  const GeneratedKernel ordered = product_with_relu("200", "72", "64");
  REQUIRE(ordered.maps.size() == 2);
  CHECK(ordered.maps[1].extents == std::array<std::uint64_t, 4>{64, 2, 9, 4});
  CHECK(ordered.maps[1].strides == std::array<std::uint64_t, 3>{128, 1024, 256});
  CHECK(ordered.maps[1].box == std::array<std::uint32_t, 4>{64, 2, 4, 4});
  // 70 lines are no whole groups of eight.
  const GeneratedKernel other = product_with_relu("200", "70", "64");
  CHECK(contains(other, "LinesOfB::kAlong"));
  CHECK(other.maps[1].extents == std::array<std::uint64_t, 4>{64, 70, 1, 1});
}

TensorId weights_of(const OpGraph& graph, std::string_view linear) {
  return graph.storage_of(graph.ops[op_called(graph, linear)].operands[1].tensor);
}

// Weights as [k][n], fetched in boxes of 64 columns: 64 of one half after 64 of the other.
TEST_CASE("tiles take columns of several matrices that lie across k") {
  const OpGraph halves =
      graph_of(bf16_list(R"("x": {"shape": [2, 96, 256]}, "w": {"shape": [256, 512]})",
                         R"({"name": "up", "op": "matmul", "inputs": ["x", "w"], "output": "u"},
           {"op": "split_view", "inputs": ["u"], "outputs": ["v", "w2"], "axis": 2},
           {"name": "silu", "op": "silu", "inputs": ["v"], "output": "s"},
           {"name": "mul", "op": "mul", "inputs": ["s", "w2"], "output": "y"})"));
  const auto made = [&](ComputeCapability capability) {
    return generated(halves,
                     {op_called(halves, "up"), op_called(halves, "silu"), op_called(halves, "mul")},
                     capability);
  };
  const GeneratedKernel fused = made(kHopper);
  CHECK(contains(fused, "ContractSm90<bf16, 128, 2, false, LinesOfB::kAcross, Epilogue>"));
  CHECK(contains(fused, "kShape = {192, 512, 256,"));
  REQUIRE(fused.maps.size() == 3);
  for (const std::size_t half : {1U, 2U}) {
    CHECK(fused.maps[half].extents == std::array<std::uint64_t, 4>{256, 256, 1, 1});
    CHECK(fused.maps[half].strides[0] == 1024);
    CHECK(fused.maps[half].box == std::array<std::uint32_t, 4>{64, 64, 1, 1});
    CHECK(fused.maps[half].offset == (half - 1) * 512);
  }
  CHECK(contains(made({8, 0}), "ContractSm80<"));

  const OpGraph apart = graph_of(bf16_list(
      R"("x": {"shape": [96, 256]}, "w": {"shape": [256, 512]}, "u": {"shape": [256, 72]})",
      R"({"name": "a", "op": "matmul", "inputs": ["x", "w"], "output": "p"},
              {"name": "b", "op": "matmul", "inputs": ["x", "u"], "output": "q"})"));
  const GeneratedKernel both = generated(apart, {op_called(apart, "a"), op_called(apart, "b")});
  CHECK(contains(both, "LinesOfB::kAcross"));
  REQUIRE(both.maps.size() == 3);
  CHECK(both.maps[1].strides[0] == 1024);
  CHECK(both.maps[2].strides[0] == 144);
  CHECK(both.maps[2].extents == std::array<std::uint64_t, 4>{72, 256, 1, 1});
}

// Of 512 lines of weights, a tile has 64 and the 64 that lie 256 further.
TEST_CASE("tiles have the same columns of two halves that an epilogue takes") {
  const auto graph = [](const std::string& rows, const std::string& columns,
                        const std::string& depth) {
    return graph_of(
        bf16_list(R"("x": {"shape": [)" + rows + ", " + depth + R"(]}, "w": {"shape": [)" +
                      columns + ", " + depth + R"(]}, "b": {"shape": [)" + columns + "]}",
                  R"({"name": "up", "op": "linear", "inputs": ["x", "w", "b"], "output": "u"},
           {"op": "split_view", "inputs": ["u"], "outputs": ["v", "w2"], "axis": 1},
           {"name": "silu", "op": "silu", "inputs": ["v"], "output": "s"},
           {"name": "mul", "op": "mul", "inputs": ["s", "w2"], "output": "y"})"));
  };
  const auto made = [&](const OpGraph& of, ComputeCapability capability = kHopper) {
    return generated(of, {op_called(of, "up"), op_called(of, "silu"), op_called(of, "mul")},
                     capability);
  };
  const OpGraph few = graph("64", "512", "256");
  const GeneratedKernel fused = made(few);
  CHECK(contains(fused, "ContractSm90<bf16, 64, 1, false, LinesOfB::kInOrder, Epilogue"));
  CHECK(contains(fused, "kPairs = true;"));
  CHECK(contains(fused, "Contract::run(a, Contract::MapsOfB{{&b, &b2}}, kShape,"));
  CHECK(contains(fused, "kShape = {64, 512, 256,"));
  REQUIRE(fused.maps.size() == 3);
  for (const std::size_t half : {1U, 2U}) {
    CHECK(fused.maps[half].extents == std::array<std::uint64_t, 4>{256, 2, 32, 4});
    CHECK(fused.maps[half].storage == weights_of(few, "up"));
  }
  CHECK(fused.maps[1].offset == 0);
  CHECK(fused.maps[2].offset == 256 * 256 * 2);
  CHECK(!fused.library);
  CHECK(fused.workspace_bytes == 0);
  CHECK(
      contains(made(few, {8, 0}),
               "ContractSm80<bf16, bf16, MmaTile<64, 64, 32, 2, 128, 4, 2, 1>, 8, 8, false, false, "
               "Epilogue>"));
  // Halves of 20 columns do not begin at whole groups of eight lines.
  CHECK(contains(made(graph("64", "40", "256")), "ContractSm80<"));
  // Of 160 columns a tile would have 80 of each half, which are no whole boxes.
  CHECK(contains(product_with_relu("1072", "4352", "1088"), "ContractSm90<bf16, 160,"));
  CHECK(made(graph("1072", "4352", "1088")).schedule ==
        "wgmma, tiles of 128 x 320, side by side in clusters");
}

// A tile has 64 lines of each of the weights, which have 256.
TEST_CASE("tiles have the same columns of two linear layers that an epilogue combines") {
  const auto graph = [](const std::string& rows, const std::string& columns,
                        const std::string& depth) {
    const std::string weights = R"({"shape": [)" + columns + ", " + depth + "]}";
    return graph_of(
        bf16_list(R"("x": {"shape": [)" + rows + ", " + depth + R"(]}, "g": )" + weights +
                      R"(, "u": )" + weights + R"(, "b": {"shape": [)" + columns + "]}",
                  R"({"name": "gate", "op": "linear", "inputs": ["x", "g"], "output": "v"},
           {"name": "up", "op": "linear", "inputs": ["x", "u", "b"], "output": "w"},
           {"name": "silu", "op": "silu", "inputs": ["v"], "output": "s"},
           {"name": "mul", "op": "mul", "inputs": ["s", "w"], "output": "y"})"));
  };
  const auto made = [&](const OpGraph& of, ComputeCapability capability = kHopper) {
    return generated(
        of,
        {op_called(of, "gate"), op_called(of, "up"), op_called(of, "silu"), op_called(of, "mul")},
        capability);
  };
  const OpGraph few = graph("65", "256", "128");
  const GeneratedKernel fused = made(few);
  CHECK(contains(fused, "ContractSm90<bf16, 64, 1, false, LinesOfB::kInOrder, Epilogue"));
  CHECK(contains(fused, "Contract::run(a, Contract::MapsOfB{{&b, &b2}}, kShape,"));
  CHECK(contains(fused, "kShape = {65, 512, 128,"));
  CHECK(contains(fused, "u[j] + "));
  CHECK(!contains(fused, "v[j] + "));
  REQUIRE(fused.maps.size() == 3);
  CHECK(fused.maps[1].storage == weights_of(few, "gate"));
  CHECK(fused.maps[2].storage == weights_of(few, "up"));
  for (const std::size_t half : {1U, 2U}) {
    CHECK(fused.maps[half].extents == std::array<std::uint64_t, 4>{128, 2, 32, 4});
    CHECK(fused.maps[half].offset == 0);
  }
  CHECK(fused.blocks == 8);
  CHECK(!fused.library);
  CHECK(
      contains(made(few, {8, 0}),
               "ContractSm80<bf16, bf16, MmaTile<64, 64, 32, 2, 128, 4, 2, 1>, 8, 8, false, false, "
               "Epilogue>"));
  // 20 lines are no whole groups of eight.
  CHECK(contains(made(graph("65", "20", "128")), "ContractSm80<"));
}

// Of 304, 40 and 136 columns.
TEST_CASE("tiles of linear layers of one input follow each other, with an epilogue each") {
  const auto graph = [](const std::string& last) {
    return graph_of(bf16_list(R"("x": {"shape": [65, 128]}, "q": {"shape": [304, 128]},
        "k": {"shape": [40, 128]}, "v": {"shape": [)" +
                                  last + R"(, 128]}, "b": {"shape": [40]})",
                              R"({"name": "q", "op": "linear", "inputs": ["x", "q"], "output": "y"},
           {"name": "k", "op": "linear", "inputs": ["x", "k", "b"], "output": "z"},
           {"name": "relu", "op": "relu", "inputs": ["z"], "output": "r"},
           {"name": "v", "op": "linear", "inputs": ["x", "v"], "output": "w"})"));
  };
  const auto made = [&](const OpGraph& of, ComputeCapability capability = kHopper) {
    return generated(
        of, {op_called(of, "q"), op_called(of, "k"), op_called(of, "relu"), op_called(of, "v")},
        capability);
  };
  const OpGraph even = graph("136");
  const GeneratedKernel fused = made(even);
  CHECK(contains(fused, "ContractSm90<bf16, 64, 1, false, LinesOfB::kInOrder, Epilogue>"));
  CHECK(contains(fused,
                 "typedef SideBySide<Epilogue0, 304, SideBySide<Epilogue1, 40, "
                 "SideBySide<Epilogue2, 136>>> Epilogue;"));
  CHECK(contains(fused, "Contract::run(a, Contract::MapsOfB{{&b, &b2, &b3}}, kShape,"));
  // Five, one and three tiles of 64.
  CHECK(contains(fused, "kShape = {65, 576, 128,"));
  CHECK(fused.blocks == 9);
  REQUIRE(fused.maps.size() == 4);
  constexpr std::array<std::uint64_t, 3> kColumns = {304, 40, 136};
  constexpr std::array<std::string_view, 3> kNames = {"q", "k", "v"};
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(fused.maps[i + 1].storage == weights_of(even, kNames[i]));
    CHECK(fused.maps[i + 1].extents == std::array<std::uint64_t, 4>{128, 2, kColumns[i] / 8, 4});
  }
  CHECK(!fused.library);
  // x, three weights, a bias and three results, each once.
  CHECK(fused.storages.size() == 8);
  const GeneratedKernel older = made(even, {8, 0});
  CHECK(
      contains(older,
               "ContractSm80<bf16, bf16, MmaTile<64, 64, 32, 2, 128, 4, 2, 1>, 8, 8, false, false, "
               "Epilogue>"));
  CHECK(contains(older, "Contract::Sources{{"));
  // Five, one and three tiles of 64, by two of the rows.
  CHECK(contains(older, "kShape = {65, 576, 128,"));
  CHECK(older.blocks == 18);
  // 131 lines are no whole groups of eight: all of B's come in another order.
  const GeneratedKernel odd = made(graph("131"));
  CHECK(contains(odd, "LinesOfB::kAlong, Epilogue>"));
  CHECK(odd.maps[1].extents == std::array<std::uint64_t, 4>{128, 304, 1, 1});
  CHECK(odd.maps[3].extents == std::array<std::uint64_t, 4>{128, 131, 1, 1});
}

// c lies as [2][3][100][64]: batch, head, row, column; its heads go side by side into lines of 192.
TEST_CASE("epilogues on tensor cores use quick functions where an op has one") {
  for (const auto& pair : {std::pair{"exp", "quick_exp("},
                           {"log", "quick_log("},
                           {"log1p", "quick_log1p("},
                           {"tanh", "quick_tanh("},
                           {"sigmoid", "quick_sigmoid("},
                           {"silu", "quick_silu("},
                           {"gelu", "quick_gelu("}}) {
    const auto& [op, quick] = pair;
    const OpGraph graph =
        graph_of(bf16_list(R"("x": {"shape": [256, 64]}, "w": {"shape": [128, 64]})",
                           R"({"name": "l", "op": "linear", "inputs": ["x", "w"], "output": "u"},
                {"name": "f", "op": ")" +
                               std::string(op) + R"(", "inputs": ["u"], "output": "y"})"));
    CAPTURE(pair.first);
    const std::string text =
        generated(graph, {op_called(graph, "l"), op_called(graph, "f")}).source.text;
    // In the epilogue, behind what quick.cuh itself says.
    CHECK(text.find(quick, text.find("struct Epilogue")) != std::string::npos);
  }
}

TEST_CASE("rows in pieces are assembled by the copy engine if an epilogue is fused") {
  const OpGraph graph = graph_of(bf16_list(
      R"("c": {"shape": [2, 3, 100, 64]}, "w": {"shape": [72, 192]})",
      R"({"name": "vc", "op": "permute_view", "inputs": ["c"], "output": "ct", "perm": [0, 2, 1, 3]},
         {"name": "vm", "op": "view", "inputs": ["ct"], "output": "cm", "shape": [2, 100, 192]},
         {"name": "out", "op": "linear", "inputs": ["cm", "w"], "output": "o"},
         {"name": "relu", "op": "relu", "inputs": ["o"], "output": "y"})"));
  const GeneratedKernel fused =
      generated(graph, {op_called(graph, "out"), op_called(graph, "relu")});
  CHECK(fused.source.entries == std::vector<std::string>{"fused"});
  CHECK(fused.workspace_bytes == 0);
  CHECK(!fused.library);
  CHECK(fused.maps[0].extents == std::array<std::uint64_t, 4>{64, 100, 3, 2});
  CHECK(fused.maps[0].strides == std::array<std::uint64_t, 3>{128, 12800, 38400});
  CHECK(contains(fused, "kShape = {100, 72, 192, 2, 1, 1, 0, 0, 0, 1, 64}"));
  const GeneratedKernel lone = generated(graph, {op_called(graph, "out")});
  CHECK(lone.source.entries.size() == 2);
}

// 14336 columns are 224 blocks of 64; 4096 are 64, which leave room for two parts of k; 1024 are
// 16, for eight. A stage has 96 lines of four boxes of 128 bytes, or 128 of two.
TEST_CASE("few rows spread over all multiprocessors, by columns and by parts of k") {
  const GeneratedKernel wide = product_with_relu("32", "14336", "4096");
  CHECK(contains(wide, "ContractSkinnySm90<bf16, 32, 1, false, Epilogue>"));
  CHECK(wide.blocks == 224);
  CHECK(wide.threads == 160);
  CHECK(wide.shared_bytes == 2 * (4 * 96 * 128 + 16));
  const GeneratedKernel two = product_with_relu("1", "4096", "4096");
  CHECK(contains(two, "ContractSkinnySm90<bf16, 16, 2, false, Epilogue>"));
  CHECK(two.blocks == 128);
  const GeneratedKernel eight = product_with_relu("64", "1024", "8192");
  CHECK(contains(eight, "ContractSkinnySm90<bf16, 64, 8, false, Epilogue>"));
  CHECK(eight.shared_bytes == 3 * (2 * 128 * 128 + 16));
  CHECK(eight.blocks == 128);
  CHECK(contains(product_with_relu("65", "4096", "4096"), "ContractSm90<"));
}

// A row of 2^27 floats is 2^25 packs of four: two blocks for each multiprocessor share it, and
// leave their parts and a count in memory.
TEST_CASE("long rows are shared by blocks, short ones by a few threads") {
  const GeneratedKernel one = product_with_relu("1", "1", "134217728", "f32");
  CHECK(contains(one, "ContractVector<f32, 8, 512, 264, Epilogue>"));
  CHECK(one.blocks == 264);
  CHECK(one.workspace_bytes == 265 * 4);
  const GeneratedKernel many = product_with_relu("16384", "1", "16384");
  CHECK(contains(many, "ContractVector<bf16, 8, 32, 1, Epilogue>"));
  CHECK(many.blocks == 2048);
  CHECK(many.workspace_bytes == 0);
  CHECK(product_with_relu("1000", "1", "64").blocks == 32);
}

TEST_CASE("columns are reduced in strips of a matrix, and merged") {
  const OpGraph graph = graph_of(kLinear);
  const GeneratedKernel fused = generated(graph, {0, 1, 2});
  CHECK(contains(fused, "typedef Largest Columns;"));
  CHECK(contains(fused, "kShape = {30, 10, 16, 1, 2, 0, 1, 0, 0, 1, 0}"));
  CHECK(fused.source.entries.size() == 2);
  CHECK(fused.following.size() == 1);
  // One strip of two matrices of 10 columns, a float each.
  CHECK(contains(fused, "merge_columns<Largest>(partials, 2, 1, 10,"));
}

TEST_CASE("a transposed convolution is refused with its reason") {
  const OpGraph graph = graph_of(
      bf16_list(R"("x": {"shape": [1, 8, 8, 8]}, "w": {"shape": [8, 8, 3, 3]})",
                R"({"name": "c", "op": "conv_transpose2d", "inputs": ["x", "w"], "output": "y"})"));
  std::string reason;
  try {
    generated(graph, {0});
  } catch (const Error& error) {
    reason = error.what();
  }
  CHECK(reason.find("fusecalc generates no conv_transpose2d kernels") != std::string::npos);
}

}  // namespace
}  // namespace fusecalc
