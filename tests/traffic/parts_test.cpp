// Gathers, scatters, slices and other ops that touch parts of tensors, with numbers worked out by
// hand.

#include <doctest/doctest.h>

#include <cstdint>
#include <string>

#include "graph/graph_text.hpp"
#include "traffic/counter.hpp"
#include "traffic/graph_bytes.hpp"

using namespace fusecalc;
using namespace fusecalc::testing;

TEST_CASE("a gather reads the rows that it names, at most the whole table, and the indices") {
  const auto graph = [](std::uint64_t count) {
    return graph_of(R"({"dims": {"K": 1},
      "tensors": {"t": {"shape": [50, 16]}, "i": {"shape": ["K"], "dtype": "i64"}},
      "ops": [{"op": "embedding", "inputs": ["t", "i"], "output": "y"}]})",
                    {{"K", count}});
  };
  CHECK(kernel_bytes(graph(20)) == Bytes{20 * 16 * 4 + 20 * 8, 20 * 16 * 4});
  CHECK(kernel_bytes(graph(500)) == Bytes{50 * 16 * 4 + 500 * 8, 500 * 16 * 4});
  const OpGraph columns = graph_of(R"({"tensors": {"t": {"shape": [50, 16]},
      "i": {"shape": [4], "dtype": "i32"}},
    "ops": [{"op": "gather", "inputs": ["t", "i"], "output": "y", "axis": 1}]})");
  CHECK(kernel_bytes(columns) == Bytes{50 * 4 * 4 + 4 * 4, 50 * 4 * 4});
}

TEST_CASE("attention that gathers reads the rows that it takes, once, and the table") {
  // 3 pages of 16 rows for each of 2 batches, of which 40 rows are used; a page is 1,024 elements.
  const std::string tensors = R"("q": {"shape": [2, 4, 1, 32]}, "k": {"shape": [99, 16, 2, 32]},
      "t": {"shape": [2, 3], "dtype": "i32"})";
  const OpGraph graph = graph_of(R"({"dtype": "bf16", "tensors": {)" + tensors + R"(},
    "ops": [{"op": "gather", "inputs": ["k", "t"], "output": "g"},
            {"op": "reshape", "inputs": ["g"], "output": "r", "shape": [2, 48, 2, 32]},
            {"op": "slice_view", "inputs": ["r"], "output": "s", "axes": [1], "starts": [0],
             "ends": [40]},
            {"op": "permute_view", "inputs": ["s"], "output": "c", "perm": [0, 2, 1, 3]},
            {"op": "attention", "inputs": ["q", "c", "c"], "output": "y"}]})");
  TrafficCounter counter(graph, known_devices().front());
  CHECK(counter.bytes({0, 1}) == Bytes{.read = (256 + 2 * 40 * 64) * 2 + 6 * 4, .write = 256 * 2});
}

TEST_CASE("a scatter reads updates and indices, and writes the touched rows") {
  const OpGraph graph = graph_of(R"({"tensors": {"t": {"shape": [50, 16]},
      "i": {"shape": [4], "dtype": "i32"}, "rows": {"shape": [4, 16]}},
    "ops": [{"op": "scatter_update", "inputs": ["t", "i", "rows"], "output": "t2"}]})");
  CHECK(kernel_bytes(graph) == Bytes{4 * 16 * 4 + 4 * 4, 4 * 16 * 4});
}

TEST_CASE("the part that a scatter does not overwrite is still written by its producer") {
  const OpGraph graph = graph_of(R"({"tensors": {"x": {"shape": [50, 16]},
      "i": {"shape": [4], "dtype": "i32"}, "rows": {"shape": [4, 16]}},
    "ops": [{"name": "exp", "op": "exp", "inputs": ["x"], "output": "t"},
            {"name": "put", "op": "scatter_update", "inputs": ["t", "i", "rows"], "output": "t2"}]})");
  const std::uint64_t x = 50 * 16 * 4;
  const std::uint64_t rows = 4 * 16 * 4;
  CHECK(unfused_bytes(graph) == Bytes{x + rows + 16, x + rows});
  // As one kernel the memory counts once, and all of it is written.
  CHECK(kernel_bytes(graph) == Bytes{x + rows + 16, x});
  CHECK(limit_bytes(graph) == Bytes{x + rows + 16, x});
}

TEST_CASE("an op may touch a part of a tensor; more than all of it counts as all") {
  const OpGraph graph = graph_of(R"({"tensors": {"x": {"shape": [1000]}, "cache": {"shape": [1000]},
      "o": {"shape": [500], "dtype": "f16"}},
    "ops": [{"op": "custom", "inputs": ["x", "cache"], "output": "o",
             "reads": {"x": 10, "cache": 5000}, "writes": {"o": 7}}]})");
  CHECK(kernel_bytes(graph) == Bytes{40 + 4000, 14});
  const OpGraph known = graph_of(R"({"tensors": {"x": {"shape": [1000]}},
    "ops": [{"op": "relu", "inputs": ["x"], "output": "y", "reads": {"x": 100},
             "writes": {"y": 100}}]})");
  CHECK(kernel_bytes(known) == Bytes{400, 400});
}

TEST_CASE("of the parts that the ops of a kernel touch, each element counts once") {
  const OpGraph graph = graph_of(R"({"tensors": {"x": {"shape": [1000]}},
    "ops": [{"name": "a", "op": "slice", "inputs": ["x"], "output": "s", "start": 0, "end": 300},
            {"name": "b", "op": "slice", "inputs": ["x"], "output": "t", "start": 500, "end": 800},
            {"name": "c", "op": "slice", "inputs": ["x"], "output": "u", "start": 0, "end": 600}]})");
  CHECK(kernel_bytes(graph, {"a"}) == Bytes{1200, 1200});
  CHECK(kernel_bytes(graph, {"a", "b"}) == Bytes{2400, 2400});
  // 0 to 799.
  CHECK(kernel_bytes(graph) == Bytes{3200, 4800});
}

TEST_CASE("only the elements that a later slice uses are read") {
  const OpGraph graph = graph_of(R"({"tensors": {"x": {"shape": [100, 64]}, "b": {"shape": [64]}},
    "ops": [{"name": "add", "op": "add", "inputs": ["x", "b"], "output": "s"},
            {"name": "cut", "op": "slice", "inputs": ["s"], "output": "y", "axis": 0, "end": 10}]})");
  CHECK(kernel_bytes(graph, {"cut"}) == Bytes{10 * 64 * 4, 10 * 64 * 4});
  CHECK(kernel_bytes(graph) == Bytes{10 * 64 * 4 + 64 * 4, 10 * 64 * 4});
}

// What is needed of a tensor is followed through broadcasting, slices, concat and gathers.
TEST_CASE("a part of a result needs the elements of each operand that it is made of") {
  const auto read = [](const std::string& ops, const std::string& cut) {
    return kernel_bytes(graph_of(
                            R"({"tensors": {"x": {"shape": [100, 64]}, "row": {"shape": [64]},
                   "column": {"shape": [100, 1]}, "z": {"shape": [100, 64]},
                   "i": {"shape": [10], "dtype": "i64"}},
                   "ops": [)" +
                            ops + R"(, {"op": "slice", "inputs": ["s"], "output": "y", )" + cut +
                            "}]}"))
        .read;
  };
  const std::string rows = R"("axis": 0, "start": 2, "end": 5)";
  const std::string columns = R"("axis": 1, "start": 2, "end": 5)";
  const std::string add_row = R"({"op": "add", "inputs": ["x", "row"], "output": "s"})";
  CHECK(read(add_row, rows) == 4 * (3 * 64 + 64));
  CHECK(read(add_row, columns) == 4 * (100 * 3 + 3));
  const std::string add_column = R"({"op": "add", "inputs": ["x", "column"], "output": "s"})";
  CHECK(read(add_column, rows) == 4 * (3 * 64 + 3));
  CHECK(read(add_column, columns) == 4 * (100 * 3 + 100));
  const std::string both = R"({"op": "concat", "inputs": ["x", "z"], "axis": 0, "output": "s"})";
  CHECK(read(both, rows) == 4 * 3 * 64);
  CHECK(read(both, R"("axis": 0, "start": 98, "end": 101, "step": 2)") == 4 * 2 * 64);
  CHECK(read(both, columns) == 4 * 200 * 3);
  const std::string named = R"({"op": "gather", "inputs": ["x", "i"], "axis": 0, "output": "s"})";
  CHECK(read(named, rows) == 4 * 3 * 64 + 8 * 3);
  CHECK(read(named, columns) == 4 * 10 * 3 + 8 * 10);
  // Either order of an embedding's inputs.
  const std::string embedded = R"({"op": "embedding", "inputs": ["i", "x"], "output": "s"})";
  CHECK(read(embedded, rows) == 4 * 3 * 64 + 8 * 3);
  CHECK(read(embedded, columns) == 4 * 10 * 3 + 8 * 10);
  const std::string repeated =
      R"({"op": "broadcast_to", "inputs": ["row"], "shape": [100, 64], "output": "s"})";
  CHECK(read(repeated, rows) == 4 * 64);
  CHECK(read(repeated, columns) == 4 * 3);
  const std::string cut_again =
      R"({"op": "slice", "inputs": ["x"], "axis": 1, "start": 10, "end": 50, "step": 3,
          "output": "s"})";
  CHECK(read(cut_again, columns) == 4 * 100 * 3);
}

TEST_CASE("parts of one result that overlap need their elements once") {
  const OpGraph graph = graph_of(R"({"tensors": {"x": {"shape": [64]}},
    "ops": [{"op": "relu", "inputs": ["x"], "output": "r"},
            {"op": "slice", "inputs": ["r"], "output": "y", "start": 0, "end": 12},
            {"op": "slice", "inputs": ["r"], "output": "z", "start": 4, "end": 16}]})");
  CHECK(kernel_bytes(graph) == Bytes{4 * 16, 4 * 24});
}

TEST_CASE("elements that several ops need for the same part of a result are read once") {
  const auto last_row = [](const std::string& ops) {
    return kernel_bytes(graph_of(R"({"tensors": {"x": {"shape": [64, 64]}}, "ops": [)" + ops +
                                 R"(, {"op": "slice_view", "inputs": ["g"], "output": "v",
                                       "axis": 0, "start": 63},
                                      {"op": "exp", "inputs": ["v"], "output": "y"}]})"));
  };
  constexpr std::uint64_t kRow = 64 * 4;
  CHECK(last_row(R"({"op": "sigmoid", "inputs": ["x"], "output": "s"},
                    {"op": "mul", "inputs": ["x", "s"], "output": "g"})") == Bytes{kRow, kRow});
  CHECK(last_row(R"({"op": "fma", "inputs": ["x", "x", "x"], "output": "g"})") ==
        Bytes{kRow, kRow});
  CHECK(last_row(R"({"op": "neg", "inputs": ["x"], "output": "h"},
                    {"op": "silu", "inputs": ["h"], "output": "s"},
                    {"op": "add", "inputs": ["h", "s"], "output": "g"})") == Bytes{kRow, kRow});
  // The last column as well, but for its last element.
  CHECK(last_row(R"({"op": "transpose", "inputs": ["x"], "output": "t"},
                    {"op": "mul", "inputs": ["x", "t"], "output": "g"})") ==
        Bytes{2 * kRow - 4, kRow});
  // A slice that copies.
  CHECK(kernel_bytes(graph_of(R"({"tensors": {"x": {"shape": [64, 64]}}, "ops": [
      {"op": "sigmoid", "inputs": ["x"], "output": "s"},
      {"op": "mul", "inputs": ["x", "s"], "output": "g"},
      {"op": "slice", "inputs": ["g"], "axis": 0, "end": 2, "output": "y"}]})")) ==
        Bytes{2 * kRow, 2 * kRow});
  CHECK(kernel_bytes(graph_of(R"({"tensors": {"x": {"shape": [16]}}, "ops": [
      {"op": "mul", "inputs": ["x", "x"], "output": "y", "reads": {"x": 3}}]})")) == Bytes{12, 64});
}

TEST_CASE("concat moves its parts; made in the same kernel they are not moved twice") {
  const OpGraph graph =
      graph_of(R"({"tensors": {"x": {"shape": [10, 64]}, "z": {"shape": [30, 64]}},
    "ops": [{"name": "exp", "op": "exp", "inputs": ["x"], "output": "e"},
            {"name": "join", "op": "concat", "inputs": ["e", "z"], "output": "y"}]})");
  CHECK(kernel_bytes(graph, {"join"}) == Bytes{40 * 256, 40 * 256});
  CHECK(kernel_bytes(graph) == Bytes{40 * 256, 40 * 256});
}
