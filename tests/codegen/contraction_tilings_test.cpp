// How products are distributed: which tilings are generated.

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <string>

#include "codegen/generate.hpp"
#include "graph/graph_text.hpp"

namespace fusecalc {
namespace {

// A linear layer of x[m][k] and w[n][k] and the op after it, as one kernel of an H200.
GeneratedKernel around_product(const std::string& m, const std::string& n, const std::string& k,
                               const std::string& op) {
  const OpGraph graph = testing::graph_of(
      R"({"format": "fusecalc.ops/1", "dtype": "bf16", "tensors": {"x": {"shape": [)" + m + ", " +
      k + R"(]}, "w": {"shape": [)" + n + ", " + k +
      R"(]}}, "ops": [{"op": "linear", "inputs": ["x", "w"], "output": "u"}, )" + op + "]}");
  TrafficCounter counter(graph, known_devices().front());
  return generate(counter, {0, 1}, counter.device());
}

const std::string kRelu = R"({"op": "relu", "inputs": ["u"], "output": "y"})";
const std::string kMost = R"({"op": "max", "inputs": ["u"], "output": "y", "axes": [0]})";

bool has(const GeneratedKernel& kernel, const std::string& text) {
  return kernel.source.text.find(text) != std::string::npos;
}

// Nine tiles of rows leave the last of five pairs half empty: 3 rounds of 17 steps of 739 cycles,
// 672 / 5 and 900, where 14 pairs side by side of each take 2 rounds of 17 of 796 and 672 / 5, for
// 64 lines of A and 160 of B: 47k and 33k.
TEST_CASE("tiles of a cluster lie side by side where rows are no whole pairs of tiles") {
  const GeneratedKernel kernel = around_product("1072", "4352", "1088", kRelu);
  CHECK(has(kernel,
            "ContractSm90<bf16, 160, 1, false, LinesOfB::kInOrder, Epilogue, MatrixB, "
            "NoPrologue, 2>"));
  CHECK(kernel.schedule == "wgmma, tiles of 128 x 160, side by side in clusters");
  CHECK(kernel.blocks == 132);
  CHECK(kernel.maps[0].box == std::array<std::uint32_t, 4>{64, 64, 1, 1});
  // Squares of four tiles of 128 take 36k.
  REQUIRE(kernel.others.size() == 1);
  CHECK(kernel.others[0].schedule == "wgmma, tiles of 128 x 128, 2 x 2 in clusters");
}

// 2832 x 1088 x 1536: 60 pairs of 224 columns are one round of 24 steps of 909 cycles and 775 / 5,
// and 4500, four above each other of 594 / 5: 30.0k and 29.1k. All others take 32k and more.
TEST_CASE("tilings that take about the least time are ways to run a product") {
  const GeneratedKernel kernel = around_product("2832", "1088", "1536", kRelu);
  CHECK(has(kernel, "ContractSm90<bf16, 224, 4, false, LinesOfB::kInOrder, Epilogue>"));
  CHECK(kernel.blocks == 120);
  CHECK(kernel.shared_bytes == 4 * (16384 + 28672 + 16));
  REQUIRE(kernel.others.size() == 1);
  CHECK(has(kernel.others[0], "ContractSm90<bf16, 224, 2,"));
  // Partial results in memory would be those of one tiling.
  const GeneratedKernel reduced = around_product("2832", "1088", "1536", kMost);
  CHECK(reduced.workspace_bytes > 0);
  CHECK(reduced.others.empty());
}

}  // namespace
}  // namespace fusecalc
