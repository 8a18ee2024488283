#include "analysis/repeats.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "analysis/analyze.hpp"
#include "graph/graph_text.hpp"

using namespace fusecalc;
using namespace fusecalc::testing;

namespace {

// Layers of a product and a softmax on its result, each a kernel; then a product of its own kind.
std::string layers(std::size_t count, const std::string& odd_name = "") {
  std::vector<std::string> tensors = {R"("x0": {"shape": [64, 64]}, "end.w": {"shape": [16, 64]})"};
  std::vector<std::string> ops;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string layer = i == 1 && !odd_name.empty() ? odd_name : fmt::format("layers.{}", i);
    tensors.push_back(fmt::format(R"("{}.w": {{"shape": [64, 64]}})", layer));
    ops.push_back(fmt::format(
        R"({{"name": "{0}.p", "op": "linear", "inputs": ["x{1}", "{0}.w"], "output": "{0}.h"}},
           {{"name": "{0}.t", "op": "transpose", "inputs": ["{0}.h"], "output": "x{2}"}})",
        layer, i, i + 1));
  }
  ops.push_back(fmt::format(
      R"({{"name": "end", "op": "linear", "inputs": ["x{}", "end.w"], "output": "y"}})", count));
  return fmt::format(R"({{"tensors": {{{}}}, "ops": [{}]}})", fmt::join(tensors, ", "),
                     fmt::join(ops, ", "));
}

// "first+period x count" of each repeat.
std::vector<std::string> repeats(const std::string& text) {
  const Analysis analysis = analyze_graph(graph_of(text), "t", known_devices().front(), {});
  const PlanAnalysis& plan = analysis.graph->plan(PlanKind::kUnfused);
  std::vector<std::string> found;
  std::size_t kernels = 0;
  for (const Repeat& repeat : repeats_of(analysis.graph->graph, plan)) {
    CHECK(repeat.first == kernels);
    kernels += repeat.period * repeat.count;
    found.push_back(fmt::format("{}+{} x {}", repeat.first, repeat.period, repeat.count));
  }
  CHECK(kernels == plan.kernels.size());
  return found;
}

using Found = std::vector<std::string>;

}  // namespace

TEST_CASE("layers that differ by a number repeat") {
  CHECK(repeats(layers(32)) == Found{"0+2 x 32", "64+1 x 1"});
  CHECK(repeats(layers(2)) == Found{"0+2 x 2", "4+1 x 1"});
  CHECK(repeats(layers(1)) == Found{"0+1 x 1", "1+1 x 1", "2+1 x 1"});
}

TEST_CASE("a layer with another name, or other bytes, is no repetition") {
  // Layer 1 of 4 has a name of its own.
  CHECK(repeats(layers(4, "special")) ==
        Found{"0+1 x 1", "1+1 x 1", "2+1 x 1", "3+1 x 1", "4+2 x 2", "8+1 x 1"});
  const std::string wide = R"({"tensors": {"a0": {"shape": [8]}, "a1": {"shape": [8]},
                                           "a2": {"shape": [9]}},
    "ops": [{"name": "r0", "op": "relu", "inputs": ["a0"], "output": "b0"},
            {"name": "r1", "op": "relu", "inputs": ["a1"], "output": "b1"},
            {"name": "r2", "op": "relu", "inputs": ["a2"], "output": "b2"}]})";
  CHECK(repeats(wide) == Found{"0+1 x 2", "2+1 x 1"});
}

TEST_CASE("a run inside of a layer does not hide the layer") {
  // relu, relu, exp of layer 0, then of layer 1.
  std::string ops;
  for (int layer = 0; layer < 2; ++layer) {
    for (const auto& [place, op] :
         std::vector<std::pair<int, std::string>>{{0, "relu"}, {1, "relu"}, {2, "exp"}}) {
      ops += fmt::format(R"({}{{"name": "l{}.{}{}", "op": "{}", "inputs": ["x"], "output": "{}"}})",
                         ops.empty() ? "" : ", ", layer, op, place, op, 3 * layer + place);
    }
  }
  CHECK(repeats(R"({"tensors": {"x": {"shape": [8]}}, "ops": [)" + ops + "]}") == Found{"0+3 x 2"});
}

TEST_CASE("numbers in a name are one mark each") {
  CHECK(without_numbers("layers.31.mlp2") == "layers.#.mlp#");
  CHECK(without_numbers("op#12") == "op#");
  CHECK(without_numbers("") == "");
}
