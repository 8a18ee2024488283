// Graphs inside of graphs: branches, loops and functions.

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "graph/op_graph.hpp"
#include "input/onnx/proto.hpp"
#include "input/onnx/reading.hpp"
#include "traffic/graph_bytes.hpp"

namespace fusecalc {
namespace {

using namespace proto;
using namespace testing;

using Lines = Words;

TEST_CASE("onnx: a known condition selects a branch") {
  const auto branch = [](std::string_view type) {
    return Graph{.nodes = {node(type, {"x"}, {"r"})}, .outputs = {value("r", {4})}}.encoded();
  };
  const Graph graph{.nodes = {node("Equal", {"one", "two"}, {"same"}),
                              node("If", {"same"}, {"y"},
                                   {Message().text(1, "then_branch").message(6, branch("Exp")),
                                    Message().text(1, "else_branch").message(6, branch("Tanh"))})},
                    .inputs = {value("x", {4})},
                    .outputs = {value("y", {4})},
                    .constants = {integers("one", {1}), integers("two", {2})}};
  CHECK(ops_of(read(proto::model(graph))) == Lines{"tanh(x) -> r"});
}

TEST_CASE("onnx: functions are inlined") {
  const Message twice = Message()
                            .text(1, "Twice")
                            .text(4, "a")
                            .text(5, "b")
                            .message(7, node("Exp", {"a"}, {"t"}))
                            .message(7, node("Exp", {"t"}, {"b"}))
                            .text(10, "local");
  const Graph graph{
      .nodes = {node("Twice", {"x"}, {"m"}, {}, "local"), node("Twice", {"m"}, {"y"}, {}, "local")},
      .inputs = {value("x", {4})},
      .outputs = {value("y", {4})}};
  CHECK(ops_of(read(proto::model(graph, 20, {twice}))).size() == 4);
}

// y by a condition that is not known; each branch has the given nodes and writes r.
Graph conditional(const std::vector<Message>& then_nodes, const std::vector<Message>& else_nodes) {
  const auto branch = [](const char* name, const std::vector<Message>& nodes) {
    const Graph graph{.nodes = nodes, .outputs = {value("r", {8, 16})}};
    return Message().text(1, name).message(6, graph.encoded());
  };
  return {.nodes = {node("If", {"c"}, {"y"},
                         {branch("then_branch", then_nodes), branch("else_branch", else_nodes)})},
          .inputs = {value("c", {}, kBool), value("x", {8, 32}), value("w", {32, 16}),
                     value("u", {32, 16}), value("other", {100})},
          .outputs = {value("y", {8, 16})}};
}

TEST_CASE("onnx: an open condition reads what its branches take from around it") {
  const Model model =
      read(proto::model(conditional({node("MatMul", {"x", "w"}, {"p"}), node("Relu", {"p"}, {"r"})},
                                    {node("MatMul", {"x", "u"}, {"r"})})));
  CHECK(ops_of(model) == Lines{"custom(c, u, w, x) -> y"});
  CHECK(testing::unfused_bytes(build_graph(model.graph, {})).total() ==
        1 + 4 * (8 * 32 + 32 * 16 + 32 * 16 + 8 * 16));
}

TEST_CASE("onnx: branches read no numbers that are constants around them") {
  Graph graph = conditional({node("Add", {"x", "two"}, {"r"})}, {node("Add", {"x", "two"}, {"r"})});
  graph.constants = {real("two", 2)};
  CHECK(ops_of(read(proto::model(graph))) == Lines{"custom(c, x) -> y"});
}

TEST_CASE("onnx: graphs inside of graphs read what is around them all, and not their own values") {
  const Message weight = Message().number(1, 16).number(2, kFloat).text(8, "bias");
  Graph step{.nodes = {node("Relu", {"carried"}, {"own"}), node("MatMul", {"x", "w"}, {"product"}),
                       node("Add", {"product", "bias"}, {"sum"}),
                       node("If", {"go"}, {"r"},
                            {Message()
                                 .text(1, "then_branch")
                                 .message(6, Graph{.nodes = {node("Add", {"sum", "own"}, {"s"}),
                                                             node("Mul", {"s", "z"}, {"t"})},
                                                   .outputs = {value("t", {8, 16})}}
                                                 .encoded())})},
             .inputs = {value("i", {}, kInt64), value("go", {}, kBool), value("carried", {8, 16})},
             .outputs = {value("go", {}, kBool), value("r", {8, 16})},
             .constants = {weight}};
  const Graph graph{.nodes = {node("Loop", {"n", "", "first"}, {"y"},
                                   {Message().text(1, "body").message(6, step.encoded())})},
                    .inputs = {value("n", {}, kInt64), value("first", {8, 16}), value("x", {8, 32}),
                               value("w", {32, 16}), value("z", {8, 16})},
                    .outputs = {value("y", {8, 16})}};
  CHECK(ops_of(read(proto::model(graph))) == Lines{"custom(n, first, w, x, z, bias) -> y"});
}

TEST_CASE("onnx: a branch that reads what nothing wrote is refused") {
  CHECK(
      refusal(proto::model(
          conditional({node("Relu", {"hidden"}, {"r"})}, {node("Relu", {"hidden"}, {"r"})}))) ==
      "m.onnx: node \"node_y\" (If): its input \"hidden\" is not known: no earlier node writes it");
}

TEST_CASE("onnx: branches inside of a function read the values of its call") {
  const Graph inner = conditional({node("Add", {"a", "a"}, {"r"})}, {node("Exp", {"a"}, {"r"})});
  Message function = Message().text(1, "Choose").text(4, "c").text(4, "a").text(5, "y");
  function.message(7, inner.nodes[0]).text(10, "local");
  const Graph graph{.nodes = {node("Choose", {"c", "x"}, {"y"}, {}, "local")},
                    .inputs = {value("c", {}, kBool), value("x", {8, 16}), value("a", {3})},
                    .outputs = {value("y", {8, 16})}};
  CHECK(ops_of(read(proto::model(graph, 20, {function}))) == Lines{"custom(c, x) -> y.node_y"});
}

}  // namespace
}  // namespace fusecalc
