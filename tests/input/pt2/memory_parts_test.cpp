// Memory that a program writes part by part.

#include <doctest/doctest.h>

#include <string>

#include "support/models.hpp"
#include "support/pt2_files.hpp"
#include "support/words.hpp"

using namespace fusecalc;
using namespace fusecalc::testing;

namespace {

using Json = nlohmann::json;

}  // namespace

TEST_CASE("pt2: memory that is written part by part is what the parts are joined to") {
  ProgramText text;
  text.input("a", {4, 6}).input("b", {4, 2}).tensor("e", {4, 8});
  text.tensor("first", {4, 8}).tensor("whole", {4, 8}).tensor("y", {4, 8});
  text.node("empty", {{"size", Json{4, 8}}}, {"e"});
  text.node("slice_scatter", {{"self", "e"}, {"src", "a"}, {"dim", 1}, {"start", 0}, {"end", 6}},
            {"first"});
  text.node("slice_scatter",
            {{"self", "first"}, {"src", "b"}, {"dim", 1}, {"start", 6}, {"end", 9}}, {"whole"});
  text.node("relu", {{"self", "whole"}}, {"y"}).output("y");
  const Model model = read(text);
  CHECK(calls_of(model) == Words{"concat(a, b)", "relu(slice_scatter)"});
  CHECK(unfused(model) == 4 * 4 * 32);

  // The same in place.
  ProgramText placed;
  placed.input("a", {4, 6}).input("b", {4, 2}).tensor("e", {4, 8}).tensor("y", {4, 8});
  placed.tensor("l", {4, 6}, {8, 1}).tensor("r", {4, 2}, {8, 1});
  placed.tensor("l2", {4, 6}, {8, 1}).tensor("r2", {4, 2}, {8, 1});
  placed.node("empty", {{"size", Json{4, 8}}}, {"e"});
  placed.node("slice", {{"self", "e"}, {"dim", 1}, {"start", 0}, {"end", 6}}, {"l"});
  placed.node("copy_", {{"self", "l"}, {"src", "a"}}, {"l2"});
  placed.node("slice", {{"self", "e"}, {"dim", 1}, {"start", 6}, {"end", 8}}, {"r"});
  placed.node("copy_", {{"self", "r"}, {"src", "b"}}, {"r2"});
  placed.node("relu", {{"self", "e"}}, {"y"}).output("y");
  CHECK(unfused(read(placed)) == 4 * 4 * 32);
}

TEST_CASE("pt2: rows that are written one after the other are joined once") {
  // Of `steps` rows of e, each the relu of one of x.
  const auto program = [](int steps, bool in_place) {
    ProgramText text;
    text.input("x", {1, 16}).tensor("e", {steps, 16}).tensor("y", {steps, 16});
    text.node("empty", {{"size", Json{steps, 16}}}, {"e"});
    std::string whole = "e";
    std::string row = "x";
    for (int i = 0; i < steps; ++i) {
      const std::string next = "r" + std::to_string(i);
      text.tensor(next, {1, 16}).tensor(next + "s", {16}).tensor(next + "c", {16});
      text.tensor(next + "w", {steps, 16});
      text.node("relu", {{"self", row}}, {next});
      text.node("squeeze", {{"self", next}, {"dim", 0}}, {next + "s"});
      if (in_place) {
        text.tensor(next + "v", {16});
        text.node("select", {{"self", "e"}, {"dim", 0}, {"index", i}}, {next + "v"});
        text.node("copy_", {{"self", next + "v"}, {"src", next + "s"}}, {next + "c"});
      } else {
        text.node("select_scatter",
                  {{"self", whole}, {"src", next + "s"}, {"dim", 0}, {"index", i}}, {next + "w"});
        whole = next + "w";
      }
      row = next;
    }
    text.node("relu", {{"self", whole}}, {"y"}).output("y");
    return read(text);
  };
  for (const bool in_place : {false, true}) {
    CAPTURE(in_place);
    const Words ops = calls_of(program(3, in_place));
    CHECK(ops.size() == 5);
    CHECK(ops[3].starts_with("concat(relu, relu_2, relu_3)"));
    // Each row is read and written by its relu, and by the copy that joins them; relu of all.
    CHECK(unfused(program(40, in_place)) == 4 * 6 * 40 * 16);
  }
}

TEST_CASE("pt2: memory that was a number is none once a part of a part of it is written") {
  ProgramText text;
  text.input("a", {2, 3}).tensor("e", {4, 8}).tensor("y", {4, 8});
  text.tensor("rows", {2, 8}, {8, 1}).tensor("part", {2, 3}, {8, 1}).tensor("new", {2, 3}, {8, 1});
  text.node("zeros", {{"size", Json{4, 8}}}, {"e"});
  text.node("slice", {{"self", "e"}, {"dim", 0}, {"start", 0}, {"end", 2}}, {"rows"});
  text.node("slice", {{"self", "rows"}, {"dim", 1}, {"start", 0}, {"end", 3}}, {"part"});
  text.node("copy_", {{"self", "part"}, {"src", "a"}}, {"new"});
  text.node("relu", {{"self", "e"}}, {"y"}).output("y");
  const Model model = read(text);
  CHECK(rows_of(model) == Words{"full", "custom", "relu"});
  CHECK(unfused(model) == 4 * (32 + 2 * 6 + 2 * 32));
}

TEST_CASE("pt2: what numbers leave of memory that is written in part is full of them") {
  ProgramText text;
  text.input("a", {4, 6}).input("b", {4, 1}).tensor("e", {4, 8}).tensor("first", {4, 8});
  text.tensor("y", {4, 8});
  text.node("zeros", {{"size", Json{4, 8}}}, {"e"});
  text.node("slice_scatter", {{"self", "e"}, {"src", "a"}, {"dim", 1}, {"start", 0}, {"end", 6}},
            {"first"});
  text.node("slice_scatter",
            {{"self", "first"}, {"src", "b"}, {"dim", 1}, {"start", 6}, {"end", 7}}, {"y"});
  const Model model = read(text.output("y"));
  // The last column stays 0; it is written alone, and then with the others.
  CHECK(calls_of(model) == Words{"full()", "concat(a, b, slice_scatter.full)"});
  CHECK(unfused(model) == 4 * (4 + 24 + 4 + 4 + 32));

  // Each second column, as the backward of x[:, 1::2].
  ProgramText stepped;
  stepped.input("a", {4, 4}).tensor("e", {4, 8}).tensor("y", {4, 8});
  stepped.node("zeros", {{"size", Json{4, 8}}}, {"e"});
  stepped.node("slice_scatter",
               {{"self", "e"}, {"src", "a"}, {"dim", 1}, {"start", 1}, {"end", 9}, {"step", 2}},
               {"y"});
  const Model steps = read(stepped.output("y"));
  CHECK(steps.origin.opaque == 0);
  CHECK(rows_of(steps) == Words{"reshape", "full", "concat", "reshape"});
  CHECK(unfused(steps) == 4 * (16 + 16 + 16 + 32));
}
