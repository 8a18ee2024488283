// Products whose operands are scaled: by the epilogue, step by step, or as they are loaded.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>

#include "codegen/generate.hpp"
#include "graph/graph_text.hpp"
#include "planner/plan_text.hpp"
#include "support/generated_code.hpp"

namespace fusecalc {
namespace {

using testing::contains;
using testing::generated;
using testing::graph_of;

// a [4000, 512] @ b [4096, 512]^T, with scales of these shapes, and the ops that follow.
OpGraph scaled(const char* scales_a, const char* scales_b, const std::string& ops = "",
               const char* dtype = "fp8_e4m3", const char* made = "bf16") {
  return graph_of(fmt::format(
      R"({{"dtype": "bf16", "tensors": {{
          "x": {{"shape": [4000, 512], "dtype": "{2}"}}, "w": {{"shape": [4096, 512], "dtype": "{2}"}},
          "s": {{"shape": {0}, "dtype": "f32"}}, "t": {{"shape": {1}, "dtype": "f32"}},
          "bias": {{"shape": [4096]}}, "h": {{"shape": [4000, 4096], "dtype": "{4}"}}}},
    "ops": [{{"name": "product", "op": "scaled_matmul", "inputs": ["x", "w", "s", "t", "bias"],
              "output": "h", "transpose_b": true}}{3}]}})",
      scales_a, scales_b, dtype, ops, made));
}

const std::string kSilu = R"(, {"name": "silu", "op": "silu", "inputs": ["h"], "output": "y"})";

TEST_CASE("scales of rows and of columns are applied to sums, before the bias") {
  CHECK(testing::auto_of(scaled("[4000, 1]", "[1, 4096]", kSilu)) == "[product silu]");
  const GeneratedKernel kernel = generated(scaled("[4000, 1]", "[]"));
  CHECK(contains(kernel, "ContractSm90<fp8_e4m3"));
  CHECK(!contains(kernel, "struct Scales"));
  CHECK(kernel.schedule.find("each step scaled") == std::string::npos);
  // No library is asked: it takes no scale for each row.
  CHECK(!kernel.library);
  CHECK(!generated(scaled("[]", "[1]")).library);
  // Of 16 bits, few rows and halves have tiles of their own.
  const std::string gate =
      R"(, {"op": "split_view", "inputs": ["h"], "outputs": ["a", "b"], "axis": 1},
      {"name": "silu", "op": "silu", "inputs": ["a"], "output": "g"},
      {"name": "mul", "op": "mul", "inputs": ["g", "b"], "output": "y"})";
  CHECK(testing::auto_of(scaled("[4000, 1]", "[1, 4096]", gate, "bf16")) == "[product silu mul]");
  CHECK(testing::auto_of(scaled("[4000, 4]", "[4, 1]", gate, "bf16")) == "[product] [silu mul]");
}

TEST_CASE("scales of blocks along k are applied to the sums of each step of 128") {
  CHECK(testing::auto_of(scaled("[4000, 4]", "[4, 32]", kSilu)) == "[product silu]");
  const GeneratedKernel squares = generated(scaled("[4000, 4]", "[4, 32]"));
  CHECK(contains(squares, "kEachColumn = false"));
  CHECK(contains(squares, "NoGroups, Scales>"));
  CHECK(squares.schedule.find("each step scaled") != std::string::npos);
  // Where each column has a scale of its own, sums of so many are all that registers hold.
  const GeneratedKernel lines = generated(scaled("[4000, 4]", "[4, 4096]"));
  CHECK(contains(lines, "kEachColumn = true"));
  CHECK(lines.schedule.starts_with("wgmma, tiles of 128 x 128, each step scaled"));
  // One of both changes along k.
  CHECK(generated(scaled("[]", "[2, 1]")).schedule.find("each step scaled") != std::string::npos);
}

TEST_CASE("other scaled blocks are multiplied without tensor cores") {
  const std::string apart = "without tensor cores, tiles of 64 x 64";
  CHECK(generated(scaled("[4000, 8]", "[]")).schedule == apart);
  CHECK(generated(scaled("[4000, 4]", "[4, 32]", "", "bf16")).schedule == apart);
  CHECK(generated(scaled("[4000, 4]", "[4, 32]", "", "fp8_e4m3", "f32")).schedule == apart);
  CHECK(generated(scaled("[4000, 4]", "[4, 32]"), {0}, {8, 9}).schedule == apart);
  CHECK(contains(generated(scaled("[4000, 8]", "[]")), "stored_a(batch, line, k) * scale_of_a"));
}

TEST_CASE("scaled products that become integers have no kernel") {
  const OpGraph graph = scaled("[4000, 1]", "[]", kSilu, "i8", "i32");
  CHECK(testing::obstacle(graph, {"product", "silu"}) ==
        "scaled_matmul makes integers; fusecalc generates scaled products for floating-point "
        "results only");
}

}  // namespace
}  // namespace fusecalc
