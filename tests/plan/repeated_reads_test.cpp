// Which operands a kernel reads again, and which passes its blocks take side by side. By hand; the
// L2 has 50 MiB.

#include "plan/repeated_reads.hpp"

#include <doctest/doctest.h>

#include <string>

#include "graph/graph_text.hpp"

using namespace fusecalc;
using namespace fusecalc::testing;

namespace {

constexpr std::uint64_t kL2 = std::uint64_t{50} << 20U;

// Of y = x + p in bf16, as one kernel.
RepeatedReads of_sum(const std::string& x, const std::string& p) {
  const OpGraph graph =
      graph_of(R"({"dtype": "bf16", "tensors": {"x": {"shape": )" + x + R"(}, "p": {"shape": )" +
               p + R"(}}, "ops": [{"op": "add", "inputs": ["x", "p"], "output": "y"}]})");
  const Tensor& y = graph.tensors[graph.ops[0].outputs[0]];
  const double moved = 2.0 * static_cast<double>(y.bytes);
  return repeated_reads(graph, {0}, LoopSpace::of_results(y.elements), moved, kL2);
}

}  // namespace

TEST_CASE("an operand that is repeated along an outer axis is read in passes") {
  const RepeatedReads sum = of_sum("[8, 2048, 4096]", "[2048, 4096]");
  REQUIRE(sum.reads.size() == 1);
  CHECK(sum.reads[0].outer == 1);
  CHECK(sum.reads[0].passes == 8);
  CHECK(sum.reads[0].pass == 2048 * 4096);
  CHECK(sum.reads[0].bytes == 2 * 2048 * 4096);
  CHECK(sum.distance(sum.reads[0], 2.0 * 8 * 16'777'216) == 3.0 * 16'777'216);
  REQUIRE(sum.side_by_side);
  CHECK(sum.side_by_side->passes == 8);
}

TEST_CASE("passes within parts are side by side where blocks begin with them") {
  const RepeatedReads masked = of_sum("[2, 6, 2048, 2048]", "[2, 1, 2048, 2048]");
  REQUIRE(masked.side_by_side);
  CHECK(masked.side_by_side->outer == 2);
  CHECK(masked.side_by_side->passes == 6);
  CHECK(masked.side_by_side->pass == 2048 * 2048);
  // 1001 x 2049 elements are no whole blocks, which matters for several parts alone.
  CHECK_FALSE(of_sum("[2, 6, 1001, 2049]", "[2, 1, 1001, 2049]").side_by_side);
  CHECK(of_sum("[6, 1001, 4097]", "[1001, 4097]").side_by_side);
}

TEST_CASE("as many passes are side by side as divide them, up to 32") {
  const RepeatedReads many = of_sum("[48, 1024, 4096]", "[1024, 4096]");
  REQUIRE(many.side_by_side);
  CHECK(many.side_by_side->outer == 2);
  CHECK(many.side_by_side->passes == 24);
  CHECK_FALSE(of_sum("[37, 1024, 4096]", "[1024, 4096]").side_by_side);
}

TEST_CASE("what the L2 keeps needs no other order") {
  CHECK_FALSE(of_sum("[64, 256, 1024]", "[256, 1024]").side_by_side);
  CHECK_FALSE(of_sum("[2048, 4096]", "[4096]").side_by_side);
  CHECK(of_sum("[2048, 4096]", "[2048, 1]").reads.empty());
  CHECK(lost_by_stream(0, kL2) == 0);
  CHECK(lost_by_stream(0.6 * kL2, kL2) == doctest::Approx(0.2));
  CHECK(lost_by_stream(2.0 * kL2, kL2) == 1);
}

TEST_CASE("rows are side by side in whole blocks of them") {
  const OpGraph graph = graph_of(
      R"({"dtype": "bf16", "tensors": {"s": {"shape": [4, 8, 2048, 2048]},
          "m": {"shape": [4, 1, 2048, 2048]}},
          "ops": [{"op": "add", "inputs": ["s", "m"], "output": "a"},
                  {"op": "softmax", "inputs": ["a"], "output": "y"}]})");
  const auto space = LoopSpace::of_rows(graph.ops[1].rows);
  REQUIRE(space);
  CHECK(space->elements == std::uint64_t{4} * 8 * 2048 * 2048);
  const RepeatedReads rows = repeated_reads(graph, {0, 1}, *space, 570e6, kL2);
  REQUIRE(rows.side_by_side);
  CHECK(rows.side_by_side->outer == 4);
  CHECK(rows.side_by_side->passes == 8);
}
