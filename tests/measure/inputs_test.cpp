#include "measure/inputs.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "core/embedded.hpp"
#include "graph/graph_text.hpp"
#include "reference/element.hpp"
#include "support/named_input.hpp"

namespace fusecalc {
namespace {

using testing::graph_of;
using testing::input_called;

void check_range(const OpGraph& graph, const std::vector<GraphInput>& inputs, std::string_view name,
                 double low, double high) {
  CAPTURE(name);
  const RandomFill& fill = input_called(graph, inputs, name).fill;
  CHECK(fill.low == low);
  CHECK(fill.high == high);
}

TEST_CASE("only inputs that must be positive are drawn positive") {
  const OpGraph graph = graph_of(R"({"format": "fusecalc.ops/1", "dims": {"N": 1000},
    "tensors": {"p": {"shape": ["N"]}, "m": {"shape": ["N"]}, "v": {"shape": ["N"]}},
    "ops": [{"op": "sqrt", "inputs": ["v"], "output": "r"},
            {"op": "add", "inputs": ["r", 1e-8], "output": "d"},
            {"op": "div", "inputs": ["m", "d"], "output": "u"},
            {"op": "sub", "inputs": ["p", "u"], "output": "q"}]})");
  const auto inputs = random_inputs(graph, 0);
  check_range(graph, inputs, "p", -1, 1);
  check_range(graph, inputs, "m", -1, 1);
  check_range(graph, inputs, "v", 0.25, 1);
}

TEST_CASE("groups of rows end up to a quarter of a group from even places, the last behind all") {
  const OpGraph graph = graph_of(R"({"format": "fusecalc.ops/1", "dtype": "bf16",
    "tensors": {"x": {"shape": [1000, 8]}, "w": {"shape": [10, 8, 16]},
                "all": {"shape": [11], "dtype": "i32"}},
    "ops": [{"op": "slice_view", "inputs": ["all"], "output": "ends", "axis": 0, "start": 1, "end": 11},
            {"op": "grouped_matmul", "inputs": ["x", "w", "ends"], "output": "y"}]})");
  const InputData data = input_called(graph, random_inputs(graph, 5), "all");
  REQUIRE(data.data.size() == 44);
  double before = 0;
  for (std::uint64_t i = 0; i < 11; ++i) {
    const double end = decode(DType::kI32, data.data, i);
    CHECK(end >= before);
    CHECK(std::abs(end - 1000.0 * static_cast<double>(i + 1) / 11) <= 24);
    before = end;
  }
  CHECK(before == 1000);
}

TEST_CASE("two inputs may have to be positive, each for a reason of its own") {
  const OpGraph graph = graph_of(R"({"format": "fusecalc.ops/1", "dims": {"N": 1000},
    "tensors": {"a": {"shape": ["N"]}, "b": {"shape": ["N"]}, "c": {"shape": ["N"]}},
    "ops": [{"op": "log", "inputs": ["a"], "output": "x"},
            {"op": "rsqrt", "inputs": ["b"], "output": "y"},
            {"op": "fma", "inputs": ["x", "y", "c"], "output": "z"}]})");
  const auto inputs = random_inputs(graph, 0);
  check_range(graph, inputs, "a", 0.25, 1);
  check_range(graph, inputs, "b", 0.25, 1);
  check_range(graph, inputs, "c", -1, 1);
}

TEST_CASE("indices stay among their rows, through views and casts") {
  const OpGraph graph = graph_of(R"({"format": "fusecalc.ops/1",
    "tensors": {"t": {"shape": [37, 8]}, "s": {"shape": [12, 5]}, "e": {"shape": [50, 4]},
                "i": {"shape": [6], "dtype": "i32"}, "j": {"shape": [2, 4], "dtype": "i64"},
                "small": {"shape": [9], "dtype": "u8"}, "large": {"shape": [300, 2]},
                "logits": {"shape": [12, 21]}, "target": {"shape": [12], "dtype": "i64"}},
    "ops": [{"op": "view", "inputs": ["i"], "output": "iv", "shape": [3, 2]},
            {"op": "cast", "inputs": ["iv"], "output": "ic", "to": "i64"},
            {"op": "gather", "inputs": ["t", "ic"], "output": "g", "axes": [0]},
            {"op": "gather", "inputs": ["s", "j"], "output": "h", "axes": [1]},
            {"op": "embedding", "inputs": ["j", "e"], "output": "f"},
            {"op": "embedding", "inputs": ["large", "small"], "output": "k"},
            {"op": "cross_entropy", "inputs": ["logits", "target"], "output": "l"}]})");
  const auto inputs = random_inputs(graph, 0);
  check_range(graph, inputs, "i", 0, 37);
  check_range(graph, inputs, "j", 0, 5);  // the fewer rows of its two uses
  check_range(graph, inputs, "small", 0, 256);
  check_range(graph, inputs, "target", 0, 21);
}

TEST_CASE("indices that indices choose stay among the rows that they name") {
  const OpGraph graph = graph_of(R"({"format": "fusecalc.ops/1",
    "tensors": {"kinds": {"shape": [1, 512], "dtype": "i64"},
                "at": {"shape": [1, 100], "dtype": "i64"}, "table": {"shape": [2, 64]}},
    "ops": [{"op": "gather_elements", "inputs": ["kinds", "at"], "output": "k", "axes": [1]},
            {"op": "embedding", "inputs": ["table", "k"], "output": "y"}]})");
  const auto inputs = random_inputs(graph, 0);
  check_range(graph, inputs, "kinds", 0, 2);
  check_range(graph, inputs, "at", 0, 512);
}

// Of what an index is computed from, in a table of 1000 rows.
std::pair<double, double> index_range(const std::string& ops, std::string_view name) {
  const OpGraph graph = graph_of(R"({"format": "fusecalc.ops/1", "dtype": "i64",
    "tensors": {"t": {"shape": [1000, 8], "dtype": "f32"}, "a": {"shape": [20]},
                "b": {"shape": [20]}, "f": {"shape": [20], "dtype": "f32"},
                "m": {"shape": [20], "dtype": "bool"}},
    "ops": [)" + ops + R"({"op": "gather", "inputs": ["t", "i"], "output": "y"}]})");
  const InputData data = input_called(graph, random_inputs(graph, 0), name);
  return {data.fill.low, data.fill.high};
}

TEST_CASE("what an index is computed from keeps it among the rows") {
  using Range = std::pair<double, double>;
  const auto one = [](const std::string& op) {
    return index_range("{" + op + R"(, "output": "i"}, )", "a");
  };
  CHECK(one(R"("op": "add", "inputs": ["a", 10])") == Range(-10, 990));
  CHECK(one(R"("op": "sub", "inputs": ["a", 10])") == Range(10, 1010));
  CHECK(one(R"("op": "sub", "inputs": [999, "a"])") == Range(0, 1000));
  CHECK(one(R"("op": "neg", "inputs": ["a"])") == Range(-999, 1));
  CHECK(one(R"("op": "mul", "inputs": [7, "a"])") == Range(0, 143));
  CHECK(one(R"("op": "floor_divide", "inputs": ["a", 4])") == Range(0, 4000));
  CHECK(one(R"("op": "bitwise_right_shift", "inputs": ["a", 2])") == Range(0, 4000));
  CHECK(one(R"("op": "bitwise_left_shift", "inputs": ["a", 3])") == Range(0, 125));
  CHECK(one(R"("op": "cumsum", "inputs": ["a"])") == Range(0, 50));
  CHECK(one(R"("op": "maximum", "inputs": ["a", 0])") == Range(0, 1000));
  CHECK(one(R"("op": "where", "inputs": ["m", "a", "a"])") == Range(0, 1000));
  // What is kept among them anyway names all of them.
  CHECK(one(R"("op": "remainder", "inputs": ["a", 1000])") == Range(0, 1000));
  CHECK(one(R"("op": "clamp", "inputs": ["a"], "min": 0, "max": 999)") == Range(0, 1000));
}

TEST_CASE("several terms of an index share its rows") {
  using Range = std::pair<double, double>;
  // A row and a column.
  const std::string both = R"({"op": "fma", "inputs": ["a", 40, "b"], "output": "i"}, )";
  CHECK(index_range(both, "a") == Range(0, 25));
  CHECK(index_range(both, "b") == Range(0, 40));
  // Neither is larger.
  const std::string alike = R"({"op": "add", "inputs": ["a", "b"], "output": "i"}, )";
  CHECK(index_range(alike, "a") == Range(0, 500));
  CHECK(index_range(alike, "b") == Range(0, 500));
  // What is known takes its part first.
  const std::string known = R"({"op": "iota", "inputs": [], "output": "n", "shape": [20],
      "first": 0, "delta": 40, "to": "i64"}, {"op": "add", "inputs": ["n", "a"], "output": "i"}, )";
  CHECK(index_range(known, "a") == Range(0, 240));
  // From floats.
  const std::string scaled = R"({"op": "mul", "inputs": ["f", 600], "output": "g"},
      {"op": "floor", "inputs": ["g"], "output": "h"},
      {"op": "cast", "inputs": ["h"], "output": "i", "to": "i64"}, )";
  const auto [low, high] = index_range(scaled, "f");
  CHECK(low == 0);
  CHECK(600 * high < 1000);
  CHECK(600 * high > 999);
}

TEST_CASE("fewer scattered rows than the table has are all different") {
  for (const unsigned rows : {8U, 12U, 64U, 1000U}) {
    const OpGraph graph = graph_of(R"({"format": "fusecalc.ops/1",
      "tensors": {"x": {"shape": ["R", 2]}, "i": {"shape": [7], "dtype": "i32"},
                  "r": {"shape": [7, 2]}},
      "dims": {"R": 8},
      "ops": [{"op": "scatter_update", "inputs": ["x", "i", "r"], "output": "y"}]})",
                                   {{"R", rows}});
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
      const auto inputs = random_inputs(graph, seed);
      const InputData& indices = input_called(graph, inputs, "i");
      CHECK(indices.data.size() == 28);
      std::set<double> seen;
      for (std::uint64_t k = 0; k < 7; ++k) {
        CHECK(indices.value(k) < rows);
        seen.insert(indices.value(k));
      }
      CHECK(seen.size() == 7);
    }
  }
}

TEST_CASE(
    "as many scattered rows as the table has repeat, with equal updates, and leave rows out") {
  const auto graph = [](unsigned count, std::string_view updates) {
    return graph_of(R"({"format": "fusecalc.ops/1", "dims": {"N": 1},
      "tensors": {"x": {"shape": [800, 4]}, "i": {"shape": ["N"], "dtype": "i32"},
                  "r": {"shape": ["N", 4]}, "s": {"shape": ["N", 4]}, "w": {"shape": [4]}},
      "ops": [{"op": "relu", "inputs": ["x"], "output": "h"}, )" +
                        std::string(updates) + R"(,
              {"op": "scatter_update", "inputs": ["h", "i", "u"], "output": "y"}]})",
                    {{"N", count}});
  };
  const char* const by_element = R"({"op": "mul", "inputs": ["r", "s"], "output": "m"},
                                    {"op": "add", "inputs": ["m", 1], "output": "u"})";
  for (const unsigned count : {800U, 2000U}) {
    CAPTURE(count);
    const OpGraph made = graph(count, by_element);
    const auto inputs = random_inputs(made, 1);
    const InputData& indices = input_called(made, inputs, "i");
    std::set<double> named;
    for (std::uint64_t k = 0; k < count; ++k) {
      CHECK(indices.value(k) < 800);
      named.insert(indices.value(k));
      if (k < 797) continue;
      CHECK(indices.value(k) == indices.value(k - 797));
      for (const char* const name : {"r", "s"}) {
        const InputData& update = input_called(made, inputs, name);
        CHECK(update.value(4 * k) == update.value(4 * (k - 797)));
        CHECK(update.value(4 * k + 3) == update.value(4 * (k - 797) + 3));
      }
    }
    CHECK(named.size() == 797);  // 3 rows of 800 are left alone
  }
  // Updates that do not repeat with their sources: every row is named once.
  for (const char* const other : {R"({"op": "add", "inputs": ["r", "w"], "output": "u"})",
                                  R"({"op": "softmax", "inputs": ["r"], "output": "u"})",
                                  R"({"op": "dropout", "inputs": ["r"], "output": "u"})"}) {
    CAPTURE(other);
    const OpGraph made = graph(800, other);
    const auto inputs = random_inputs(made, 1);
    std::set<double> named;
    for (std::uint64_t k = 0; k < 800; ++k) named.insert(input_called(made, inputs, "i").value(k));
    CHECK(named.size() == 800);
    CHECK(input_called(made, inputs, "r").fill.period == 0);
  }
}

TEST_CASE("rows along any axis repeat with equal updates") {
  struct Scatter {
    const char* axes;
    std::uint64_t outer;  // elements before the axis, and within one row
    std::uint64_t inner;
    const char* updates;
  };
  // A table of [2, 300, 5] or [2, 3, 300]: 299 rows of 300 are named.
  for (const Scatter& scatter : {Scatter{R"("axes": [1])", 2, 5, "[2, 400, 5]"},
                                 Scatter{R"("axes": [-2])", 2, 5, "[2, 400, 5]"},
                                 Scatter{R"("axes": [-1])", 6, 1, "[2, 3, 400]"}}) {
    CAPTURE(scatter.axes);
    const std::string table = scatter.inner == 1 ? "[2, 3, 300]" : "[2, 300, 5]";
    const OpGraph graph = graph_of(
        R"({"format": "fusecalc.ops/1", "tensors": {"x": {"shape": )" + table +
        R"(}, "i": {"shape": [400], "dtype": "i64"}, "r": {"shape": )" + scatter.updates +
        R"(}}, "ops": [{"op": "scatter_update", "inputs": ["x", "i", "r"], "output": "y", )" +
        scatter.axes + "}]}");
    const auto inputs = random_inputs(graph, 1);
    const InputData& indices = input_called(graph, inputs, "i");
    const InputData& updates = input_called(graph, inputs, "r");
    std::set<double> named;
    std::set<double> values;
    for (std::uint64_t k = 0; k < 400; ++k) {
      named.insert(indices.value(k));
      if (k < 299) continue;
      CHECK(indices.value(k) == indices.value(k - 299));
      for (std::uint64_t o = 0; o < scatter.outer; ++o) {
        const std::uint64_t row = (o * 400 + k) * scatter.inner;
        CHECK(updates.value(row) == updates.value(row - 299 * scatter.inner));
        values.insert(updates.value(row));
      }
    }
    CHECK(named.size() == 299);
    CHECK(*named.rbegin() < 300);
    CHECK(values.size() > 100);  // different rows have different updates
  }
}

TEST_CASE("the range of weights shrinks with the number of terms") {
  const OpGraph graph = graph_of(R"({"format": "fusecalc.ops/1", "dtype": "bf16",
    "tensors": {"x": {"shape": [8, 4096]}, "w": {"shape": [16, 4096]},
                "q": {"shape": [16, 4096], "dtype": "i8"}},
    "ops": [{"op": "linear", "inputs": ["x", "w"], "output": "y"},
            {"op": "linear", "inputs": ["x", "q"], "output": "z"}]})");
  const auto inputs = random_inputs(graph, 0);
  check_range(graph, inputs, "x", -1, 1);
  // sqrt(3 / 4096) = 0.027: the power of two below it.
  check_range(graph, inputs, "w", -0.015625, 0.015625);
  check_range(graph, inputs, "q", -8, 8);
}

TEST_CASE("a part of a graph has inputs of its own") {
  const OpGraph graph = graph_of(R"({"format": "fusecalc.ops/1",
    "tensors": {"x": {"shape": [8, 4]}, "t": {"shape": [9, 4]}},
    "ops": [{"op": "exp", "inputs": ["x"], "output": "e"},
            {"op": "argmax", "inputs": ["e"], "axes": [1], "output": "i"},
            {"op": "permute_view", "inputs": ["e"], "output": "v"},
            {"op": "neg", "inputs": ["v"], "output": "n"},
            {"op": "gather", "inputs": ["t", "i"], "output": "g"},
            {"op": "sqrt", "inputs": ["g"], "output": "r"},
            {"op": "copy", "inputs": ["g"], "output": "g2"}]})");
  const auto names = [&](const std::vector<TensorId>& ids) {
    std::vector<std::string> found;
    for (const TensorId id : ids) found.push_back(graph.tensor(id).name);
    std::ranges::sort(found);
    return found;
  };
  // neg and gather with sqrt: they read what exp and argmax write.
  const GraphPart part = part_of(graph, std::array<OpId, 3>{2, 3, 4});
  CHECK(names(part.given) == std::vector<std::string>{"e", "i", "t"});
  CHECK(names(part.results) == std::vector<std::string>{"g", "n", "r"});
  const auto inputs = random_inputs(graph, part, 0);
  check_range(graph, inputs, "i", 0, 9);
  check_range(graph, inputs, "e", -1, 1);
  check_range(graph, inputs, "t", 0.25, 1);
  CHECK(names(whole_of(graph).given) == std::vector<std::string>{"t", "x"});
  CHECK(names(whole_of(graph).results) == std::vector<std::string>{"g2", "n", "r"});
}

TEST_CASE("every input has a seed of its own, which follows from the user's") {
  const OpGraph graph = graph_of(R"({"format": "fusecalc.ops/1",
    "tensors": {"a": {"shape": [8]}, "b": {"shape": [8]}},
    "ops": [{"op": "view", "inputs": ["a"], "output": "v", "shape": [2, 4]},
            {"op": "view", "inputs": ["b"], "output": "w", "shape": [2, 4]},
            {"op": "add", "inputs": ["v", "w"], "output": "c"}]})");
  const auto inputs = random_inputs(graph, 3);
  CHECK(inputs.size() == 2);  // views hold nothing of their own
  std::set<std::uint64_t> seeds;
  for (const std::uint64_t seed : {0U, 1U, 2U, 3U}) {
    for (const GraphInput& input : random_inputs(graph, seed)) seeds.insert(input.data.fill.seed);
  }
  CHECK(seeds.size() == 8);
  CHECK(random_inputs(graph, 3)[1].data.fill.seed == inputs[1].data.fill.seed);
}

}  // namespace
}  // namespace fusecalc
