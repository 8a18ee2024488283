// The design's examples and the rules of its byte model, with numbers worked out by hand.

#include "traffic/counter.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <optional>

#include "graph/graph_text.hpp"
#include "traffic/graph_bytes.hpp"

using namespace fusecalc;
using namespace fusecalc::testing;

namespace {

// Tensors of 1000 f32.
constexpr std::uint64_t kUnit = 4000;

Bytes units(std::uint64_t read, std::uint64_t write) { return {read * kUnit, write * kUnit}; }

}  // namespace

TEST_CASE("log(relu(x+b)) moves 7 unfused and 3 fused") {
  const OpGraph graph = graph_of(R"({"tensors": {"x": {"shape": [1000]}, "b": {"shape": [1000]}},
    "ops": [{"op": "add", "inputs": ["x", "b"], "output": "s"},
            {"op": "relu", "inputs": ["s"], "output": "r"},
            {"op": "log", "inputs": ["r"], "output": "y"}]})");
  CHECK(unfused_bytes(graph) == units(4, 3));
  CHECK(kernel_bytes(graph) == units(2, 1));
  CHECK(limit_bytes(graph) == units(2, 1));
}

TEST_CASE("sigmoid(x) * tanh(x+1) moves 9 unfused and 2 fused; constants are free") {
  const OpGraph graph = graph_of(R"({"tensors": {"x": {"shape": [1000]}},
    "ops": [{"op": "sigmoid", "inputs": ["x"], "output": "s"},
            {"op": "add", "inputs": ["x", 1], "output": "a"},
            {"op": "tanh", "inputs": ["a"], "output": "t"},
            {"op": "mul", "inputs": ["s", "t"], "output": "y"}]})");
  CHECK(unfused_bytes(graph) == units(5, 4));
  CHECK(kernel_bytes(graph) == units(1, 1));
}

TEST_CASE("x+1, *2, relu, square moves 8 unfused and 2 fused") {
  const OpGraph graph = graph_of(R"({"tensors": {"x": {"shape": [1000]}},
    "ops": [{"op": "add", "inputs": ["x", 1], "output": "a"},
            {"op": "mul", "inputs": [2, "a"], "output": "m"},
            {"op": "relu", "inputs": ["m"], "output": "r"},
            {"op": "square", "inputs": ["r"], "output": "y"}]})");
  CHECK(unfused_bytes(graph) == units(4, 4));
  CHECK(kernel_bytes(graph) == units(1, 1));
  CHECK(kernel_bytes(graph, {"op#1", "op#2"}) == units(1, 1));
}

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

TEST_CASE("softmax as max, sub, exp, sum, div moves 8 unfused and 2 fused") {
  const OpGraph graph = graph_of(R"({"tensors": {"x": {"shape": [10, 100]}},
    "ops": [{"op": "max", "inputs": ["x"], "output": "m", "axis": -1, "keepdim": true},
            {"op": "sub", "inputs": ["x", "m"], "output": "d"},
            {"op": "exp", "inputs": ["d"], "output": "e"},
            {"op": "sum", "inputs": ["e"], "output": "s", "axis": -1, "keepdim": true},
            {"op": "div", "inputs": ["e", "s"], "output": "y"}]})");
  // 8 full tensors and each of the two vectors of 10 twice.
  CHECK(unfused_bytes(graph).total() == 8 * kUnit + 4 * 40);
  CHECK(kernel_bytes(graph) == units(1, 1));
}

TEST_CASE("Adam moves 7: p, g, m and v in, p, m and v out") {
  const OpGraph graph = graph_of(R"({"tensors": {"p": {"shape": [1000]}, "g": {"shape": [1000]},
               "m": {"shape": [1000]}, "v": {"shape": [1000]}},
    "ops": [{"op": "mul", "inputs": ["g", 0.1], "output": "g1"},
            {"op": "fma", "inputs": ["m", 0.9, "g1"], "output": "m2", "inplace": {"m2": "m"}},
            {"op": "square", "inputs": ["g"], "output": "gg"},
            {"op": "mul", "inputs": ["gg", 0.001], "output": "g2"},
            {"op": "fma", "inputs": ["v", 0.999, "g2"], "output": "v2", "inplace": {"v2": "v"}},
            {"op": "sqrt", "inputs": ["v2"], "output": "r"},
            {"op": "add", "inputs": ["r", 1e-8], "output": "d"},
            {"op": "div", "inputs": ["m2", "d"], "output": "u"},
            {"op": "mul", "inputs": ["u", 0.001], "output": "step"},
            {"op": "sub", "inputs": ["p", "step"], "output": "p2", "inplace": {"p2": "p"}}]})");
  CHECK(kernel_bytes(graph) == units(4, 3));
  CHECK(limit_bytes(graph) == units(4, 3));
  // One by one: 14 tensors read, and each op writes one.
  CHECK(unfused_bytes(graph) == units(14, 10));
}

TEST_CASE("every tensor counts with its own element type") {
  const OpGraph graph = graph_of(R"({"tensors": {
      "x": {"shape": [1000], "dtype": "bf16"}, "w": {"shape": [1000], "dtype": "f64"},
      "m": {"shape": [1000], "dtype": "bool"}},
    "ops": [{"name": "pick", "op": "where", "inputs": ["m", "x", 0], "output": "y"},
            {"name": "mul", "op": "mul", "inputs": ["y", "w"], "output": "z"},
            {"name": "gt", "op": "gt", "inputs": ["z", 0], "output": "c"},
            {"name": "low", "op": "cast", "inputs": ["z"], "output": "q", "to": "fp8_e4m3"}]})");
  CHECK(kernel_bytes(graph, {"pick"}) == Bytes{1000 + 2000, 2000});
  CHECK(kernel_bytes(graph, {"mul"}) == Bytes{2000 + 8000, 8000});
  CHECK(kernel_bytes(graph, {"gt"}) == Bytes{8000, 1000});
  CHECK(kernel_bytes(graph) == Bytes{1000 + 2000 + 8000, 1000 + 1000});
}

TEST_CASE("4-bit elements take half a byte, rounded up per tensor") {
  const OpGraph graph = graph_of(R"({"tensors": {"q": {"shape": [3, 5], "dtype": "i4"},
      "s": {"shape": [3, 5], "dtype": "f16"}},
    "ops": [{"op": "mul", "inputs": ["q", "s"], "output": "y"},
            {"op": "cast", "inputs": ["y"], "output": "z", "to": "u4"}]})");
  CHECK(kernel_bytes(graph) == Bytes{8 + 30, 8});
  CHECK(unfused_bytes(graph) == Bytes{8 + 30 + 30, 30 + 8});
}

TEST_CASE("a broadcast operand counts at its own size") {
  const OpGraph graph = graph_of(R"({"tensors": {"x": {"shape": [8, 10, 100]},
      "row": {"shape": [100]}, "column": {"shape": [10, 1]}, "one": {"shape": []}},
    "ops": [{"op": "add", "inputs": ["x", "row"], "output": "a"},
            {"op": "mul", "inputs": ["column", "a"], "output": "b"},
            {"op": "sub", "inputs": ["b", "one"], "output": "y"}]})");
  const std::uint64_t x = 8 * 10 * 100 * 4;
  CHECK(unfused_bytes(graph) == Bytes{3 * x + 400 + 40 + 4, 3 * x});
  CHECK(kernel_bytes(graph) == Bytes{x + 400 + 40 + 4, x});
  // broadcast_to writes the repetitions as a kernel by itself, and moves nothing inside a fused
  // one.
  const OpGraph wide = graph_of(R"({"tensors": {"x": {"shape": [100]}},
    "ops": [{"name": "b", "op": "broadcast_to", "inputs": ["x"], "output": "w", "shape": [10, 100]},
            {"name": "r", "op": "relu", "inputs": ["w"], "output": "y"}]})");
  CHECK(kernel_bytes(wide, {"b"}) == Bytes{400, 4000});
  CHECK(kernel_bytes(wide) == Bytes{400, 4000});
}

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

TEST_CASE("views are free and count as the tensor that they show") {
  const OpGraph graph = graph_of(R"({"tensors": {"x": {"shape": [10, 100]}},
    "ops": [{"name": "exp", "op": "exp", "inputs": ["x"], "output": "e"},
            {"op": "reshape", "inputs": ["e"], "output": "flat", "shape": [-1]},
            {"op": "permute_view", "inputs": ["e"], "output": "turned"},
            {"name": "neg", "op": "neg", "inputs": ["flat"], "output": "n"},
            {"name": "abs", "op": "abs", "inputs": ["turned"], "output": "a"}]})");
  CHECK(graph.ops.size() == 3);
  CHECK(unfused_bytes(graph) == units(3, 3));
  // Both views are the same memory, read once.
  CHECK(kernel_bytes(graph, {"neg", "abs"}) == units(1, 2));
  CHECK(kernel_bytes(graph) == units(1, 2));
}

// The halves of x, 500 elements each.
constexpr const char* kHalves = R"({"tensors": {"x": {"shape": [10, 100]}},
    "ops": [{"op": "split_view", "inputs": ["x"], "outputs": ["l", "r"], "axis": 1},
            {"name": "sigmoid", "op": "sigmoid", "inputs": ["l"], "output": "s"},
            {"name": "silu", "op": "mul", "inputs": ["l", "s"], "output": "g"},
            {"name": "glu", "op": "mul", "inputs": ["g", "r"], "output": "y"}]})";

TEST_CASE("who reads a view touches its elements only, and each once") {
  const OpGraph graph = graph_of(kHalves);
  CHECK(graph.ops.size() == 3);
  CHECK(kernel_bytes(graph, {"sigmoid"}) == Bytes{2000, 2000});
  // Both read the left half.
  CHECK(kernel_bytes(graph, {"sigmoid", "silu"}) == Bytes{2000, 2000});
  CHECK(kernel_bytes(graph) == Bytes{4000, 2000});
  CHECK(unfused_bytes(graph) == Bytes{2000 + 4000 + 4000, 6000});
}

TEST_CASE("equal views of one tensor count once, others add up to the tensor at most") {
  const OpGraph graph = graph_of(R"({"tensors": {"x": {"shape": [10, 100]}},
    "ops": [{"op": "slice_view", "inputs": ["x"], "output": "a", "axis": 1, "end": 30},
            {"op": "reshape", "inputs": ["x"], "output": "z", "shape": [10, 10, 10]},
            {"op": "slice_view", "inputs": ["z"], "output": "b", "axis": 1, "end": 3},
            {"op": "slice_view", "inputs": ["x"], "output": "c", "axis": 1, "start": 20},
            {"name": "a", "op": "neg", "inputs": ["a"], "output": "p"},
            {"name": "b", "op": "abs", "inputs": ["b"], "output": "q"},
            {"name": "c", "op": "exp", "inputs": ["c"], "output": "r"}]})");
  CHECK(kernel_bytes(graph, {"a", "b"}) == Bytes{1200, 2400});
  CHECK(kernel_bytes(graph, {"c"}) == Bytes{3200, 3200});
  // 300 and 800 of 1000 elements.
  CHECK(kernel_bytes(graph, {"a", "c"}) == Bytes{4000, 4400});
}

TEST_CASE("elements that several views of a view show count once") {
  // q, k and v of one product, 40 of 120 columns each; the rotary embedding reads q and its halves.
  const OpGraph graph = graph_of(R"({"tensors": {"x": {"shape": [10, 120]}},
    "ops": [{"op": "split_view", "inputs": ["x"], "outputs": ["q", "k", "v"], "axis": 1},
            {"op": "split_view", "inputs": ["q"], "outputs": ["l", "r"], "axis": 1},
            {"op": "permute_view", "inputs": ["q"], "output": "t", "perm": [1, 0]},
            {"op": "slice_view", "inputs": ["t"], "output": "u", "end": 30},
            {"name": "whole", "op": "neg", "inputs": ["q"], "output": "a"},
            {"name": "left", "op": "neg", "inputs": ["l"], "output": "b"},
            {"name": "right", "op": "neg", "inputs": ["r"], "output": "c"},
            {"name": "turned", "op": "neg", "inputs": ["t"], "output": "d"},
            {"name": "most", "op": "neg", "inputs": ["u"], "output": "e"},
            {"name": "other", "op": "neg", "inputs": ["k"], "output": "f"}]})");
  CHECK(kernel_bytes(graph, {"left", "right"}).read == 1600);
  CHECK(kernel_bytes(graph, {"whole", "left", "right"}).read == 1600);
  CHECK(kernel_bytes(graph, {"left", "right", "whole"}).read == 1600);
  // Half of q, and three quarters of it, turned, which have that half.
  CHECK(kernel_bytes(graph, {"left", "most"}).read == 1200);
  CHECK(kernel_bytes(graph, {"right", "most"}).read == 1600);
  CHECK(kernel_bytes(graph, {"whole", "turned"}).read == 1600);
  CHECK(kernel_bytes(graph, {"whole", "left", "other"}).read == 3200);
}

TEST_CASE("what a view repeats counts once") {
  const OpGraph graph = graph_of(R"({"tensors": {"x": {"shape": [10, 100]}, "b": {"shape": [100]}},
    "ops": [{"op": "expand_view", "inputs": ["b"], "output": "e", "shape": [10, 100]},
            {"op": "slice_view", "inputs": ["e"], "output": "h", "axis": 1, "start": 50},
            {"op": "reshape", "inputs": ["h"], "output": "f", "shape": [500]},
            {"name": "add", "op": "add", "inputs": ["x", "e"], "output": "y"},
            {"name": "neg", "op": "neg", "inputs": ["f"], "output": "z"}]})");
  CHECK(kernel_bytes(graph, {"add"}) == Bytes{4000 + 400, 4000});
  CHECK(kernel_bytes(graph, {"neg"}) == Bytes{200, 2000});
}

TEST_CASE("an op makes no more of its result than views show") {
  const OpGraph graph = graph_of(R"({"tensors": {"x": {"shape": [10, 100]}},
    "ops": [{"name": "exp", "op": "exp", "inputs": ["x"], "output": "e"},
            {"op": "slice_view", "inputs": ["e"], "output": "v", "end": 3},
            {"name": "neg", "op": "neg", "inputs": ["v"], "output": "n"},
            {"name": "mul", "op": "mul", "inputs": ["v", "n"], "output": "y"}]})");
  CHECK(kernel_bytes(graph) == Bytes{1200, 1200});
  // Another kernel reads a part, so all of it is written.
  CHECK(kernel_bytes(graph, {"exp"}) == units(1, 1));
}

TEST_CASE("views of rows are held on chip one by one") {
  const auto graph = [](const char* ops, std::uint64_t half) {
    return graph_of(std::string(R"({"dims": {"H": 1}, "tensors": {"x": {"shape": [10, "2*H"]}},
      "ops": [{"op": "split_view", "inputs": ["x"], "outputs": ["l", "r"], "axis": 1}, )") +
                        ops + "]}",
                    {{"H", half}});
  };
  // 8 times 227 KiB hold 464896 f32.
  const char* const one = R"({"op": "softmax", "inputs": ["r"], "output": "y"})";
  CHECK(kernel_bytes(graph(one, 464896)).read == 10 * 464896 * 4);
  CHECK(kernel_bytes(graph(one, 464897)).read == 2 * 10 * 464897 * 4);
  const char* const both = R"({"op": "softmax", "inputs": ["l"], "output": "a"},
                              {"op": "softmax", "inputs": ["r"], "output": "b"},
                              {"op": "add", "inputs": ["a", "b"], "output": "y"})";
  CHECK(kernel_bytes(graph(both, 232448)).read == 2 * 10 * 232448 * 4);
  CHECK(kernel_bytes(graph(both, 232449)).read == 2 * 2 * 10 * 232449 * 4);
}

TEST_CASE("a view that nothing consumes makes its tensor a result") {
  const OpGraph graph = graph_of(R"({"tensors": {"x": {"shape": [1000]}},
    "ops": [{"op": "exp", "inputs": ["x"], "output": "e"},
            {"op": "view", "inputs": ["e"], "output": "v", "shape": [10, 100]},
            {"op": "neg", "inputs": ["e"], "output": "y"}]})");
  CHECK(kernel_bytes(graph) == units(1, 2));
}

TEST_CASE("an in-place result counts as its own write, and once") {
  const OpGraph graph = graph_of(R"({"tensors": {"h": {"shape": [1000]}, "d": {"shape": [1000]}},
    "ops": [{"name": "a", "op": "add", "inputs": ["h", "d"], "output": "h2", "inplace": {"h2": "h"}},
            {"name": "b", "op": "mul", "inputs": ["h2", 2], "output": "h3", "inplace": {"h3": "h2"}},
            {"name": "c", "op": "relu", "inputs": ["h3"], "output": "y"}]})");
  CHECK(unfused_bytes(graph) == units(4, 3));
  // h is a graph input: its memory is seen from outside, so h3 is written beside y.
  CHECK(kernel_bytes(graph) == units(2, 2));
  CHECK(kernel_bytes(graph, {"a", "b"}) == units(2, 1));
  CHECK(bytes_written(graph, {"a", "b"}, "h3") == kUnit);
  CHECK(bytes_read(graph, {"a", "b", "c"}, "h") == kUnit);
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

TEST_CASE("reductions and losses read each input once and write their results") {
  const OpGraph graph = graph_of(R"({"tensors": {"x": {"shape": [64, 70000]},
      "labels": {"shape": [64], "dtype": "i64"}},
    "ops": [{"name": "var", "op": "var", "inputs": ["x"], "output": "v", "axes": [1]},
            {"name": "all", "op": "sum", "inputs": ["x"], "output": "s"},
            {"name": "best", "op": "argmax", "inputs": ["x"], "output": "a", "axis": 0},
            {"name": "loss", "op": "cross_entropy", "inputs": ["x", "labels"],
             "outputs": ["l", "z"]}]})");
  const std::uint64_t x = 64 * 70000 * 4;
  CHECK(kernel_bytes(graph, {"var"}) == Bytes{x, 64 * 4});
  CHECK(kernel_bytes(graph, {"all"}) == Bytes{x, 4});
  CHECK(kernel_bytes(graph, {"best"}) == Bytes{x, 70000 * 8});
  CHECK(kernel_bytes(graph, {"loss"}) == Bytes{x + 64 * 8, 4 + 64 * 4});
}

TEST_CASE("nll_loss reads one score of each row") {
  const OpGraph graph = graph_of(R"({"tensors": {"p": {"shape": [64, 1000]},
      "labels": {"shape": [64], "dtype": "i32"}},
    "ops": [{"op": "nll_loss", "inputs": ["p", "labels"], "output": "l"}]})");
  CHECK(kernel_bytes(graph) == Bytes{64 * 4 + 64 * 4, 4});
}

TEST_CASE("dropout writes its mask as bytes of bool") {
  const OpGraph graph = graph_of(R"({"dtype": "f16", "tensors": {"x": {"shape": [1000]}},
    "ops": [{"op": "dropout", "inputs": ["x"], "outputs": ["y", "m"], "save_mask": true, "p": 0.1}]})");
  CHECK(kernel_bytes(graph) == Bytes{2000, 2000 + 1000});
}

TEST_CASE("a result that is both consumed and an output is written and not read again") {
  const OpGraph graph = graph_of(R"({"tensors": {"x": {"shape": [1000]}},
    "ops": [{"name": "a", "op": "exp", "inputs": ["x"], "output": "e"},
            {"name": "b", "op": "neg", "inputs": ["e"], "output": "y"}],
    "outputs": ["e", "y"]})");
  CHECK(unfused_bytes(graph) == units(2, 2));
  CHECK(kernel_bytes(graph) == units(1, 2));
  CHECK(limit_bytes(graph) == units(1, 2));
}

TEST_CASE("a value with readers inside and outside of a kernel is written once") {
  const OpGraph graph = graph_of(R"({"tensors": {"x": {"shape": [1000]}},
    "ops": [{"name": "a", "op": "exp", "inputs": ["x"], "output": "e"},
            {"name": "b", "op": "neg", "inputs": ["e"], "output": "n"},
            {"name": "c", "op": "abs", "inputs": ["e"], "output": "m"},
            {"name": "d", "op": "add", "inputs": ["n", "m"], "output": "y"}]})");
  CHECK(kernel_bytes(graph, {"a", "b"}) == units(1, 2));
  CHECK(kernel_bytes(graph, {"c", "d"}) == units(2, 1));
  CHECK(kernel_bytes(graph) == units(1, 1));
}

TEST_CASE("only the elements that a later slice uses are read") {
  const OpGraph graph = graph_of(R"({"tensors": {"x": {"shape": [100, 64]}, "b": {"shape": [64]}},
    "ops": [{"name": "add", "op": "add", "inputs": ["x", "b"], "output": "s"},
            {"name": "cut", "op": "slice", "inputs": ["s"], "output": "y", "axis": 0, "end": 10}]})");
  CHECK(kernel_bytes(graph, {"cut"}) == Bytes{10 * 64 * 4, 10 * 64 * 4});
  CHECK(kernel_bytes(graph) == Bytes{10 * 64 * 4 + 64 * 4, 10 * 64 * 4});
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
  // The last column as well.
  CHECK(last_row(R"({"op": "transpose", "inputs": ["x"], "output": "t"},
                    {"op": "mul", "inputs": ["x", "t"], "output": "g"})") == Bytes{2 * kRow, kRow});
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

TEST_CASE("a kernel whose bytes exceed 2^63 - 1 is refused") {
  const std::string fault = [] {
    const OpGraph graph =
        graph_of(R"({"tensors": {"x": {"shape": [4611686018427387904], "dtype": "i8"},
        "y": {"shape": [4611686018427387904], "dtype": "i8"}},
      "ops": [{"name": "sum", "op": "add", "inputs": ["x", "y"], "output": "z"}]})");
    try {
      kernel_bytes(graph);
    } catch (const std::exception& error) {
      return std::string(error.what());
    }
    return std::string();
  }();
  CHECK(fault == "t: /ops/0: the kernel of \"sum\" moves more than 9223372036854775807 bytes");
}

TEST_CASE("what is needed outside of a kernel may be told where the graph has other readers") {
  const OpGraph graph = graph_of(R"({"tensors": {"x": {"shape": [1000]}},
    "ops": [{"op": "relu", "inputs": ["x"], "output": "r"},
            {"op": "exp", "inputs": ["r"], "output": "e"},
            {"op": "abs", "inputs": ["r"], "output": "a"}]})");
  TrafficCounter counter(graph, known_devices().front());
  const Kernel kernel = {0, 1};
  CHECK(counter.bytes(kernel) == units(1, 2));
  counter.phases().set_needed([](const Outline::Result& result) {
    return result.output ? std::nullopt : std::optional(false);
  });
  CHECK(counter.bytes(kernel) == units(1, 1));
  counter.phases().set_needed(nullptr);
  CHECK(counter.bytes(kernel) == units(1, 2));
}
