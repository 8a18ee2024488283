// Products of weights that are packed into bytes.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>

#include "codegen/matrix_product.hpp"
#include "graph/graph_text.hpp"
#include "support/generated_code.hpp"

namespace fusecalc {
namespace {

using testing::contains;
using testing::generated;
using testing::graph_of;

TEST_CASE("tiles of packed weights leave few multiprocessors idle") {
  const auto lines = [](std::uint64_t rows, std::uint64_t of) {
    return packed_tilings(rows, of, 132, 227 << 10, 128).front().lines();
  };
  CHECK(lines(1, 28672) == 224);  // one round of 234, where two take 138 each
  CHECK(lines(1, 13952) == 128);  // one round of 138, where two take 74 each
  CHECK(lines(1, 7296) == 64);    // one round of 74, where two take 42 each
  CHECK(lines(1, 4096) == 32);
  // More rows: a round takes as long as 142 lines beside.
  CHECK(lines(16, 28672) == 224);  // 366, two of 270
  CHECK(lines(16, 18176) == 160);  // 302, where wider tiles need one round, too
  CHECK(lines(16, 13952) == 128);  // 270, two of 206
  CHECK(lines(16, 7168) == 64);
}

// 16 rows of 256, and 512 lines of packed weights in groups of 32.
TEST_CASE("packed weights of one scale a group are multiplied as integers") {
  const auto text = [](int rows) {
    return fmt::format(
        R"({{"dtype": "bf16",
             "tensors": {{"x": {{"shape": [{}, 256]}}, "q": {{"shape": [512, 8, 32], "dtype": "i4"}},
                          "s": {{"shape": [512, 8, 1]}}}},
             "ops": [{{"op": "mul", "inputs": ["q", "s"], "output": "v"}},
                     {{"op": "view", "inputs": ["v"], "output": "w", "shape": [512, 256]}},
                     {{"op": "linear", "inputs": ["x", "w"], "output": "y"}}]}})",
        rows);
  };
  const OpGraph graph = graph_of(text(16));
  const GeneratedKernel kernel = generated(graph, {0, 1});
  CHECK(contains(kernel, "typedef i4 Packed;\n  static constexpr int kGroup = 32;"));
  CHECK(contains(kernel, "ContractNibbles<bf16, "));
  // More rows than the block takes: each weight is computed.
  const OpGraph rows = graph_of(text(17));
  CHECK(generated(rows, {0, 1}).schedule ==
        "mma from registers, tiles of 32 x 32, weights computed as they are read");
}

}  // namespace
}  // namespace fusecalc
