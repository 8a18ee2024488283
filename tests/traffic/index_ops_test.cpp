// Bytes of ops whose results depend on where their elements are, of scans and of sorts, with
// numbers worked out by hand.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "graph/graph_text.hpp"
#include "traffic/graph_bytes.hpp"

using namespace fusecalc;
using namespace fusecalc::testing;

namespace {

Bytes bytes_of_op(std::string_view tensors, std::string_view op) {
  return unfused_bytes(
      graph_of(fmt::format(R"({{"tensors": {{{}}}, "ops": [{{{}}}]}})", tensors, op)));
}

}  // namespace

TEST_CASE("padding writes what it adds, and does not read what it cuts") {
  const std::string_view x = R"("x": {"shape": [10, 20]})";
  CHECK(bytes_of_op(x, R"("op": "pad", "inputs": ["x"], "output": "y",
                          "before": [1, 0], "after": [2, 5])") ==
        Bytes{std::uint64_t{4} * 200, std::uint64_t{4} * 13 * 25});
  CHECK(bytes_of_op(x, R"("op": "pad", "inputs": ["x"], "output": "y", "before": [-4, 0])") ==
        Bytes{std::uint64_t{4} * 6 * 20, std::uint64_t{4} * 6 * 20});
}

TEST_CASE("padding with elements of its own reads each element once") {
  for (const std::string_view border : {"reflect", "replicate", "circular"}) {
    CHECK(bytes_of_op(R"("x": {"shape": [10, 20]})",
                      fmt::format(R"("op": "pad", "inputs": ["x"], "output": "y",
                                     "border": "{}", "before": [1, 0], "after": [2, 5])",
                                  border)) ==
          Bytes{std::uint64_t{4} * 200, std::uint64_t{4} * 13 * 25});
  }
}

TEST_CASE(
    "tensors that only their shape makes are written, or free in the kernel that reads them") {
  CHECK(bytes_of_op("", R"("op": "iota", "inputs": [], "output": "y", "shape": [30, 7])") ==
        Bytes{0, 840});
  CHECK(
      bytes_of_op("", R"("op": "full", "inputs": [], "output": "y", "shape": [30], "to": "i64")") ==
      Bytes{0, 240});
  const OpGraph graph = graph_of(R"({"tensors": {"x": {"shape": [10, 30]}},
    "ops": [{"op": "iota", "inputs": [], "output": "i", "shape": [30]},
            {"op": "add", "inputs": ["x", "i"], "output": "y"}]})");
  CHECK(kernel_bytes(graph) == Bytes{1200, 1200});
  CHECK(unfused_bytes(graph) == Bytes{1320, 1320});
}

TEST_CASE("a gather of elements reads as many as it names, a scatter writes as many") {
  const std::string_view tensors =
      R"("x": {"shape": [100, 8]}, "i": {"shape": [5, 8], "dtype": "i64"}, "u": {"shape": [5, 8]})";
  CHECK(bytes_of_op(tensors, R"("op": "gather_elements", "inputs": ["x", "i"], "output": "y")") ==
        Bytes{160 + 320, 160});
  CHECK(bytes_of_op(tensors,
                    R"("op": "scatter_elements", "inputs": ["x", "i", "u"], "output": "y")") ==
        Bytes{320 + 160, 160});
}

TEST_CASE("what a scatter combines with its updates is read, too") {
  CHECK(
      bytes_of_op(
          R"("x": {"shape": [100, 8]}, "i": {"shape": [5, 8], "dtype": "i64"}, "u": {"shape": [5, 8]})",
          R"("op": "scatter_elements", "inputs": ["x", "i", "u"], "output": "y",
               "combine": "add")") == Bytes{160 + 320 + 160, 160});
  const std::string_view rows =
      R"("x": {"shape": [800, 64]}, "i": {"shape": [100], "dtype": "i32"}, "r": {"shape": [100, 64]})";
  CHECK(bytes_of_op(rows, R"("op": "scatter_update", "inputs": ["x", "i", "r"], "output": "y",
                             "combine": "max")") == Bytes{25600 + 400 + 25600, 25600});
  // No more than there is.
  CHECK(bytes_of_op(
            R"("x": {"shape": [3]}, "i": {"shape": [50], "dtype": "i32"}, "u": {"shape": [50]})",
            R"("op": "scatter_elements", "inputs": ["x", "i", "u"], "output": "y",
               "combine": "add")") == Bytes{12 + 200 + 200, 12});
}

TEST_CASE("a combining scatter reads what its kernel's other ops may not make") {
  const OpGraph graph = graph_of(R"({"tensors": {"x": {"shape": [100]}, "u": {"shape": [20]},
                                                 "i": {"shape": [20], "dtype": "i32"}},
    "ops": [{"op": "full", "inputs": [], "output": "z", "shape": [100]},
            {"op": "exp", "inputs": ["u"], "output": "e"},
            {"op": "scatter_elements", "inputs": ["z", "i", "e"], "output": "s", "combine": "add"},
            {"op": "mul", "inputs": ["s", "x"], "output": "y"}]})");
  CHECK(unfused_bytes(graph) == Bytes{0 + 80 + (80 + 80 + 80) + 800, 400 + 80 + 80 + 400});
  CHECK(kernel_bytes(graph, {"op#1", "op#2"}) == Bytes{80 + 80 + 80, 80});
}

TEST_CASE("scans and sorts read their input once, and write only what is needed") {
  CHECK(bytes_of_op(R"("x": {"shape": [10, 10], "dtype": "i32"})",
                    R"("op": "cumsum", "inputs": ["x"], "output": "y")") == Bytes{400, 800});
  CHECK(bytes_of_op(R"("x": {"shape": [64, 100]})",
                    R"("op": "topk", "inputs": ["x"], "outputs": ["v", "i"], "k": 5)") ==
        Bytes{25600, std::uint64_t{64} * 5 * (4 + 8)});
  const OpGraph order = graph_of(R"({"tensors": {"x": {"shape": [64, 100]}}, "outputs": ["i"],
    "ops": [{"op": "sort", "inputs": ["x"], "outputs": ["v", "i"]}]})");
  CHECK(unfused_bytes(order) == Bytes{25600, 51200});
}

TEST_CASE("an extreme and its index come out of one look at the rows") {
  CHECK(bytes_of_op(R"("x": {"shape": [64, 100]})",
                    R"("op": "max_with_index", "inputs": ["x"], "outputs": ["v", "i"],
                       "axes": [1])") == Bytes{25600, std::uint64_t{64} * (4 + 8)});
}
