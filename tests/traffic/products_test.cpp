// Products and attention, with numbers worked out by hand.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdint>

#include "graph/graph_text.hpp"
#include "traffic/graph_bytes.hpp"

using namespace fusecalc;
using namespace fusecalc::testing;

TEST_CASE("contractions read each operand once") {
  const OpGraph graph = graph_of(R"({"dtype": "f16", "tensors": {
      "x": {"shape": [4, 30, 20]}, "w": {"shape": [50, 20]}, "b": {"shape": [50]},
      "k": {"shape": [1, 20, 30]}, "image": {"shape": [2, 8, 10, 10]},
      "filter": {"shape": [16, 8, 3, 3]}},
    "ops": [{"name": "lin", "op": "linear", "inputs": ["x", "w", "b"], "output": "y"},
            {"name": "mm", "op": "matmul", "inputs": ["x", "k"], "output": "z"},
            {"name": "conv", "op": "conv2d", "inputs": ["image", "filter"], "output": "c"}]})");
  CHECK(kernel_bytes(graph, {"lin"}) == Bytes{2 * (2400 + 1000 + 50), 2 * 4 * 30 * 50});
  CHECK(kernel_bytes(graph, {"mm"}) == Bytes{2 * (2400 + 600), 2 * 4 * 30 * 30});
  CHECK(kernel_bytes(graph, {"conv"}) == Bytes{2 * (1600 + 1152), 2 * 2 * 16 * 8 * 8});
}

TEST_CASE("a grouped product reads each group's matrix once, at most one for each row") {
  const auto graph = [](std::uint64_t rows) {
    return graph_of(R"({"dtype": "bf16", "dims": {"R": 1},
      "tensors": {"a": {"shape": ["R", 20]}, "b": {"shape": [8, 30, 20]},
                  "o": {"shape": [8], "dtype": "i32"}},
      "ops": [{"op": "grouped_matmul", "inputs": ["a", "b", "o"], "output": "y",
               "transpose_b": true}]})",
                    {{"R", rows}});
  };
  CHECK(kernel_bytes(graph(100)) == Bytes{2 * 100 * 20 + 2 * 8 * 600 + 8 * 4, 2 * 100 * 30});
  CHECK(kernel_bytes(graph(8)) == Bytes{2 * 8 * 20 + 2 * 8 * 600 + 8 * 4, 2 * 8 * 30});
  CHECK(kernel_bytes(graph(3)) == Bytes{2 * 3 * 20 + 2 * 3 * 600 + 8 * 4, 2 * 3 * 30});
  CHECK(kernel_bytes(graph(0)) == Bytes{8 * 4, 0});
}

TEST_CASE("a scaled product reads its scales beside its operands") {
  const OpGraph graph = graph_of(R"({"dtype": "fp8_e4m3", "tensors": {
      "a": {"shape": [6, 256]}, "b": {"shape": [4, 256]}, "s": {"shape": [6, 2], "dtype": "f32"},
      "t": {"shape": [], "dtype": "f32"}, "bias": {"shape": [4], "dtype": "bf16"}},
    "ops": [{"op": "scaled_matmul", "inputs": ["a", "b", "s", "t", "bias"], "output": "y",
             "transpose_b": true}]})");
  CHECK(kernel_bytes(graph) == Bytes{6 * 256 + 4 * 256 + 12 * 4 + 4 + 4 * 2, 6 * 4 * 2});
}

TEST_CASE("attention reads q, k and v, and shares fewer key heads") {
  const OpGraph graph = graph_of(R"({"dtype": "bf16", "tensors": {"q": {"shape": [2, 8, 100, 64]},
      "k": {"shape": [2, 2, 300, 64]}, "v": {"shape": [2, 2, 300, 32]}},
    "ops": [{"op": "attention", "inputs": ["q", "k", "v"], "output": "y"}]})");
  const std::uint64_t q = 2 * 8 * 100 * 64 * 2;
  const std::uint64_t k = 2 * 2 * 300 * 64 * 2;
  CHECK(kernel_bytes(graph) == Bytes{q + k + k / 2, q / 2});
}

TEST_CASE("of a window, attention reads the keys that a query sees") {
  const auto bytes = [](int window) {
    return kernel_bytes(graph_of(fmt::format(
        R"({{"dtype": "bf16", "tensors": {{"q": {{"shape": [2, 8, 3, 64]}},
            "k": {{"shape": [2, 2, 300, 64]}}, "v": {{"shape": [2, 2, 300, 64]}},
            "m": {{"shape": [3, 300]}}}},
          "ops": [{{"op": "attention", "inputs": ["q", "k", "v", "m"], "output": "y",
                    "causal": true, "window": {}}}]}})",
        window)));
  };
  constexpr std::uint64_t kQuery = 2 * 8 * 3 * 64 * 2;
  constexpr std::uint64_t kKey = 2 * 2 * 64 * 2;
  // The first of three queries sees keys 288..297, the last 290..299.
  CHECK(bytes(10) == Bytes{kQuery + 2 * 12 * kKey + 3 * 12 * 2, kQuery});
  CHECK(bytes(298) == Bytes{kQuery + 2 * 300 * kKey + 3 * 300 * 2, kQuery});
  CHECK(bytes(1000) == bytes(298));
}
