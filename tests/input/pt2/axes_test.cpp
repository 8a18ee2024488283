// ATen ops that show elements along other axes are views: who reads them reads what they show.

#include <doctest/doctest.h>

#include "graph/op_graph.hpp"
#include "support/models.hpp"
#include "support/pt2_files.hpp"
#include "support/words.hpp"
#include "traffic/graph_bytes.hpp"

using namespace fusecalc;
using namespace fusecalc::testing;

namespace {

using Json = nlohmann::json;

}  // namespace

TEST_CASE("pt2: tensors that broadcast are read as they are, as a loss does") {
  ProgramText text;
  text.input("x", {8, 4}).input("t", {4}).tensor("a", {8, 4}).tensor("b", {8, 4}, {0, 1});
  text.tensor("m", {});
  text.node("broadcast_tensors", {{"tensors", Json{"x", "t"}}}, {"a", "b"});
  text.node("mse_loss", {{"self", "a"}, {"target", "b"}}, {"m"});
  const Model model = read(text.output("m"));
  CHECK(rows_of(model) == Words{"squared_difference", "mean"});
  CHECK(unfused(model) == 4 * ((32 + 4 + 32) + 33));
}

TEST_CASE("pt2: a grid is views of its axes") {
  for (const char* indexing : {"ij", "xy"}) {
    CAPTURE(indexing);
    const bool swapped = std::string_view(indexing) == "xy";
    ProgramText text;
    const std::vector<ProgramText::Size> shape =
        swapped ? std::vector<ProgramText::Size>{5, 3} : std::vector<ProgramText::Size>{3, 5};
    text.input("a", {3}).input("b", {5}).tensor("u", shape, {0, 1}).tensor("v", shape, {1, 0});
    text.tensor("y", shape);
    text.node("meshgrid", {{"tensors", Json{"a", "b"}}}, {"u", "v"});
    text.graph["nodes"].back()["inputs"].push_back(
        {{"name", "indexing"}, {"arg", {{"as_string", indexing}}}});
    text.node("add", {{"self", "u"}, {"other", "v"}}, {"y"});
    const Model model = read(text.output("y"));
    CHECK(model.origin.opaque == 0);
    CHECK(rows_of(model).back() == "add");
    CHECK(unfused(model) == 4 * (3 + 5 + 15));
  }
}

TEST_CASE("pt2: a diagonal reads its own elements") {
  struct Case {
    std::vector<ProgramText::Size> shape;
    std::vector<std::pair<std::string, Json>> arguments;
    std::vector<ProgramText::Size> result;
    std::uint64_t elements;
  };
  const std::vector<Case> cases = {
      {{6, 6}, {}, {6}, 6},
      {{6, 9}, {{"offset", 4}}, {5}, 5},
      {{6, 4}, {{"offset", -1}}, {4}, 4},
      {{3, 5, 5}, {{"dim1", -2}, {"dim2", -1}}, {3, 5}, 15},
      {{5, 3, 7}, {{"dim1", 0}, {"dim2", 2}}, {3, 5}, 15},
  };
  for (const Case& each : cases) {
    ProgramText text;
    text.input("x", each.shape).tensor("d", each.result).tensor("y", each.result);
    std::vector<std::pair<std::string, Json>> arguments = {{"self", "x"}};
    arguments.insert(arguments.end(), each.arguments.begin(), each.arguments.end());
    text.node("diagonal", arguments, {"d"}).node("relu", {{"self", "d"}}, {"y"}).output("y");
    const Model model = read(text);
    CHECK(model.origin.opaque == 0);
    CHECK(unfused(model) == 2 * 4 * each.elements);
  }
}

TEST_CASE("pt2: a trace reads the diagonal alone") {
  const auto model_of = [](const std::vector<ProgramText::Size>& shape) {
    ProgramText text;
    text.input("x", shape).tensor("y", {}).node("trace", {{"self", "x"}}, {"y"}).output("y");
    return read(text);
  };
  const Model square = model_of({6, 6});
  CHECK(rows_of(square).back() == "sum");
  CHECK(square.origin.opaque == 0);
  CHECK(unfused(square) == 4 * (6 + 1));
  CHECK(unfused(model_of({3, 7})) == 4 * (3 + 1));
  CHECK(unfused(model_of({7, 3})) == 4 * (3 + 1));
}

TEST_CASE("pt2: windows side by side are a view, those that overlap are copied") {
  const auto model_of = [](int step, int windows) {
    ProgramText text;
    text.input("x", {4, 30, 2}).tensor("u", {4, windows, 2, 8}).tensor("y", {4, windows, 2, 8});
    text.node("unfold", {{"self", "x"}, {"dimension", 1}, {"size", 8}, {"step", step}}, {"u"});
    text.node("relu", {{"self", "u"}}, {"y"});
    return read(text.output("y"));
  };
  CHECK(model_of(8, 3).origin.opaque == 0);
  CHECK(unfused(model_of(8, 3)) == 2 * 4 * 4 * 24 * 2);
  CHECK(rows_of(model_of(4, 6)) == Words{"custom", "relu"});
}

TEST_CASE("pt2: take reads the elements that it names") {
  ProgramText text;
  text.input("x", {1000, 8}).input("i", {3, 2}).tensor("i", {3, 2}, {}, kLong);
  text.tensor("y", {3, 2}).node("take", {{"self", "x"}, {"index", "i"}}, {"y"}).output("y");
  const Model model = read(text);
  CHECK(rows_of(model) == Words{"reshape", "gather"});
  CHECK(unfused(model) == 4 * (6 + 6) + 8 * 6);
}
