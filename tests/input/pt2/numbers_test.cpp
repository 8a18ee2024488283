// What a program computes of numbers alone.

#include <doctest/doctest.h>

#include "support/models.hpp"
#include "support/pt2_files.hpp"
#include "support/words.hpp"

using namespace fusecalc;
using namespace fusecalc::testing;

namespace {

using Json = nlohmann::json;

}  // namespace

TEST_CASE("pt2: a known condition selects what it selects") {
  ProgramText text;
  text.input("x", {4}).tensor("one", {4}, {}, kBool).tensor("w", {4}).tensor("y", {4});
  text.node("ones", {{"size", Json{4}}}, {"one"});
  text.node("where", {{"condition", "one"}, {"self", "x"}, {"other", 0}}, {"w"});
  text.node("relu", {{"self", "w"}}, {"y"}).output("y");
  CHECK(calls_of(read(text)) == Words{"relu(x)"});
}

TEST_CASE("pt2: ops of numbers alone are numbers") {
  ProgramText text;
  text.input("x", {2, 4}).tensor("one", {}).tensor("all", {2, 4}).tensor("part", {2, 4});
  text.tensor("less", {2, 4}).tensor("y", {2, 4});
  // What the mean of 8 elements hands back: 1 / 8, of which the logarithm is taken.
  text.node("full", {{"size", Json::array()}, {"fill_value", 1}}, {"one"});
  text.node("expand", {{"self", "one"}, {"size", Json{2, 4}}}, {"all"});
  text.node("div", {{"self", "all"}, {"other", 8}}, {"part"});
  text.node("neg", {{"self", "part"}}, {"less"});
  text.node("mul", {{"self", "x"}, {"other", "less"}}, {"y"}).output("y");
  const Model model = read(text);
  CHECK(calls_of(model) == Words{"mul(x, number)"});
  CHECK(std::get<double>(model.graph.ops[0].inputs[1]) == -0.125);
  CHECK(model.origin.opaque == 0);
  CHECK(unfused(model) == 4 * 2 * 8);
}

TEST_CASE("pt2: a mask of numbers alone selects one of two, and not true is false") {
  for (const bool hides : {false, true}) {
    CAPTURE(hides);
    ProgramText text;
    text.input("x", {2, 4}).tensor("all", {2, 4}, {}, kBool).tensor("none", {2, 4}, {}, kBool);
    text.tensor("y", {2, 4}).tensor("z", {2, 4});
    text.node("ones", {{"size", Json{2, 4}}}, {"all"});
    text.node("bitwise_not", {{"self", "all"}}, {"none"});
    text.node("masked_fill", {{"self", "x"}, {"mask", hides ? "all" : "none"}, {"value", 0.5}},
              {"y"});
    text.node("add", {{"self", "y"}, {"other", "x"}}, {"z"}).output("z");
    CHECK(calls_of(read(text)) == (hides ? Words{"add(number, x)"} : Words{"add(x, x)"}));
  }
}
