// Products of rows in groups, each of which has a matrix of its own.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <string>

#include "codegen/generate.hpp"
#include "graph/graph_text.hpp"
#include "plan/legality.hpp"
#include "plan/tiling.hpp"
#include "planner/plan_text.hpp"
#include "support/generated_code.hpp"

namespace fusecalc {
namespace {

using testing::contains;
using testing::generated;
using testing::graph_of;

// Rows by the matrices [columns, 256] of so many groups, and the ops that follow.
OpGraph grouped(std::uint64_t groups, const std::string& ops = "", const char* dtype = "bf16",
                std::uint64_t columns = 512) {
  return graph_of(fmt::format(
      R"({{"dtype": "{1}", "tensors": {{"x": {{"shape": [4000, 256]}}, "w": {{"shape": [{0}, {3}, 256]}},
                                      "ends": {{"shape": [{0}], "dtype": "i64"}}}},
    "ops": [{{"name": "product", "op": "grouped_matmul", "inputs": ["x", "w", "ends"], "output": "h",
              "transpose_b": true}}{2}]}})",
      groups, dtype, ops, columns));
}

const std::string kGate =
    R"(, {"op": "split_view", "inputs": ["h"], "outputs": ["a", "b"], "axis": 1},
    {"name": "silu", "op": "silu", "inputs": ["a"], "output": "s"},
    {"name": "mul", "op": "mul", "inputs": ["s", "b"], "output": "y"})";

TEST_CASE("what follows rows in groups element by element is in their kernel, halves too") {
  CHECK(testing::auto_of(grouped(8, kGate)) == "[product silu mul]");
  CHECK(testing::compiler_of(grouped(8, kGate)) == "[product] [silu mul]");
  const std::string sum = R"(, {"name": "sum", "op": "sum", "inputs": ["h"], "output": "y",
                                "axes": [1]})";
  CHECK(testing::auto_of(grouped(8, sum)) == "[product] [sum]");
  CHECK(testing::obstacle(grouped(8, sum), {"product", "sum"}) ==
        "the tiles of grouped_matmul hold only parts of what sum reduces");
}

// Lines of all groups are one map's, in the order in which lanes hold columns; a second one is of
// the other half. Tiles begin where groups do, and the grid is that of blocks that go from tile to
// tile.
TEST_CASE("rows in groups run on the tensor cores of any device, and without") {
  const GeneratedKernel hopper = generated(grouped(8, kGate));
  CHECK(contains(hopper, "RowGroups<Ends, 8>"));
  CHECK(contains(hopper, "ContractSm90<"));
  CHECK(contains(hopper, "LinesOfB::kInOrder"));
  REQUIRE(hopper.maps.size() == 3);
  CHECK(hopper.maps[1].extents == std::array<std::uint64_t, 4>{256, 2, (7 * 512 + 256) / 8, 4});
  CHECK(hopper.maps[2].extents == hopper.maps[1].extents);
  CHECK(hopper.maps[2].offset == 256 * 256 * 2);
  CHECK(!hopper.library);
  // 4,000 rows in nine groups at most, of which the last has the rows of no group.
  const GeneratedKernel ampere = generated(grouped(8), {0}, {8, 0});
  CHECK(contains(ampere, "ContractSm80<"));
  CHECK(contains(ampere, "RowGroups<Ends, 8>"));
  CHECK(ampere.schedule == "mma, tiles of 128 x 256");
  CHECK(ampere.blocks == (4000 + 9 * 127) / 128 * 2);
  const GeneratedKernel doubles = generated(grouped(3, "", "f64"));
  CHECK(contains(doubles, "Operands, Epilogue, RowGroups<Ends, 3>>"));
  CHECK(contains(doubles, "ContractAny<"));
  CHECK(doubles.blocks == (4000 + 4 * 63) / 64 * 8);
}

TEST_CASE("more groups of rows than a block keeps places of have no kernel") {
  CHECK(testing::obstacle(grouped(1024), {"product"}).empty());
  const OpGraph many =
      grouped(1025, R"(, {"name": "relu", "op": "relu", "inputs": ["h"], "output": "y"})");
  TrafficCounter counter(many, known_devices().front());
  const Rules rules = runner_rules(known_devices().front());
  for (const Kernel& kernel : {Kernel{0}, Kernel{0, 1}}) {
    CHECK(explain(many, check_launch(counter.phases(), kernel, rules)) ==
          "grouped_matmul is larger than what one launch covers");
  }
}

TEST_CASE("tiles of groups are counted as if these had from three to five quarters of a share") {
  const ProductShape even{.m = 256, .n = 512, .k = 512, .batches = 10};
  CHECK(even.row_tiles(128) == 20);
  // 192 to 320 rows: nine of the 17 sizes take two tiles, eight take three.
  const ProductShape uneven = grouped_shape({.m = 2560, .n = 512, .k = 512}, 10);
  CHECK(uneven.m == 256);
  CHECK(uneven.batches == 10);
  CHECK(uneven.row_tiles(128) == 25);
  CHECK(uneven.most_row_tiles(128) == 3);
  // With fewer rows than groups, each row is a group.
  CHECK(grouped_shape({.m = 3, .n = 512, .k = 512}, 10).row_tiles(128) == 3);
}

}  // namespace
}  // namespace fusecalc
