// Shapes and types of ops whose results depend on where their elements are, of scans and of sorts.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <string_view>

#include "device/device.hpp"
#include "graph/graph_text.hpp"
#include "plan/legality.hpp"
#include "traffic/counter.hpp"

using namespace fusecalc;
using namespace fusecalc::testing;

namespace {

constexpr std::string_view kTensors =
    R"("x": {"shape": [4, 6], "dtype": "f16"}, "n": {"shape": [3, 6], "dtype": "i32"},
       "u": {"shape": [3, 6], "dtype": "f16"}, "i": {"shape": [2, 5], "dtype": "i8"},
       "half": {"shape": [4, 3], "dtype": "f16"}, "pair": {"shape": [2], "dtype": "f32"})";

std::string list_of(std::string_view op, std::string_view inputs, std::string_view rest,
                    std::string_view outputs) {
  return fmt::format(
      R"({{"tensors": {{{}}}, "ops": [{{"op": "{}", "inputs": [{}], "outputs": [{}]{}{}}}]}})",
      kTensors, op, inputs, outputs, rest.empty() ? "" : ", ", rest);
}

std::string made(std::string_view op, std::string_view inputs, std::string_view rest = "",
                 std::string_view outputs = R"("y")") {
  const OpGraph graph = graph_of(list_of(op, inputs, rest, outputs));
  std::string types;
  for (const TensorId id : graph.ops[0].outputs) {
    const TensorType& type = graph.tensor(id).type;
    types += fmt::format("{}{} {}", types.empty() ? "" : ", ", name_of(type.dtype),
                         to_string(type.shape));
  }
  return types;
}

std::string fault(std::string_view op, std::string_view inputs, std::string_view rest = "") {
  return fault_of(list_of(op, inputs, rest, R"("y")"));
}

}  // namespace

TEST_CASE("padding adds to every axis, and cuts where it is negative") {
  CHECK(made("pad", R"("x")", R"("before": [1, 2], "after": [0, 3])") == "f16 [5, 11]");
  CHECK(made("pad", R"("x")", R"("before": [-1, 0])") == "f16 [3, 6]");
  CHECK(made("pad", R"("x")", R"("before": [-4, 2], "after": [1, -6])") == "f16 [1, 2]");
  CHECK(fault("pad", R"("x")") == "/ops/0: missing attribute \"before\" or \"after\"");
  CHECK(fault("pad", R"("x")", R"("before": [1])") ==
        "/ops/0/before: has 1 entry, expected one for each of the 2 axes of \"x\" of shape [4, 6]");
  CHECK(fault("pad", R"("x")", R"("before": [-2, 0], "after": [-3, 0])") ==
        "/ops/0/after: cuts 3 from axis 0 of \"x\" of shape [4, 6], which has 2 left");
}

TEST_CASE("padding with elements of its own adds no more than an axis has") {
  const auto with = [](std::string_view border, std::string_view counts) {
    return fmt::format(R"("border": "{}", {})", border, counts);
  };
  CHECK(made("pad", R"("x")", with("reflect", R"("before": [3, 0], "after": [0, 5])")) ==
        "f16 [7, 11]");
  CHECK(made("pad", R"("x")", with("circular", R"("before": [4, 6])")) == "f16 [8, 12]");
  CHECK(made("pad", R"("x")", with("replicate", R"("after": [40, 0])")) == "f16 [44, 6]");
  CHECK(fault("pad", R"("x")", with("reflect", R"("before": [4, 0])")) ==
        "/ops/0/before: adds 4 to axis 0 of \"x\" of shape [4, 6]; with this border it may add 0 "
        "to 3");
  CHECK(fault("pad", R"("x")", with("circular", R"("after": [0, -1])")) ==
        "/ops/0/after: adds -1 to axis 1 of \"x\" of shape [4, 6]; with this border it may add 0 "
        "to 6");
  CHECK(fault("pad", R"("x")", with("mirror", R"("after": [0, 1])"))
            .starts_with("/ops/0/border: must be "));
}

TEST_CASE("rolled, flipped and repeated tensors") {
  CHECK(made("roll", R"("x")", R"("axes": [-1, 0], "shifts": [100, -7])") == "f16 [4, 6]");
  CHECK(fault("roll", R"("x")", R"("axes": [0], "shifts": [1, 2])") ==
        "/ops/0/shifts: has 2 entries, expected 1");
  CHECK(fault("roll", R"("x")", R"("shifts": [1])") == "/ops/0: missing attribute \"axes\"");
  CHECK(made("flip", R"("x")") == "f16 [4, 6]");
  CHECK(fault("flip", R"("x")", R"("axes": [2])") ==
        "/ops/0/axes: axis 2 is out of range for a shape with 2 axes");
  CHECK(made("repeat", R"("x")", R"("repeats": [2, 1, 3])") == "f16 [2, 4, 18]");
  CHECK(fault("repeat", R"("x")", R"("repeats": [2])") ==
        "/ops/0/repeats: has 1 counts for the 2 axes of \"x\" of shape [4, 6]");
  CHECK(fault("repeat", R"("x")", R"("repeats": [2, -1])") ==
        "/ops/0/repeats: must not contain negative counts");
}

TEST_CASE("triangles, classes, and tensors that only their shape makes") {
  CHECK(made("tril", R"("x")", R"("diagonal": -2)") == "f16 [4, 6]");
  CHECK(made("one_hot", R"("n")", R"("classes": 9)") == "i64 [3, 6, 9]");
  CHECK(made("one_hot", R"("n")", R"("classes": 9, "to": "bool")") == "bool [3, 6, 9]");
  CHECK(fault("one_hot", R"("n")") == "/ops/0: must be at least 1");
  CHECK(fault("one_hot", R"("x")", R"("classes": 9)") ==
        "/ops/0/inputs/0: indices must be integers, but \"x\" of shape [4, 6] is f16");
  CHECK(made("iota", "", R"("shape": [2, 3])") == "f32 [2, 3]");
  CHECK(made("iota", "", R"("shape": [3], "delta": 2, "to": "i16")") == "i16 [3]");
  CHECK(made("full", "", R"("shape": [], "value": 0.5)") == "f32 []");
  CHECK(fault("full", "", R"("shape": [-1])") == "/ops/0/shape: must not contain negative extents");
}

TEST_CASE("elements that indices name: as many axes, none longer but the one that is named") {
  CHECK(made("gather_elements", R"("x", "n")") == "f16 [3, 6]");
  CHECK(made("gather_elements", R"("u", "i")", R"("axes": [1])") == "f16 [2, 5]");
  CHECK(fault("gather_elements", R"("i", "n")") ==
        "/ops/0/inputs/1: \"n\" of shape [3, 6] must have the axes of \"i\" of shape [2, 5], none "
        "longer but axis 0");
  CHECK(made("scatter_elements", R"("x", "n", "u")", R"("combine": "add")") == "f16 [4, 6]");
  CHECK(fault("scatter_elements", R"("x", "n", "x")") ==
        "/ops/0/inputs/2: \"x\" of shape [4, 6] must have the shape [3, 6] of the indices");
  CHECK(fault("scatter_elements", R"("x", "n", "u")", R"("combine": "adds")") ==
        "/ops/0/combine: must be replace, add, mul, max or min, not \"adds\" (did you mean "
        "\"add\"?)");
  CHECK(graph_of(list_of("scatter_elements", R"("x", "n", "u")", R"("combine": "mul")", R"("y")"))
            .ops[0]
            .flops == 18);
}

TEST_CASE("scans keep floats, and count whole numbers in i64") {
  CHECK(made("cumsum", R"("x")", R"("axes": [0])") == "f16 [4, 6]");
  CHECK(made("cumprod", R"("i")") == "i64 [2, 5]");
  CHECK(fault("cumsum", R"("x")", R"("axes": [0, 1])") == "/ops/0/axes: must be a single axis");
}

TEST_CASE("sorts give values, and on demand the places that they come from") {
  CHECK(made("sort", R"("x")", R"("descending": true)") == "f16 [4, 6]");
  CHECK(made("topk", R"("x")", R"("axes": [0], "k": 3)", R"("y", "z")") ==
        "f16 [3, 6], i64 [3, 6]");
  CHECK(fault("topk", R"("x")") == "/ops/0: missing attribute \"k\"");
  CHECK(fault("topk", R"("x")", R"("k": 7)") ==
        "/ops/0/k: 7 is not in [0, 6], the extent of axis 1 of \"x\" of shape [4, 6]");
}

TEST_CASE("reductions of every kind: types, second outputs, corrections") {
  CHECK(made("prod", R"("i")", R"("axes": [1])") == "i64 [2]");
  CHECK(made("any", R"("x")") == "bool []");
  CHECK(made("all", R"("x")", R"("axes": [0], "keepdim": true)") == "bool [1, 6]");
  CHECK(made("std", R"("i")", R"("correction": 1)") == "f32 []");
  CHECK(made("argmin", R"("x")", R"("axes": [-1])") == "i64 [4]");
  CHECK(made("max_with_index", R"("x")", R"("axes": [1])", R"("y", "z")") == "f16 [4], i64 [4]");
  CHECK(fault("var", R"("x")", R"("correction": -1)") == "/ops/0/correction: must not be negative");
}

TEST_CASE("a scan runs with elementwise ops alone, a sort with none") {
  const OpGraph graph =
      graph_of(R"({"tensors": {"x": {"shape": [64, 1000]}, "w": {"shape": [1000]}},
    "ops": [{"name": "a", "op": "mul", "inputs": ["x", "w"], "output": "r"},
            {"name": "b", "op": "cumsum", "inputs": ["r"], "output": "c"},
            {"name": "c", "op": "sub", "inputs": ["c", "r"], "output": "e"},
            {"name": "d", "op": "topk", "inputs": ["e"], "outputs": ["v", "i"], "k": 4},
            {"name": "e", "op": "sum", "inputs": ["e"], "output": "s", "axes": [1]},
            {"name": "f", "op": "cumsum", "inputs": ["e"], "output": "t"},
            {"name": "g", "op": "permute_view", "inputs": ["c"], "output": "p", "perm": [1, 0]},
            {"name": "h", "op": "exp", "inputs": ["p"], "output": "q"},
            {"name": "i", "op": "relu", "inputs": ["w"], "output": "z"},
            {"name": "j", "op": "add", "inputs": ["c", "z"], "output": "k"}]})");
  PhaseFinder finder(graph);
  const auto obstacle = [&](const Kernel& kernel, bool launchable) {
    return check_kernel(finder, kernel, {.launchable = launchable, .on_chip_bytes = 232448})
        .obstacle;
  };
  for (const bool launchable : {true, false}) {
    CAPTURE(launchable);
    CHECK(obstacle({0, 1, 2}, launchable) == Obstacle::kNothing);
    CHECK(obstacle({2, 3}, launchable) == Obstacle::kOwnKernel);
    CHECK(obstacle({1, 2, 4}, launchable) == Obstacle::kBesideScan);
    CHECK(obstacle({1, 2, 5}, launchable) == Obstacle::kSecondScan);
    CHECK(obstacle({1, 6}, launchable) == Obstacle::kScanOrder);
    CHECK(obstacle({1, 7, 8}, launchable) == Obstacle::kSpaces);
  }
  // x and w are read, c and e written.
  TrafficCounter counter(graph, known_devices().front());
  CHECK(counter.count({0, 1, 2}).bytes.total() == 4 * (64000 + 1000 + 2 * 64000));
  CHECK(check_launch(finder, {1}, {.on_chip_bytes = 232448}).legal());
  CHECK(check_launch(finder, {3}, {.on_chip_bytes = 232448}).legal());
}

TEST_CASE("a combining scatter runs alone or with what makes its updates, not its table") {
  const OpGraph graph = graph_of(R"({"tensors": {"t": {"shape": [64, 8]}, "u": {"shape": [9, 8]},
                                                 "i": {"shape": [9, 8], "dtype": "i32"}},
    "ops": [{"op": "exp", "inputs": ["t"], "output": "x"},
            {"op": "exp", "inputs": ["u"], "output": "e"},
            {"op": "scatter_elements", "inputs": ["x", "i", "e"], "output": "y",
             "combine": "add"}]})");
  PhaseFinder finder(graph);
  CHECK(check_launch(finder, {2}, {.on_chip_bytes = 232448}).legal());
  CHECK(check_launch(finder, {1, 2}, {.on_chip_bytes = 232448}).legal());
  CHECK(check_launch(finder, {0, 2}, {.on_chip_bytes = 232448}).obstacle ==
        Obstacle::kBeforeScatter);
}

TEST_CASE("rotary embeddings turn pairs by angles that broadcast") {
  // n has 6 integers in each of its 3 rows, x 6 floats in each of 4.
  CHECK(made("rotary", R"("x", "x", "x")") == "f16 [4, 6]");
  CHECK(made("rotary", R"("n", "u", "u")") == "f32 [3, 6]");
  CHECK(made("rotary", R"("x", "half", "half")", R"("interleaved": true)") == "f16 [4, 6]");
  CHECK(made("rotary", R"("x", "pair", "pair")", R"("rotated": 2)") == "f16 [4, 6]");
  CHECK(made("rotary", R"("x", "pair", "pair")", R"("rotated": 4)") == "f16 [4, 6]");
  CHECK(
      fault("rotary", R"("x", "pair", "pair")") ==
      "/ops/0/inputs/1: \"pair\" of shape [2] must broadcast to \"x\" of shape [4, 6], with 6 or 3 "
      "elements along its last axis");
  CHECK(
      fault("rotary", R"("x", "u", "u")") ==
      "/ops/0/inputs/1: \"u\" of shape [3, 6] must broadcast to \"x\" of shape [4, 6], with 6 or 3 "
      "elements along its last axis");
  CHECK(fault("rotary", R"("x", "x", "half")") ==
        "/ops/0/inputs/2: \"half\" of shape [4, 3] must have the shape of \"x\" of shape [4, 6]");
  for (const int rotated : {0, 3, 8, -2}) {
    CHECK(
        fault("rotary", R"("x", "x", "x")", fmt::format(R"("rotated": {})", rotated)) ==
        fmt::format("/ops/0/rotated: {} elements of \"x\" of shape [4, 6] are no pairs of its last "
                    "axis",
                    rotated));
  }
  CHECK(fault("rotary", R"("i", "i", "i")") ==
        "/ops/0/inputs/0: 5 elements of \"i\" of shape [2, 5] are no pairs of its last axis");
}
