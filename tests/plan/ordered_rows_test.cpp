// How sorts are spread over blocks, by hand.

#include "plan/ordered_rows.hpp"

#include <doctest/doctest.h>

#include <string>

#include "graph/graph_text.hpp"

using namespace fusecalc;
using namespace fusecalc::testing;

namespace {

SortTiling tiling_of(const std::string& shape, const std::string& dtype,
                     const std::string& op = R"("op": "sort")",
                     const Device& device = known_devices().front()) {
  const OpGraph graph =
      graph_of(R"({"dtype": ")" + dtype + R"(", "tensors": {"x": {"shape": )" + shape +
               R"(}}, "ops": [{)" + op + R"(, "inputs": ["x"], "output": "y"}]})");
  return sort_tiling(graph, graph.ops[0], device);
}

}  // namespace

TEST_CASE("the rows of a sort lie along its axis") {
  const OpGraph graph = graph_of(
      R"({"dtype": "f32", "tensors": {"x": {"shape": [7, 1000, 3]}},
          "ops": [{"op": "sort", "inputs": ["x"], "output": "y", "axes": [1]}]})");
  const OrderedRows rows = ordered_rows(graph, graph.ops[0]);
  CHECK(rows.count == 21);
  CHECK(rows.length == 1000);
  CHECK(rows.apart == 3);
}

TEST_CASE("a block sorts a row, or several short ones") {
  const SortTiling rows = tiling_of("[1024, 4000]", "f32");
  REQUIRE(rows.runs.size() == 1);
  CHECK(rows.stretch() == 4096);
  CHECK(rows.items == 8);
  CHECK(rows.threads() == 512);
  CHECK(rows.together() == 1);
  CHECK(rows.buffers(1024)[0] == 0);
  const SortTiling few = tiling_of("[5000, 8]", "f16", R"("op": "topk", "k": 2)");
  CHECK(few.stretch() == 8);
  CHECK(few.items == 1);
  CHECK(few.together() == 32);
  CHECK(few.kept == 2);
  CHECK_FALSE(few.picks());
}

TEST_CASE("long rows are sorted in stretches, four of which are merged at a time") {
  const SortTiling rows = tiling_of("[300, 100000]", "f32");
  REQUIRE(rows.runs.size() == 3);
  CHECK(rows.runs[0].span == 8192);
  CHECK(rows.runs[0].runs == 13);
  CHECK(rows.runs[0].kept == 8192);
  CHECK(rows.runs[1].runs == 4);
  CHECK(rows.runs[2].runs == 1);
  CHECK(rows.buffers(300)[0] == std::uint64_t{300} * 13 * 8192 * 8);
  CHECK(rows.buffers(300)[1] == std::uint64_t{300} * 4 * 32768 * 8);
  // Keys of 64 bits are twice as large; a single row is spread over more blocks.
  CHECK(tiling_of("[300, 100000]", "i64").stretch() == 4096);
  CHECK(tiling_of("[1, 100000]", "f32").stretch() == 1024);
}

TEST_CASE("the first few of a long stretch are picked, not sorted") {
  const SortTiling few = tiling_of("[300, 100000]", "f32", R"("op": "topk", "k": 50)");
  CHECK(few.picks());
  CHECK(few.runs.back().kept == 50);
  CHECK_FALSE(tiling_of("[300, 100000]", "f32", R"("op": "topk", "k": 500)").picks());
}

TEST_CASE("a stretch fits in the memory of a block") {
  Device small = known_devices().front();
  small.on_chip_bytes = 65536;
  const SortTiling rows = tiling_of("[300, 100000]", "f32", R"("op": "sort")", small);
  CHECK(rows.stretch() == 4096);
  CHECK(rows.shared_bytes() == (4096 + 32) * 8);
}
