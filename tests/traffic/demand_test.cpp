// What ops read for what is needed of them: several results, parts, results that leave memory as it
// was, and rows that are read twice. Numbers by hand; on-chip memory holds 232448 bytes.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "graph/graph_text.hpp"
#include "traffic/graph_bytes.hpp"

using namespace fusecalc;
using namespace fusecalc::testing;

namespace {

// A scatter of `count` rows of 64 f32 into the 800 that a relu makes.
OpGraph scatter_into_relu(std::uint64_t count) {
  return graph_of(R"({"dims": {"N": 1}, "tensors": {"x": {"shape": [800, 64]},
      "i": {"shape": ["N"], "dtype": "i32"}, "r": {"shape": ["N", 64]}},
    "ops": [{"name": "relu", "op": "relu", "inputs": ["x"], "output": "h"},
            {"name": "put", "op": "scatter_update", "inputs": ["h", "i", "r"], "output": "y"}]})",
                  {{"N", count}});
}

// A custom op that writes `writes` of the 1000 elements of x in place, and a reader of the result.
OpGraph patched(std::uint64_t writes, const char* outputs) {
  return graph_of(fmt::format(R"({{"tensors": {{"x": {{"shape": [1000]}}, "y": {{"shape": [1000]}},
      "s": {{"shape": [1]}}}},
    "ops": [{{"op": "custom", "inputs": ["x"], "outputs": {}, "inplace": {{"y": "x"}},
              "reads": {{"x": 0}}, "writes": {{"y": {}}}}},
            {{"op": "relu", "inputs": ["y"], "output": "z"}}]}})",
                              outputs, writes));
}

}  // namespace

TEST_CASE("a custom op's inputs serve the largest demand, whatever the order of its readers") {
  const char* const outputs[] = {R"(["a", "s"])", R"(["s", "a"])"};
  const char* const readers[] = {
      R"({"op": "relu", "inputs": ["a"], "output": "u"},
         {"op": "relu", "inputs": ["s"], "output": "v"})",
      R"({"op": "relu", "inputs": ["s"], "output": "v"},
         {"op": "relu", "inputs": ["a"], "output": "u"})"};
  for (const char* const of : outputs) {
    for (const char* const by : readers) {
      const OpGraph graph = graph_of(fmt::format(
          R"({{"tensors": {{"x": {{"shape": [900, 1100]}}, "a": {{"shape": [900, 1100]}},
               "s": {{"shape": [1]}}}},
             "ops": [{{"op": "custom", "class": "pointwise", "inputs": ["x"], "outputs": {}}},
                     {}]}})",
          of, by));
      CAPTURE(of);
      CAPTURE(by);
      CHECK(kernel_bytes(graph) == Bytes{3'960'000, 3'960'004});
      CHECK(limit_bytes(graph) == Bytes{3'960'000, 3'960'004});
    }
  }
}

// 64 x 256 of x, 512 x 256 weights and 512 of a bias are read, 64 x 256 written, all of 2 bytes.
TEST_CASE("two halves of a product that are used in its kernel are never in memory") {
  const OpGraph graph = graph_of(R"({"dtype": "bf16", "tensors": {"x": {"shape": [64, 256]},
      "w": {"shape": [512, 256]}, "bias": {"shape": [512]}},
    "ops": [{"name": "product", "op": "linear", "inputs": ["x", "w", "bias"], "output": "h"},
            {"op": "split_view", "inputs": ["h"], "outputs": ["a", "b"], "axis": 1},
            {"name": "silu", "op": "silu", "inputs": ["a"], "output": "s"},
            {"name": "mul", "op": "mul", "inputs": ["s", "b"], "output": "y"}]})");
  CHECK(kernel_bytes(graph) == Bytes{32'768 + 262'144 + 1'024, 32'768});
  CHECK(bytes_written(graph, {"product", "silu", "mul"}, "h") == 0);
  // Apart, the product writes 64 x 512, and the other kernel reads them.
  CHECK(kernel_bytes(graph, {"product"}) == Bytes{295'936, 65'536});
  CHECK(kernel_bytes(graph, {"silu", "mul"}) == Bytes{65'536, 32'768});
}

// 65 x 256 of x, 512 x 256 of each of two weights and 512 of a bias are read, 65 x 512 written, all
// of 2 bytes.
TEST_CASE("two products of a kernel read what they share once") {
  const OpGraph graph = graph_of(R"({"dtype": "bf16", "tensors": {"x": {"shape": [65, 256]},
      "g": {"shape": [512, 256]}, "u": {"shape": [512, 256]}, "bias": {"shape": [512]}},
    "ops": [{"name": "gate", "op": "linear", "inputs": ["x", "g"], "output": "a"},
            {"name": "up", "op": "linear", "inputs": ["x", "u", "bias"], "output": "b"},
            {"name": "silu", "op": "silu", "inputs": ["a"], "output": "s"},
            {"name": "mul", "op": "mul", "inputs": ["s", "b"], "output": "y"}]})");
  CHECK(kernel_bytes(graph) == Bytes{33'280 + 2 * 262'144 + 1'024, 66'560});
  CHECK(kernel_bytes(graph, {"gate", "silu"}) == Bytes{33'280 + 262'144, 66'560});
}

TEST_CASE("parts of several results need the largest part; all of one needs all inputs") {
  const auto read = [](const std::string& readers) {
    const OpGraph graph = graph_of(
        R"({"tensors": {"x": {"shape": [1000]}, "a": {"shape": [1000]}, "b": {"shape": [1000]},
              "s": {"shape": [1]}},
            "ops": [{"op": "custom", "class": "pointwise", "inputs": ["x"],
                     "outputs": ["a", "b", "s"]}, )" +
        readers + R"(], "outputs": ["y", "z"]})");
    CHECK(limit_bytes(graph).read == kernel_bytes(graph).read);
    return kernel_bytes(graph).read;
  };
  const std::string few = R"({"op": "slice", "inputs": ["a"], "output": "y", "end": 10})";
  const std::string more = R"({"op": "slice", "inputs": ["b"], "output": "z", "end": 300})";
  const std::string all = R"({"op": "relu", "inputs": ["b"], "output": "z"})";
  const std::string small = R"({"op": "relu", "inputs": ["s"], "output": "z"})";
  for (const auto& pair : {std::pair{more, 1200}, {all, 4000}, {small, 4000}}) {
    const auto& [other, bytes] = pair;
    CAPTURE(pair.first);
    CHECK(read(few + ", " + other) == bytes);
    CHECK(read(other + ", " + few) == bytes);
  }
  // Two readers of one result add up, but for what both take, and those of another result do not.
  const std::string again = R"({"op": "slice", "inputs": ["b"], "output": "w", "end": 100})";
  const std::string next = R"({"op": "slice", "inputs": ["b"], "output": "w", "start": 900})";
  CHECK(read(again + ", " + more + ", " + few) == 1200);
  CHECK(read(next + ", " + more + ", " + few) == 1600);
}

TEST_CASE("a producer fused with a scatter writes every row that the scatter may not reach") {
  const std::uint64_t x = 800 * 64 * 4;
  for (const std::uint64_t count : {1U, 10U, 799U, 800U, 2000U}) {
    CAPTURE(count);
    const OpGraph graph = scatter_into_relu(count);
    const std::uint64_t updates = count * 64 * 4 + count * 4;
    const std::uint64_t touched = std::min<std::uint64_t>(count, 800) * 64 * 4;
    CHECK(kernel_bytes(graph, {"put"}) == Bytes{updates, touched});
    CHECK(kernel_bytes(graph) == Bytes{x + updates, x});
    CHECK(limit_bytes(graph) == Bytes{x + updates, x});
    CHECK(unfused_bytes(graph) == Bytes{x + updates, x + touched});
  }
}

TEST_CASE("what reads behind a scatter reads the rows that may be left alone") {
  const auto graph = [](std::uint64_t count) {
    return graph_of(R"({"dims": {"N": 1}, "tensors": {"t": {"shape": [50, 16]},
        "i": {"shape": ["N"], "dtype": "i32"}, "r": {"shape": ["N", 16]}},
      "ops": [{"name": "put", "op": "scatter_update", "inputs": ["t", "i", "r"], "output": "y"},
              {"name": "cut", "op": "slice", "inputs": ["y"], "output": "c", "end": 5},
              {"name": "relu", "op": "relu", "inputs": ["y"], "output": "z"}]})",
                    {{"N", count}});
  };
  // All indices may name the same row: one of 50 is sure to be written, if there is an index.
  CHECK(bytes_read(graph(0), {"put", "relu"}, "t") == 50 * 64);
  CHECK(bytes_read(graph(1), {"put", "relu"}, "t") == 49 * 64);
  CHECK(bytes_read(graph(60), {"put", "relu"}, "t") == 49 * 64);
  CHECK(bytes_read(graph(60), {"put", "cut"}, "t") == 5 * 64);
  // The cache is the graph's input, so it is written beside z.
  CHECK(kernel_bytes(graph(60), {"put", "relu"}) == Bytes{49 * 64 + 60 * 64 + 240, 6400});
}

TEST_CASE("an op that writes a part in place leaves the rest, whichever of its outputs it is") {
  for (const char* const outputs : {R"(["y", "s"])", R"(["s", "y"])"}) {
    CAPTURE(outputs);
    CHECK(kernel_bytes(patched(100, outputs)).read == 3600);
    CHECK(kernel_bytes(patched(1000, outputs)).read == 0);
    // More elements than there are: some are written twice, and any may be left out.
    CHECK(kernel_bytes(patched(1001, outputs)).read == 4000);
    CHECK(limit_bytes(patched(1001, outputs)).read == 4000);
  }
}

TEST_CASE("of one row that does not fit on chip only the input is read twice") {
  const auto norm = [](const char* op, std::uint64_t columns, const char* inputs) {
    return kernel_bytes(
        graph_of(fmt::format(R"({{"tensors": {{"x": {{"shape": [1, {0}]}}, "w": {{"shape": [{0}]}},
               "b": {{"shape": [{0}]}}}},
             "ops": [{{"op": {1}, "inputs": {2}, "output": "y"}}]}})",
                             columns, op, inputs)));
  };
  for (const char* const op :
       {R"("layer_norm")", R"("group_norm", "groups": 1)", R"("batch_norm", "mode": "training")"}) {
    CAPTURE(op);
    CHECK(norm(op, 600000, R"(["x", "w", "b"])") == Bytes{(2 + 1 + 1) * 2'400'000, 2'400'000});
  }
  CHECK(norm(R"("rms_norm")", 600000, R"(["x", "w"])") == Bytes{(2 + 1) * 2'400'000, 2'400'000});
  // 1.6 MB fit; the weight does not have to be held beside them.
  CHECK(norm(R"("layer_norm")", 400000, R"(["x", "w", "b"])") == Bytes{3 * 1'600'000, 1'600'000});
  CHECK(norm(R"("rms_norm")", 464896, R"(["x", "w"])") == Bytes{2 * 1'859'584, 1'859'584});
  // Unless the weight is the input.
  CHECK(norm(R"("rms_norm")", 600000, R"(["x", "w"])").read -
            norm(R"("rms_norm")", 600000, R"(["x"])").read ==
        2'400'000);
}

TEST_CASE("a weight that the kernel makes is made once, after the row was reduced") {
  const OpGraph graph = graph_of(R"({"tensors": {"x": {"shape": [1, 600000]},
      "w": {"shape": [600000]}},
    "ops": [{"op": "add", "inputs": ["w", 1], "output": "v"},
            {"op": "rms_norm", "inputs": ["x", "v"], "output": "y"}]})");
  CHECK(kernel_bytes(graph) == Bytes{(2 + 1) * 2'400'000, 2'400'000});
}

TEST_CASE("column blocks of 4-bit types are a whole sector wide: 64 elements") {
  for (const char* const dtype : {"i4", "u4", "fp4_e2m1"}) {
    CAPTURE(dtype);
    const auto read = [&](std::uint64_t rows, std::uint64_t columns) {
      return kernel_bytes(graph_of(fmt::format(
                              R"({{"tensors": {{"x": {{"shape": [{}, {}], "dtype": "{}"}}}},
                 "ops": [{{"op": "max", "inputs": ["x"], "output": "m", "axis": 0,
                           "keepdim": true}},
                         {{"op": "sub", "inputs": ["x", "m"], "output": "y"}}]}})",
                              rows, columns, dtype)))
          .read;
    };
    // 32 bytes of each row: 7264 rows fit.
    CHECK(read(7264, 256) == 7264 * 128);
    CHECK(read(7265, 256) == 2 * 7265 * 128);
    // Narrow rows are held whole: 10 elements in 5 bytes.
    CHECK(read(46489, 10) == 46489 * 5);
    CHECK(read(46490, 10) == 2 * 46490 * 5);
  }
}
