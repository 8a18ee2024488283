#include "plan/norm_backward.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>

#include "codegen/generate.hpp"
#include "core/error.hpp"
#include "graph/graph_text.hpp"
#include "support/generated_code.hpp"

namespace fusecalc {
namespace {

using testing::generated;

OpGraph layer_norm(std::uint64_t rows, std::uint64_t length, std::string_view dtype,
                   std::string_view results) {
  return testing::graph_of(fmt::format(
      R"({{"format": "fusecalc.ops/1", "dtype": "{2}",
           "tensors": {{"dy": {{"shape": [{0}, {1}]}}, "x": {{"shape": [{0}, {1}]}},
                        "m": {{"shape": [{0}, 1], "dtype": "f32"}},
                        "r": {{"shape": [{0}, 1], "dtype": "f32"}}, "w": {{"shape": [{1}]}}}},
           "ops": [{{"op": "layer_norm_backward", "inputs": ["dy", "x", "m", "r", "w"], {3}}}]}})",
      rows, length, dtype, results));
}

constexpr std::string_view kAll = R"("outputs": ["dx", "dw", "db"])";

ColumnTiling tiling_of(const OpGraph& graph) {
  const auto tiling =
      norm_backward_tiling(graph, graph.ops[0], known_devices().front().on_chip_bytes);
  REQUIRE(tiling);
  return *tiling;
}

TEST_CASE("gradients of a norm move each tensor once, and sums of columns wait for the grid") {
  const OpGraph graph = layer_norm(16384, 4096, "bf16", kAll);
  TrafficCounter counter(graph, known_devices().front());
  const std::uint64_t large = std::uint64_t{16384} * 4096 * 2;
  CHECK(counter.bytes({0}) ==
        Bytes{2 * large + std::uint64_t{2} * 16384 * 4 + 4096 * 2, large + 2 * 4096 * 2});
  const GeneratedKernel kernel = generated(graph);
  CHECK(kernel.blocks == 132);  // one on each multiprocessor
  CHECK(kernel.cooperative);
  // Two sums in f32 of each block and column.
  CHECK(kernel.workspace_bytes == 256 + 132 * 2 * 4096 * 4);
  CHECK(kernel.storages.size() == 8);
}

TEST_CASE("without the gradients of weights nothing is added up over rows") {
  const GeneratedKernel kernel = generated(layer_norm(16384, 4096, "bf16", R"("outputs": ["dx"])"));
  CHECK_FALSE(kernel.cooperative);
  CHECK(kernel.workspace_bytes == 0);
}

TEST_CASE("a thread takes 16 bytes of a row, or what divides its length") {
  CHECK(tiling_of(layer_norm(1024, 4096, "bf16", kAll)).width == 8);
  CHECK(tiling_of(layer_norm(1024, 4096, "f32", kAll)).width == 4);
  CHECK(tiling_of(layer_norm(1024, 33, "bf16", kAll)).width == 1);
  CHECK(tiling_of(layer_norm(1024, 36, "bf16", kAll)).width == 4);
  // The 8 groups of a row are two for each of 4 threads; a warp has 8 rows.
  const ColumnTiling narrow = tiling_of(layer_norm(100000, 64, "bf16", kAll));
  CHECK(narrow.rounds == 2);
  CHECK(narrow.team == 4);
}

TEST_CASE("long rows of any length are taken 16 bytes at a time, each team's from one place on") {
  const ColumnTiling odd = tiling_of(layer_norm(65536, 777, "bf16", kAll));
  CHECK(odd.width == 8);
  // Wherever the first of its groups begins, up to 7 elements later: 96 of them, and 9 elements.
  CHECK(odd.groups == 96);
  CHECK(odd.ends == 9);
  CHECK(odd.team >= odd.ends);
  // Rows that begin alike are 8 rows apart.
  CHECK(odd.teams * odd.blocks(132) % 8 == 0);
  const ColumnTiling pairs = tiling_of(layer_norm(65536, 1026, "bf16", kAll));
  CHECK(pairs.groups * 8 + pairs.ends == 1026);
  CHECK(pairs.teams * pairs.blocks(132) % 4 == 0);
  // A warp moves elements of four bytes at full speed one by one.
  CHECK(tiling_of(layer_norm(65536, 777, "f32", kAll)).width == 1);
  // 7 teams of 3 blocks are 21 rows apart, those of 8 blocks 56.
  const ColumnTiling few{.rows = 20, .length = 1001, .width = 8, .ends = 9, .teams = 7};
  CHECK(few.blocks(132) == 8);
  CHECK(tiling_of(layer_norm(65536, 1024, "bf16", kAll)).ends == 0);
}

TEST_CASE("a team has more rounds where that leaves fewer threads idle") {
  // Two rounds of 96 groups are 48 threads of a team of 64, three are a warp.
  const ColumnTiling tiling = tiling_of(layer_norm(65536, 768, "bf16", kAll));
  CHECK(tiling.rounds == 3);
  CHECK(tiling.team == 32);
  CHECK(tiling.teams == 16);
}

TEST_CASE("rows are long enough for a block's registers and shared memory, or refused") {
  for (const std::uint64_t length : {1U, 31U, 4096U, 12288U, 16384U}) {
    const ColumnTiling tiling = tiling_of(layer_norm(4096, length, "bf16", kAll));
    CHECK(std::uint64_t{tiling.width} * tiling.rounds * tiling.team + tiling.ends >= length);
    CHECK(tiling.shared_bytes <= known_devices().front().on_chip_bytes);
    CHECK(tiling.threads() % 32 == 0);
  }
  try {
    generated(layer_norm(64, 50000, "bf16", kAll));
    FAIL("50,000 columns of one block were accepted");
  } catch (const Error& error) {
    CHECK(std::string(error.what()).find("do not fit one block's shared memory and registers") !=
          std::string::npos);
  }
}

}  // namespace
}  // namespace fusecalc
