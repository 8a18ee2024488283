// Views, which move nothing themselves, with numbers worked out by hand.

#include <doctest/doctest.h>

#include <cstdint>
#include <string>

#include "graph/graph_text.hpp"
#include "traffic/graph_bytes.hpp"

using namespace fusecalc;
using namespace fusecalc::testing;

namespace {

// The halves of x, 500 elements each.
constexpr const char* kHalves = R"({"tensors": {"x": {"shape": [10, 100]}},
    "ops": [{"op": "split_view", "inputs": ["x"], "outputs": ["l", "r"], "axis": 1},
            {"name": "sigmoid", "op": "sigmoid", "inputs": ["l"], "output": "s"},
            {"name": "silu", "op": "mul", "inputs": ["l", "s"], "output": "g"},
            {"name": "glu", "op": "mul", "inputs": ["g", "r"], "output": "y"}]})";

}  // namespace

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
