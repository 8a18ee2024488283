#include "profile/op_order.hpp"

#include <doctest/doctest.h>

#include <string>

#include "graph/graph_text.hpp"

using namespace fusecalc;
using namespace fusecalc::testing;

namespace {

std::string text_of(const OpGraph& graph, const OpOrder& order) {
  std::string text;
  for (const OpId op : order) text += graph.ops[op].name + " ";
  return text;
}

}  // namespace

TEST_CASE("compilers run products as written, and other ops where they are first used") {
  const OpGraph graph = graph_of(R"({"dtype": "f32", "tensors": {"x": {"shape": [64, 64]},
      "t": {"shape": [64, 64]}, "w": {"shape": [64, 64]}, "v": {"shape": [64, 64]}},
    "ops": [{"name": "table", "op": "cos", "inputs": ["t"], "output": "c"},
            {"name": "norm", "op": "softmax", "inputs": ["x"], "axis": -1, "output": "n"},
            {"name": "gate", "op": "matmul", "inputs": ["n", "w"], "output": "h"},
            {"name": "act", "op": "silu", "inputs": ["h"], "output": "g"},
            {"name": "up", "op": "matmul", "inputs": ["n", "v"], "output": "u"},
            {"name": "twice", "op": "mul", "inputs": ["c", "c"], "output": "d"},
            {"name": "mul", "op": "mul", "inputs": ["g", "u"], "output": "m"},
            {"name": "turn", "op": "mul", "inputs": ["m", "d"], "output": "y"},
            {"name": "last", "op": "exp", "inputs": ["c"], "output": "z"}]})");
  CHECK(text_of(graph, written_order(graph)) == "table norm gate act up twice mul turn last ");
  // `norm` is first used by `gate`; all else that is no product is needed for `turn` first.
  CHECK(text_of(graph, order_of_use(graph)) == "norm gate up table act twice mul turn last ");
}
