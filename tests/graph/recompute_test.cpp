#include "graph/recompute.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "graph/graph_text.hpp"

namespace fusecalc {
namespace {

using testing::graph_of;
using testing::op_called;

// "exp(x)": an op and the names of what it reads.
std::string shown(const OpGraph& graph, OpId op) {
  std::string text = graph.ops[op].name + "(";
  for (const Operand& operand : graph.ops[op].operands) {
    if (text.back() != '(') text += ", ";
    text += graph.tensors[operand.tensor].name + "#" + std::to_string(operand.tensor);
  }
  return text + ")";
}

const char* const kTwoReaders = R"({"tensors": {"x": {"shape": [4, 6]}},
    "ops": [{"name": "a", "op": "exp", "inputs": ["x"], "output": "p"},
            {"name": "b", "op": "relu", "inputs": ["p"], "output": "q"},
            {"name": "c", "op": "softmax", "inputs": ["q"], "output": "s"},
            {"name": "d", "op": "sum", "inputs": ["q"], "output": "t", "axis": 0}]})";

TEST_CASE("the readers of copies read them, all others what was there before") {
  const OpGraph graph = graph_of(kTwoReaders);
  const std::vector<Copies> asked = {
      {.ops = {op_called(graph, "a"), op_called(graph, "b")}, .readers = {op_called(graph, "d")}}};
  const Recomputation made = with_copies(graph, asked);
  std::vector<std::string> ops;
  for (OpId op = 0; op < made.graph.ops.size(); ++op) ops.push_back(shown(made.graph, op));
  CHECK(ops ==
        std::vector<std::string>{"a(x#0)", "a(x#0)", "b(p#1)", "b(p#5)", "c(q#2)", "d(q#6)"});
  CHECK(made.original == std::vector<OpId>{0, 0, 1, 1, 2, 3});
  CHECK(made.id_of == std::vector<OpId>{0, 2, 4, 5});
  CHECK(made.copies == std::vector<std::vector<OpId>>{{1, 3}});
  // The copies' tensors are their own and nobody's output.
  for (const TensorId copy : {TensorId{5}, TensorId{6}}) {
    CHECK(made.graph.tensors[copy].storage == copy);
    CHECK(!made.graph.tensors[copy].output);
    CHECK(made.graph.readers[copy].size() == 1);
  }
  CHECK(made.graph.readers[2].size() == 1);
}

TEST_CASE("views of what is copied are copied, other views are shared") {
  const OpGraph graph = graph_of(R"({"tensors": {"x": {"shape": [4, 6]}, "y": {"shape": [6, 4]}},
      "ops": [{"op": "permute_view", "inputs": ["y"], "output": "yt", "perm": [1, 0]},
              {"name": "a", "op": "add", "inputs": ["x", "yt"], "output": "p"},
              {"op": "permute_view", "inputs": ["p"], "output": "pt", "perm": [1, 0]},
              {"name": "b", "op": "softmax", "inputs": ["pt"], "output": "s"},
              {"name": "c", "op": "sum", "inputs": ["pt"], "output": "t", "axis": 0}]})");
  const std::vector<Copies> asked = {
      {.ops = {op_called(graph, "a")}, .readers = {op_called(graph, "c")}}};
  const OpGraph made = with_copies(graph, asked).graph;
  const OpId reader = op_called(made, "c");
  const Tensor& view = made.tensors[made.ops[reader].operands[0].tensor];
  CHECK(view.name == "pt");
  const OpId copy = made.tensors[view.value].producer;
  CHECK(made.ops[copy].name == "a");
  CHECK(made.tensors[made.ops[copy].operands[1].tensor].view_of ==
        graph.tensors[graph.ops[op_called(graph, "a")].operands[1].tensor].view_of);
  const std::vector<OpId> readers(made.readers[view.value].begin(), made.readers[view.value].end());
  CHECK(readers == std::vector<OpId>{reader});
  CHECK(view.window == made.ops[reader].operands[0].tensor);
}

TEST_CASE("copies of several requests stay in an order that can run") {
  const OpGraph graph = graph_of(kTwoReaders);
  const std::vector<Copies> asked = {{.ops = {0}, .readers = {1}}, {.ops = {1}, .readers = {3}}};
  const OpGraph made = with_copies(graph, asked).graph;
  for (OpId op = 0; op < made.ops.size(); ++op) {
    for (const OpId earlier : made.before[op]) CHECK(earlier < op);
  }
}

TEST_CASE("what updates memory, or reads what is updated, is not computed again") {
  const OpGraph graph = graph_of(R"({"tensors": {"x": {"shape": [4, 6]}, "m": {"shape": [4, 6]}},
      "ops": [{"name": "read", "op": "exp", "inputs": ["m"], "output": "e"},
              {"name": "update", "op": "add", "inputs": ["m", "x"], "output": "n",
               "inplace": {"n": "m"}},
              {"name": "after", "op": "mul", "inputs": ["n", "e"], "output": "r"},
              {"name": "rows", "op": "softmax", "inputs": ["r"], "output": "s"},
              {"name": "turn", "op": "transpose", "inputs": ["s"], "output": "t"}]})");
  CHECK(!may_recompute(graph, op_called(graph, "read")));
  CHECK(!may_recompute(graph, op_called(graph, "update")));
  CHECK(may_recompute(graph, op_called(graph, "after")));
  CHECK(!may_recompute(graph, op_called(graph, "rows")));
  CHECK(may_recompute(graph, op_called(graph, "turn")));
}

}  // namespace
}  // namespace fusecalc
