// Elements that several views or slices take, with numbers worked out by hand.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "graph/graph_text.hpp"
#include "traffic/graph_bytes.hpp"

using namespace fusecalc;
using namespace fusecalc::testing;

TEST_CASE("elements that several views or slices take in a kernel count once") {
  // Of 100: 0 to 5 and 4 to 9.
  const auto graph = [](std::string_view kind) {
    return graph_of(fmt::format(
        R"({{"tensors": {{"x": {{"shape": [100]}}}},
        "ops": [{{"op": "{0}", "inputs": ["x"], "output": "a", "start": 0, "end": 6}},
                {{"op": "{0}", "inputs": ["x"], "output": "b", "start": 4, "end": 10}},
                {{"op": "add", "inputs": ["a", "b"], "output": "y"}}]}})",
        kind));
  };
  CHECK(kernel_bytes(graph("slice_view")) == Bytes{40, 24});
  CHECK(unfused_bytes(graph("slice_view")) == Bytes{40, 24});
  CHECK(kernel_bytes(graph("slice")) == Bytes{40, 24});
  CHECK(unfused_bytes(graph("slice")) == Bytes{24 + 24 + 48, 24 + 24 + 24});
}

TEST_CASE("a stencil leaves the corners alone, whatever makes its input") {
  const OpGraph graph = graph_of(R"({"tensors": {"x": {"shape": [10, 20]}},
    "ops": [{"op": "relu", "inputs": ["x"], "output": "h"},
            {"op": "slice_view", "inputs": ["h"], "output": "rows", "starts": [1], "ends": [9]},
            {"op": "slice_view", "inputs": ["h"], "output": "columns", "axes": [1], "starts": [1],
             "ends": [19]},
            {"op": "slice_view", "inputs": ["rows"], "output": "l", "axis": 1, "start": 0, "end": 18},
            {"op": "slice_view", "inputs": ["rows"], "output": "r", "axis": 1, "start": 2, "end": 20},
            {"op": "slice_view", "inputs": ["columns"], "output": "u", "start": 0, "end": 8},
            {"op": "slice_view", "inputs": ["columns"], "output": "d", "start": 2, "end": 10},
            {"name": "h1", "op": "add", "inputs": ["l", "r"], "output": "p"},
            {"name": "h2", "op": "add", "inputs": ["u", "d"], "output": "q"},
            {"name": "h3", "op": "add", "inputs": ["p", "q"], "output": "y"}]})");
  CHECK(bytes_read(graph, {"h1", "h2", "h3"}, "h") == 4 * (200 - 4));
  CHECK(limit_bytes(graph) == Bytes{4 * (200 - 4), 4 * 8 * 18});
}

TEST_CASE("a slice of what a view repeats takes each element once") {
  const OpGraph graph = graph_of(R"({"tensors": {"x": {"shape": [100]}},
    "ops": [{"op": "expand_view", "inputs": ["x"], "output": "e", "shape": [3, 100]},
            {"op": "slice", "inputs": ["e"], "output": "y", "axis": 1, "start": 0, "end": 10}]})");
  CHECK(unfused_bytes(graph) == Bytes{40, 120});
}

TEST_CASE("what equal slices and equal indices take of a tensor is read once") {
  const auto bytes_of_both = [](const std::string& ops) {
    return kernel_bytes(graph_of(
        R"({"tensors": {"x": {"shape": [64, 64]}, "z": {"shape": [64, 64]},
                        "i": {"shape": [3], "dtype": "i64"}, "k": {"shape": [3], "dtype": "i64"}},
            "ops": [{"op": "relu", "inputs": ["x"], "output": "a"}, )" +
        ops + R"(, {"op": "add", "inputs": ["c", "d"], "output": "y"}]})"));
  };
  constexpr std::uint64_t kRow = 64 * 4;
  const std::string sum = R"({"op": "add", "inputs": ["x", "z"], "output": "b"}, )";
  const auto slice = [](const std::string& from, const std::string& to, const std::string& more) {
    return R"({"op": "slice", "inputs": [")" + from + R"("], "output": ")" + to + R"(", )" + more +
           "}";
  };
  const std::string rows = R"("axis": 0, "start": 8, "end": 10)";
  const std::string others = R"("axis": 0, "start": 9, "end": 11)";
  CHECK(bytes_of_both(sum + slice("a", "c", rows) + ", " + slice("b", "d", rows)) ==
        Bytes{4 * kRow, 2 * kRow});
  CHECK(bytes_of_both(slice("a", "c", rows) + ", " + slice("x", "d", rows)) ==
        Bytes{2 * kRow, 2 * kRow});
  // Three rows of x, two of z.
  CHECK(bytes_of_both(sum + slice("a", "c", rows) + ", " + slice("b", "d", others)) ==
        Bytes{5 * kRow, 2 * kRow});
  const auto gather = [](const std::string& from, const std::string& indices,
                         const std::string& to) {
    return R"({"op": "gather", "inputs": [")" + from + R"(", ")" + indices +
           R"("], "axis": 0, "output": ")" + to + R"("})";
  };
  constexpr std::uint64_t kIndices = 3 * 8;
  CHECK(bytes_of_both(sum + gather("a", "i", "c") + ", " + gather("b", "i", "d")) ==
        Bytes{6 * kRow + kIndices, 3 * kRow});
  CHECK(bytes_of_both(gather("a", "i", "c") + ", " + gather("x", "i", "d")) ==
        Bytes{3 * kRow + kIndices, 3 * kRow});
  CHECK(bytes_of_both(gather("a", "i", "c") +
                      R"(, {"op": "embedding", "inputs": ["x", "i"], "output": "d"})") ==
        Bytes{3 * kRow + kIndices, 3 * kRow});
  CHECK(bytes_of_both(sum + gather("a", "i", "c") + ", " + gather("b", "k", "d")) ==
        Bytes{9 * kRow + 2 * kIndices, 3 * kRow});
}
