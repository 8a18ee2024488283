// Rows that are read once where they fit on chip, and twice where not, with numbers worked out by
// hand.

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "graph/graph_text.hpp"
#include "traffic/counter.hpp"
#include "traffic/graph_bytes.hpp"

using namespace fusecalc;
using namespace fusecalc::testing;

TEST_CASE("x / x.sum(-1) reads x once where a row fits on chip, twice where not") {
  // 227 KiB hold 58112 f32, and a cluster of 8 blocks so much together.
  const auto graph = [](std::uint64_t columns) {
    return graph_of(R"({"dims": {"D": 1}, "tensors": {"x": {"shape": [10, "D"]}},
      "ops": [{"op": "sum", "inputs": ["x"], "output": "s", "axis": -1, "keepdim": true},
              {"op": "div", "inputs": ["x", "s"], "output": "y"}]})",
                    {{"D", columns}});
  };
  const OpGraph fits = graph(464896);
  const std::uint64_t x = 10 * 464896 * 4;
  CHECK(unfused_bytes(fits) == Bytes{2 * x + 40, x + 40});
  CHECK(kernel_bytes(fits) == Bytes{x, x});
  const OpGraph long_rows = graph(464897);
  const std::uint64_t longer = 10 * 464897 * 4;
  CHECK(kernel_bytes(long_rows) == Bytes{2 * longer, longer});
  CHECK(limit_bytes(long_rows) == Bytes{longer, longer});
}

TEST_CASE("3x * x.sum() reads x twice: what is computed late holds what it reads until then") {
  // As x * x.sum() does: 4 Mi elements do not fit on chip.
  const OpGraph graph = graph_of(R"({"dtype": "f32", "tensors": {"x": {"shape": [4096, 1024]}},
    "ops": [{"op": "sum", "inputs": ["x"], "output": "s", "axes": [0, 1]},
            {"op": "mul", "inputs": ["x", 3], "output": "a"},
            {"op": "mul", "inputs": ["a", "s"], "output": "y"}]})");
  constexpr std::uint64_t kTensor = std::uint64_t{4} << 22U;
  CHECK(kernel_bytes(graph) == Bytes{2 * kTensor, kTensor});
}

TEST_CASE("without clusters a row fits on chip where one block holds it") {
  const OpGraph graph = graph_of(R"({"dims": {"D": 1}, "tensors": {"x": {"shape": [10, "D"]}},
      "ops": [{"op": "softmax", "inputs": ["x"], "output": "y"}]})",
                                 {{"D", 41728}});
  // 163 KiB hold 41728 f32.
  TrafficCounter ampere(graph, device_named("a100"));
  CHECK(ampere.bytes({0}) == Bytes{10 * 41728 * 4, 10 * 41728 * 4});
  const OpGraph longer = graph_of(R"({"tensors": {"x": {"shape": [10, 41729]}},
      "ops": [{"op": "softmax", "inputs": ["x"], "output": "y"}]})");
  TrafficCounter again(longer, device_named("a100"));
  CHECK(again.bytes({0}) == Bytes{2 * 10 * 41729 * 4, 10 * 41729 * 4});
}

TEST_CASE("a cluster holds no rows that lie in memory in parts") {
  // Sums over the first and the last axis: 2 parts of 40000 f32 each.
  const OpGraph graph = graph_of(R"({"tensors": {"x": {"shape": [2, 10, 40000]}},
      "ops": [{"op": "sum", "inputs": ["x"], "output": "s", "axes": [0, 2], "keepdim": true},
              {"op": "div", "inputs": ["x", "s"], "output": "y"}]})");
  const std::uint64_t x = 2 * 10 * 40000 * 4;
  CHECK(kernel_bytes(graph) == Bytes{2 * x, x});
}

TEST_CASE("x - x.mean(0) reads x once where a block of columns fits on chip, twice where not") {
  // The narrowest block is one memory sector wide: 8 f32. 227 KiB hold 7264 rows of that.
  const auto graph = [](std::uint64_t rows) {
    return graph_of(R"({"dims": {"N": 1}, "tensors": {"x": {"shape": ["N", 100]}},
      "ops": [{"op": "mean", "inputs": ["x"], "output": "m", "axis": 0, "keepdim": true},
              {"op": "sub", "inputs": ["x", "m"], "output": "y"}]})",
                    {{"N", rows}});
  };
  const OpGraph fits = graph(7264);
  const std::uint64_t x = 7264 * 400;
  CHECK(unfused_bytes(fits) == Bytes{2 * x + 400, x + 400});
  CHECK(kernel_bytes(fits) == Bytes{x, x});
  const OpGraph tall = graph(7265);
  CHECK(kernel_bytes(tall) == Bytes{2 * 7265 * 400, 7265 * 400});
}

TEST_CASE("training batch_norm reads its input twice, inference once") {
  // A channel of 4 * 6 * 6 floats would fit; the design has it read twice all the same.
  const OpGraph training = graph_of(R"({"tensors": {"x": {"shape": [4, 3, 6, 6]},
      "w": {"shape": [3]}, "b": {"shape": [3]}},
    "ops": [{"op": "batch_norm", "inputs": ["x", "w", "b"], "outputs": ["y", "m", "v"],
             "mode": "training"}]})");
  const std::uint64_t x = 4 * 3 * 36 * 4;
  CHECK(kernel_bytes(training) == Bytes{2 * x + 24, x + 24});
  CHECK(limit_bytes(training) == Bytes{x + 24, x + 24});
  const OpGraph inference = graph_of(R"({"tensors": {"x": {"shape": [4, 3, 6, 6]},
      "w": {"shape": [3]}, "b": {"shape": [3]}, "m": {"shape": [3]}, "v": {"shape": [3]}},
    "ops": [{"op": "batch_norm", "inputs": ["x", "w", "b", "m", "v"], "output": "y"}]})");
  CHECK(kernel_bytes(inference) == Bytes{x + 48, x});
}

TEST_CASE("softmax, layer_norm and group_norm read twice only where their rows do not fit") {
  const auto norm = [](std::string_view op, std::uint64_t columns) {
    return graph_of(R"({"dims": {"D": 1}, "tensors": {"x": {"shape": [4, "D"]}},
      "ops": [{"op": ")" +
                        std::string(op) + R"(", "inputs": ["x"], "output": "y"}]})",
                    {{"D", columns}});
  };
  for (const std::string_view op :
       {"softmax", "log_softmax", "layer_norm", "rms_norm", "group_norm"}) {
    CAPTURE(op);
    CHECK(kernel_bytes(norm(op, 464896)) == Bytes{4 * 464896 * 4, 4 * 464896 * 4});
    CHECK(kernel_bytes(norm(op, 464897)) == Bytes{2 * 4 * 464897 * 4, 4 * 464897 * 4});
  }
}
