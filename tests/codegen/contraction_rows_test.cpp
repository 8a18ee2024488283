// What is computed from a product's whole rows once they are reduced.

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "codegen/generate.hpp"
#include "graph/graph_text.hpp"
#include "planner/plan_text.hpp"

namespace fusecalc {
namespace {

// The code of all ops after x w^T = h, of 384 columns, as one kernel of an H200.
std::string after_product(const std::string& ops) {
  const OpGraph graph = testing::graph_of(
      R"({"dtype": "bf16", "tensors": {"x": {"shape": [300, 64]}, "w": {"shape": [384, 64]},
          "r": {"shape": [300, 384]}},
          "ops": [{"op": "linear", "inputs": ["x", "w"], "output": "h"}, )" +
      ops + "]}");
  Kernel all;
  for (OpId id = 0; id < graph.ops.size(); ++id) all.push_back(id);
  CHECK(testing::auto_of(graph).find("] [") == std::string::npos);
  TrafficCounter counter(graph, known_devices().front());
  const GeneratedKernel kernel = generate(counter, all, counter.device());
  CHECK(kernel.source.text.find("typedef ContractRowsSm90<") != std::string::npos);
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
  CHECK_FALSE(has(second, "load8<8>(p2"));
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

}  // namespace
}  // namespace fusecalc
