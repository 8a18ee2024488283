// How products are distributed: which tilings are generated.

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "codegen/generate.hpp"
#include "graph/graph_text.hpp"
#include "support/generated_code.hpp"

namespace fusecalc {
namespace {

using testing::contains;
using testing::generated;

// A linear layer of x[m][k] and w[n][k] and the op after it, as one kernel of an H200.
GeneratedKernel around_product(const std::string& m, const std::string& n, const std::string& k,
                               const std::string& op, const std::string& dtype = "bf16") {
  const OpGraph graph = testing::graph_of(
      R"({"format": "fusecalc.ops/1", "dtype": ")" + dtype + R"(", "tensors": {"x": {"shape": [)" +
      m + ", " + k + R"(]}, "w": {"shape": [)" + n + ", " + k +
      R"(]}}, "ops": [{"op": "linear", "inputs": ["x", "w"], "output": "u"}, )" + op + "]}");
  return generated(graph, {0, 1});
}

const std::string kRelu = R"({"op": "relu", "inputs": ["u"], "output": "y"})";
const std::string kMost = R"({"op": "max", "inputs": ["u"], "output": "y", "axes": [0]})";

// Nine tiles of rows leave the last of five pairs half empty: 3 rounds of 17 steps of 640 cycles
// and 16 % of 619, and 470, where 14 pairs side by side of each take 2 rounds of 640 and 667, for
// 64 lines of A and 160 of B: 44k and 31k.
TEST_CASE("tiles of a cluster lie side by side where rows are no whole pairs of tiles") {
  const GeneratedKernel kernel = around_product("1072", "4352", "1088", kRelu);
  CHECK(contains(kernel,
                 "ContractSm90<bf16, 160, 1, false, LinesOfB::kInOrder, Epilogue, MatrixB, "
                 "NoPrologue, 2>"));
  CHECK(kernel.schedule == "wgmma, tiles of 128 x 160, side by side in clusters");
  CHECK(kernel.blocks == 132);
  CHECK(kernel.maps[0].box == std::array<std::uint32_t, 4>{64, 64, 1, 1});
  // Seven pairs of 320 columns are one round of 17 steps of 1280 and 16 % of 1091, and 3190: 31.6k;
  // squares of four tiles of 128 take 32.9k.
  REQUIRE(kernel.others.size() == 4);
  CHECK(kernel.others[0].schedule == "wgmma, tiles of 128 x 320, side by side in clusters");
  CHECK(kernel.others[1].schedule == "wgmma, tiles of 128 x 128, 2 x 2 in clusters");
}

// 2832 x 1088 x 1536: 60 pairs of 224 columns are one round of 24 steps of 896 cycles and 16 % of
// 650, and 1400, four above each other of 498: 29.1k and 28.5k; squares of 128 take 31.1k.
TEST_CASE("tilings that take about the least time are ways to run a product") {
  const GeneratedKernel kernel = around_product("2832", "1088", "1536", kRelu);
  CHECK(contains(kernel, "ContractSm90<bf16, 224, 4, false, LinesOfB::kInOrder, Epilogue>"));
  CHECK(kernel.blocks == 120);
  CHECK(kernel.shared_bytes == 4 * (16384 + 28672 + 16));
  REQUIRE(kernel.others.size() == 4);
  CHECK(contains(kernel.others[0], "ContractSm90<bf16, 224, 2,"));
  CHECK(kernel.others[1].schedule == "wgmma, tiles of 128 x 128, 2 x 2 in clusters");
  // Partial results in memory would be those of one tiling.
  const GeneratedKernel reduced = around_product("2832", "1088", "1536", kMost);
  CHECK(reduced.workspace_bytes > 0);
  CHECK(reduced.others.empty());
}

// 98 x 2 tiles of 128 x 128 are two rounds of 16 steps of 512 cycles and 16 % of 346, of squares of
// four: 22.0k. 66 pairs of 192 x 128 are one of 768 and 16 % of 667, and 980: 18.6k.
TEST_CASE("tiles are low where rows are few and columns many, across k") {
  const auto schedule_of = [](const std::string& filters, const std::string& images) {
    return generated(testing::graph_of(R"({"dtype": "bf16", "tensors": {"x": {"shape": [)" +
                                       images + R"(, 256, 56, 56]}, "w": {"shape": [)" + filters +
                                       R"(, 256, 1, 1]}}, "ops": [
        {"op": "conv2d", "inputs": ["x", "w"], "output": "h"},
        {"op": "silu", "inputs": ["h"], "output": "y"}], "outputs": ["y"]})"))
        .schedule;
  };
  CHECK(schedule_of("64", "64").starts_with("wgmma, tiles of 64 x "));
  CHECK(schedule_of("72", "64").starts_with("wgmma, tiles of 128 x "));
  CHECK(schedule_of("64", "4") == "wgmma, tiles of 64 x 64");  // a block each
}

TEST_CASE("tiles are high where that takes one round for two") {
  const GeneratedKernel kernel = around_product("12544", "256", "1024", kRelu);
  CHECK(contains(kernel,
                 "ContractSm90<bf16, 128, 1, false, LinesOfB::kInOrder, Epilogue, MatrixOf<192>, "
                 "NoPrologue, 2>"));
  CHECK(kernel.schedule == "wgmma, tiles of 192 x 128, side by side in clusters");
  CHECK(kernel.blocks == 132);
  CHECK(kernel.threads == 512);
  CHECK(kernel.shared_bytes == 5 * (24576 + 16384 + 16));
  CHECK(kernel.maps[0].box == std::array<std::uint32_t, 4>{64, 96, 1, 1});
  // Their epilogue is not hidden: of a second round there are none.
  const GeneratedKernel more = around_product("25088", "256", "1024", kRelu);
  CHECK(more.threads == 384);
  for (const GeneratedKernel& other : more.others) CHECK(other.threads == 384);
}

// 64 clusters of two are one round of 64 steps of 128 bytes and 1024 cycles; tiles of mma take 8
// times 256 steps of 1000.
// Which is faster, a kernel for a short k or tiles, only measuring tells.
TEST_CASE("kernels for a short k and tiles are ways to run one product") {
  const auto schedules_of = [](const std::string& n, const std::string& k) {
    const GeneratedKernel kernel = around_product("12544", n, k, kRelu);
    std::vector<std::string> schedules = {kernel.schedule};
    for (const GeneratedKernel& other : kernel.others) schedules.push_back(other.schedule);
    return schedules;
  };
  const std::vector<std::string> shorter = schedules_of("480", "80");
  REQUIRE(shorter.size() == 6 + 4);
  CHECK(std::ranges::count_if(shorter, [](const std::string& schedule) {
          return schedule.starts_with("mma from registers, short k, ");
        }) == 6);
  CHECK(shorter[0] == "mma from registers, short k, tiles of 16 x 256");
  CHECK(shorter[5] == "mma from registers, short k, tiles of 32 x 128");
  CHECK(shorter[6].starts_with("wgmma, "));
  const std::vector<std::string> longer = schedules_of("672", "112");
  REQUIRE(longer.size() == 3 + 4);
  CHECK(longer[0].starts_with("wgmma, "));
  CHECK(longer[1] == "mma from registers, short k, tiles of 16 x 64");
  CHECK(longer[4].starts_with("wgmma, "));
  CHECK(std::ranges::count(longer, longer[0]) == 1);
}

TEST_CASE("products with few tiles have narrow ones, where all of these run at once") {
  const auto tiled = [](const char* m, const char* n, const std::string& columns) {
    return around_product(m, n, "4096", kRelu)
        .schedule.starts_with("wgmma, tiles of 128 x " + columns);
  };
  // Two rows of 66 tiles of 64 columns, as many as multiprocessors, and of 67.
  CHECK(tiled("256", "4224", "64"));
  CHECK(!tiled("256", "4288", "64"));
  // 84 tiles, four of which share the rows of A, and 42 of 128.
  CHECK(contains(around_product("112", "5376", "6784", kRelu),
                 "ContractSm90<bf16, 64, 1, false, LinesOfB::kInOrder, Epilogue, MatrixB, "
                 "NoPrologue, 4>"));
  // Sums of 32-bit floats are added beside tiles of 128 alone.
  CHECK(contains(around_product("512", "2048", "4096", kRelu, "f32"), "ContractSm90<f32, 128, "));
}

TEST_CASE("tf32 goes to wgmma where its lines run along k and fill tiles") {
  const GeneratedKernel many = around_product("2048", "4096", "2048", kRelu, "tf32");
  CHECK(contains(many, "ContractSm90<f32, 256, 2, false, LinesOfB::kInOrder, Epilogue>"));
  CHECK(many.maps[0].dtype == DType::kTf32);
  CHECK(many.maps[0].box == std::array<std::uint32_t, 4>{32, 128, 1, 1});
  // 2 x 8 tiles of 128 x 64 and 128 steps of 297 cycles: 42k; 4 x 8 of 64 x 64, by eight blocks
  // each, of which a multiprocessor runs two, take 32 of 350 + 230 and 8.2k: 27k.
  const GeneratedKernel few = around_product("256", "512", "4096", kRelu, "tf32");
  CHECK(contains(few, "ContractSm80<f32, f32, MmaTile<64, 64, 32, 2, 128, 4, 2, 8>"));
  CHECK_FALSE(many.packing);
  // Lines at multiples of four bytes are not what the copy engine takes.
  CHECK(around_product("2048", "4096", "2047", kRelu, "tf32").packing);
}

TEST_CASE("products of 32-bit floats go to wgmma as three of tf32 where they fill tiles") {
  const GeneratedKernel along = around_product("2048", "4096", "2048", kRelu, "f32");
  CHECK(contains(along,
                 "ContractSm90<f32, 128, 2, false, LinesOfB::kInOrder, Epilogue, MatrixB, "
                 "NoPrologue, 1, NoGroups, ExactSums> Contract"));
  CHECK(along.schedule == "wgmma, tiles of 128 x 128, three products each");
  // A, B and B's rest, in four stages of three barriers.
  CHECK(along.shared_bytes == 4 * (3 * 16384 + 24));
  // A map of tf32 would round them.
  CHECK(along.maps[0].dtype == DType::kF32);
  CHECK(along.maps[0].box == std::array<std::uint32_t, 4>{32, 128, 1, 1});
  for (const GeneratedKernel& other : along.others) CHECK(other.shared_bytes == along.shared_bytes);

  // 8 tiles of 128 x 128, of 256 steps of 909 cycles: 233k; 32 of 64 x 64 by eight blocks each take
  // 32 of 575 + 540 and 7.4k: 43k.
  const GeneratedKernel few = around_product("128", "1024", "4096", kRelu, "f32");
  CHECK(contains(few, "ContractSm80<f32, exact_f32, MmaTile<64, 64,"));
  // Whole rows are held by clusters for narrower types alone.
  const GeneratedKernel rows = around_product(
      "2048", "512", "512", R"({"op": "softmax", "inputs": ["u"], "output": "y"})", "f32");
  CHECK_FALSE(contains(rows, ", ExactSums>"));
}

// A matmul of 32-bit floats and a relu, as one kernel of an H200.
GeneratedKernel product_of_floats(const std::string& x, const std::string& w,
                                  const std::string& more) {
  const OpGraph graph = testing::graph_of(
      R"({"format": "fusecalc.ops/1", "dtype": "f32", "tensors": {"x": {"shape": )" + x +
      R"(}, "w": {"shape": )" + w + R"(}}, "ops": [{"op": "matmul", "inputs": ["x", "w"], )" +
      more + R"("output": "u"}, )" + kRelu + "]}");
  return generated(graph, {0, 1});
}

TEST_CASE("32-bit floats across k are turned on their way to wgmma") {
  const GeneratedKernel across = product_of_floats("[2048, 2048]", "[2048, 4096]", "");
  CHECK(contains(across,
                 "LinesOfB::kAcross, Epilogue, MatrixB, NoPrologue, 1, NoGroups, "
                 "ExactSums> Contract"));
  // Both parts of B lie beside it.
  CHECK(across.shared_bytes == 3 * (4 * 16384 + 24));
  CHECK(across.maps[1].box == std::array<std::uint32_t, 4>{32, 32, 1, 1});
  const GeneratedKernel both =
      product_of_floats("[2048, 2048]", "[2048, 4096]", R"("transpose_a": true, )");
  CHECK(contains(both, "ContractSm90<f32, 128, 2, true, LinesOfB::kAcross, "));
  CHECK(both.maps[0].box == std::array<std::uint32_t, 4>{32, 32, 1, 1});
}

}  // namespace
}  // namespace fusecalc
