#include "plan/grouped_weights.hpp"

#include <doctest/doctest.h>

#include <numeric>
#include <string>

#include "graph/graph_text.hpp"

namespace fusecalc {
namespace {

// y = x w, where `ops` make w of packed integers q: 8 lines of 256 in groups of 64.
std::optional<GroupedWeights> found(const std::string& ops, const std::string& type = "u4",
                                    const std::string& of_scale = "[8, 4, 1]") {
  const OpGraph graph = testing::graph_of(R"({"format": "fusecalc.ops/1", "dtype": "bf16",
      "tensors": {"x": {"shape": [2, 256]}, "q": {"shape": [8, 4, 64], "dtype": ")" +
                                          type + R"("}, "zero": {"shape": [8, 4, 1]},
                  "scale": {"shape": )" + of_scale +
                                          R"(}, "whole": {"shape": [8, 4, 64]}}, "ops": [)" + ops +
                                          R"(, {"op": "view", "inputs": ["v"], "output": "w",
                                                "shape": [8, 256]},
                  {"op": "linear", "inputs": ["x", "w"], "output": "y"}], "outputs": ["y"]})");
  Kernel kernel(graph.ops.size());
  std::iota(kernel.begin(), kernel.end(), OpId{0});
  return grouped_weights(graph, kernel, kernel.back());
}

const std::string kScaled = R"({"op": "sub", "inputs": ["q", "zero"], "output": "c"},
                               {"op": "mul", "inputs": ["c", "scale"], "output": "v"})";

TEST_CASE("weights are grouped as their scales and zero points are shared") {
  REQUIRE(found(kScaled));
  CHECK(found(kScaled)->group == 64);
  CHECK(found(kScaled, "i4")->group == 64);
  // A scale for each line of 256: the zero points' groups of 64 remain.
  CHECK(found(kScaled, "u4", "[8, 1, 1]")->group == 64);
  CHECK(found(R"({"op": "mul", "inputs": ["q", "scale"], "output": "v"})", "i4", "[8, 1, 1]")
            ->group == 128);
  CHECK(found(R"({"op": "cast", "inputs": ["q"], "to": "bf16", "output": "c"},
                 {"op": "sub", "inputs": ["c", 8], "output": "d"},
                 {"op": "div", "inputs": ["d", "scale"], "output": "v"})")
            ->group == 64);
}

TEST_CASE("weights that are no affine function of a packed integer are not grouped") {
  CHECK(!found(kScaled, "u8"));
  CHECK(!found(R"({"op": "mul", "inputs": ["q", "whole"], "output": "v"})"));
  CHECK(!found(R"({"op": "mul", "inputs": ["q", "scale"], "output": "c"},
                  {"op": "relu", "inputs": ["c"], "output": "v"})"));
  CHECK(!found(R"({"op": "div", "inputs": ["scale", "q"], "output": "v"})"));
  // A scale for every second weight.
  CHECK(!found(R"({"op": "mul", "inputs": ["q", "scale"], "output": "v"})", "u4", "[8, 4, 64]"));
}

}  // namespace
}  // namespace fusecalc
