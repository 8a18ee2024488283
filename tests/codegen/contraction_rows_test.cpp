// Products whose whole rows are held, reduced, and computed with once they are.

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "core/error.hpp"
#include "graph/graph_text.hpp"
#include "planner/plan_text.hpp"
#include "support/generated_code.hpp"

namespace fusecalc {
namespace {

using testing::bf16_list;
using testing::contains;
using testing::generated;
using testing::graph_of;

// The code of all ops after x w^T = h, of 384 columns, as one kernel of an H200.
std::string after_product(const std::string& ops) {
  const OpGraph graph = graph_of(
      R"({"dtype": "bf16", "tensors": {"x": {"shape": [300, 64]}, "w": {"shape": [384, 64]},
          "r": {"shape": [300, 384]}},
          "ops": [{"op": "linear", "inputs": ["x", "w"], "output": "h"}, )" +
      ops + "]}");
  CHECK(testing::auto_of(graph).find("] [") == std::string::npos);
  const GeneratedKernel kernel = generated(graph);
  CHECK(contains(kernel, "typedef ContractRowsSm90<"));
  return kernel.source.text;
}

// The body of the epilogue's first or second function.
std::string function(const std::string& text, const std::string& name) {
  const std::size_t start = text.rfind("void " + name + "(");
  REQUIRE(start != std::string::npos);
  return text.substr(
      start, std::min(text.find("\n};", start), text.find("void second", start + 1)) - start);
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// rms_norm as exporters write it: the squares are reduced, and their roots follow.
TEST_CASE("rows are kept as what follows their reduction needs them") {
  const std::string text = after_product(
      R"({"op": "add", "inputs": ["h", "r"], "output": "s"},
         {"op": "square", "inputs": ["s"], "output": "q"},
         {"op": "mean", "inputs": ["q"], "output": "m", "axis": -1, "keepdim": true},
         {"op": "rsqrt", "inputs": ["m"], "output": "d"},
         {"op": "mul", "inputs": ["s", "d"], "output": "y"})");
  const std::string first = function(text, "first");
  // h + r is kept, so r is read once.
  CHECK(has(first, "const f32 v2 = v[j] + x1[j];"));
  CHECK(has(first, "const f32 v3 = v2 * v2;"));
  CHECK(has(first, "v[j] = v2;\n      taken[j] = v3;"));
  const std::string second = function(text, "second");
  CHECK_FALSE(has(second, "load_columns<8>(p2"));
  CHECK(has(second, "v[j] * r"));
}

TEST_CASE("what is reduced is computed again where its origin is kept") {
  const std::string text = after_product(
      R"({"op": "silu", "inputs": ["h"], "output": "s"},
         {"op": "layer_norm", "inputs": ["s"], "output": "n"},
         {"op": "add", "inputs": ["n", "h"], "output": "y"})");
  CHECK(has(function(text, "first"), "v[j] = v[j];\n      taken[j] = v1;"));
  CHECK(has(function(text, "second"), "quick_silu(v[j])"));
}

TEST_CASE("what is reduced is kept where all that follows is computed from it") {
  const std::string text = after_product(
      R"({"op": "silu", "inputs": ["h"], "output": "s"},
         {"op": "softmax", "inputs": ["s"], "output": "n"},
         {"op": "mul", "inputs": ["n", "s"], "output": "y"})");
  CHECK(has(function(text, "first"), "v[j] = v1;\n      taken[j] = v1;"));
  CHECK_FALSE(has(function(text, "second"), "silu"));
}

const std::string kNorm =
    bf16_list(R"("x": {"shape": [300, 64]}, "w": {"shape": [384, 64]}, "r": {"shape": [300, 384]},
            "g": {"shape": [384]})",
              R"({"name": "l", "op": "linear", "inputs": ["x", "w"], "output": "h"},
            {"name": "a", "op": "add", "inputs": ["h", "r"], "output": "s"},
            {"name": "n", "op": "layer_norm", "inputs": ["s", "g"], "output": "y"})");

// Rows of 300: a step and 40 cycles for each column of a tile, and half as much again where a row
// ends within one: three blocks of 128 take 6k, two of 192 8k.
TEST_CASE(
    "whole rows stay in the registers of a cluster, in the tiling that takes the least time") {
  const OpGraph graph = graph_of(kNorm);
  const GeneratedKernel kernel = generated(graph, {0, 1, 2});
  CHECK(contains(kernel, "ContractRowsSm90<bf16, 128, 3, false, LinesOfB::kInOrder, Epilogue>"));
  CHECK(contains(kernel, "typedef Moments Rows;"));
  CHECK(contains(kernel, "typedef Pack<bf16, 8> Ahead;"));
  CHECK(contains(kernel,
                 "void first(int batch, i64 row, i64 column, float (&v)[8], float (&taken)[8], "
                 "Valid valid, const Ahead& ahead) const"));
  CHECK(kernel.persistent_cluster == 3);
  CHECK(kernel.blocks == 9);  // 300 rows are three pieces of 128
  // Six stages of 128 + 128 lines of 128 bytes; three floats of 128 rows from 3 blocks, twice.
  CHECK(kernel.shared_bytes == 6 * 256 * 128 + 2 * 3 * 128 * 12 + 256);
  CHECK(kernel.workspace_bytes == 0);
  REQUIRE(kernel.maps.size() == 2);
  CHECK(kernel.maps[1].extents == std::array<std::uint64_t, 4>{64, 2, 48, 4});
  CHECK(kernel.maps[1].box == std::array<std::uint32_t, 4>{64, 2, 4, 4});
  REQUIRE(kernel.others.size() == 1);
  CHECK(contains(kernel.others[0],
                 "ContractRowsSm90<bf16, 192, 2, false, LinesOfB::kInOrder, Epilogue>"));
  CHECK(kernel.others[0].shared_bytes == 5 * 320 * 128 + 2 * 2 * 128 * 12 + 256);
  CHECK(kernel.others[0].storages == kernel.storages);
}

TEST_CASE("results that do not depend on the row's reduction are stored before it") {
  const OpGraph graph = graph_of(kNorm);
  // h + r is an output of the graph as well.
  const OpGraph more = graph_of(kNorm.substr(0, kNorm.size() - 1) + R"(, "outputs": ["s", "y"]})");
  for (const auto& [of, stores] : {std::pair{&graph, 1}, std::pair{&more, 2}}) {
    const GeneratedKernel kernel = generated(*of, {0, 1, 2});
    const std::string& text = kernel.source.text;
    const std::size_t first = text.rfind("void first(");
    const std::size_t second = text.rfind("void second(");
    REQUIRE(second != std::string::npos);
    const std::string before = text.substr(first, second - first);
    CHECK((before.find("store_columns<8>") != std::string::npos) == (stores == 2));
    CHECK(text.find("store_columns<8>", second) != std::string::npos);
  }
}

std::string refusal(const OpGraph& graph, const Kernel& kernel, ComputeCapability capability) {
  try {
    generated(graph, kernel, capability);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

TEST_CASE("whole rows are held without tensor cores where there are no clusters") {
  const GeneratedKernel code = generated(graph_of(kNorm), {0, 1, 2}, {8, 0});
  CHECK(code.schedule == "without tensor cores, 32 whole rows per block");
  CHECK_FALSE(code.source.architecture_bound);
}

TEST_CASE("rows that no kernel can hold are refused with the reason") {
  const OpGraph wide =
      graph_of(bf16_list(R"("x": {"shape": [300, 64]}, "w": {"shape": [4096, 64]})",
                         R"({"op": "linear", "inputs": ["x", "w"], "output": "h"},
              {"op": "layer_norm", "inputs": ["h"], "output": "y"})"));
  CHECK(refusal(wide, {0, 1}, {9, 0}).find("layer_norm needs whole rows of the result of linear") !=
        std::string::npos);
  const OpGraph twice =
      graph_of(bf16_list(R"("x": {"shape": [300, 64]}, "w": {"shape": [256, 64]})",
                         R"({"name": "l", "op": "linear", "inputs": ["x", "w"], "output": "h"},
              {"name": "n", "op": "layer_norm", "inputs": ["h"], "output": "s"},
              {"name": "p", "op": "softmax", "inputs": ["s"], "output": "y"})"));
  CHECK(refusal(twice, {0, 1, 2}, {9, 0}).find("softmax would be the second") != std::string::npos);
}

}  // namespace
}  // namespace fusecalc
