// ATen ops whose results depend on where their elements are: the rows that they become, and whose
// memory scatters overwrite.

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

// x [8, 4] of f32, and i [2, 4] and n [3], which are indices.
ProgramText with_inputs() {
  ProgramText text;
  text.input("x", {8, 4}).input("i", {2, 4}).input("n", {3});
  text.tensor("i", {2, 4}, {}, kLong).tensor("n", {3}, {}, kLong);
  return text;
}

// Gives the last node of a program one more argument, a word.
void add_word(ProgramText& text, const std::string& name, const std::string& word) {
  text.graph["nodes"].back()["inputs"].push_back({{"name", name}, {"arg", {{"as_string", word}}}});
}

}  // namespace

TEST_CASE("pt2: indices of neighbouring axes that count up are a copy; others choose") {
  struct Case {
    int step;
    Json indices;
    std::vector<ProgramText::Size> shape;
    bool copies;
  };
  const std::vector<Case> cases = {{1, {"rows", "columns"}, {8, 1, 4}, true},
                                   {2, {"rows", "columns"}, {8, 1, 4}, false},
                                   {1, {"columns", "rows"}, {8, 1, 4}, false},
                                   {1, {"rows", "rows"}, {8, 1, 1}, false}};
  for (const Case& each : cases) {
    CAPTURE(each.step);
    CAPTURE(each.indices.dump());
    ProgramText text = with_inputs();
    text.tensor("a", {8}, {}, kLong).tensor("b", {4}, {}, kLong);
    text.tensor("rows", {8, 1, 1}, {}, kLong).tensor("columns", {1, 4}, {}, kLong);
    text.tensor("y", each.shape).tensor("z", each.shape);
    text.node("arange", {{"end", 8}}, {"a"});
    text.node("arange", {{"start", 0}, {"end", 4}, {"step", each.step}}, {"b"});
    text.node("view", {{"self", "a"}, {"size", Json{8, 1, 1}}}, {"rows"});
    text.node("unsqueeze", {{"self", "b"}, {"dim", 0}}, {"columns"});
    text.node("index", {{"self", "x"}, {"indices", each.indices}}, {"y"});
    text.node("relu", {{"self", "y"}}, {"z"});
    text.output("z");
    const Model model = read(text);
    CHECK((rows_of(model) == Words{"reshape", "copy", "relu"}) == each.copies);
    CHECK(model.origin.opaque == 0);
  }
}

TEST_CASE("pt2: padding counts from the last axis on") {
  ProgramText text = with_inputs();
  text.tensor("y", {11, 5});
  text.node("constant_pad_nd", {{"self", "x"}, {"pad", Json{0, 1, 2, 1}}, {"value", 0.5}}, {"y"});
  text.output("y");
  const Model model = read(text);
  CHECK(rows_of(model) == Words{"pad"});
  CHECK(unfused(model) == 4 * (32 + 55));
  using Dims = std::vector<WrittenDim>;
  const auto& attributes = model.graph.ops[0].attributes;
  CHECK(std::get<Dims>(attributes[0].value) == Dims{std::int64_t{2}, std::int64_t{0}});
  CHECK(std::get<Dims>(attributes[1].value) == Dims{std::int64_t{1}, std::int64_t{1}});
}

TEST_CASE("pt2: padding with elements of its own is one op") {
  const auto border_of = [](const std::string& op, const std::string& counts,
                            const std::string& mode) {
    ProgramText text = with_inputs();
    text.tensor("y", {8, 7});
    text.node(op, {{"self", "x"}, {counts, Json{2, 1}}}, {"y"});
    if (!mode.empty()) add_word(text, "mode", mode);
    const Model model = read(text.output("y"));
    REQUIRE(rows_of(model) == Words{"pad"});
    CHECK(unfused(model) == 4 * (32 + 56));
    return std::get<std::string>(model.graph.ops[0].attributes.back().value);
  };
  CHECK(border_of("pad", "pad", "reflect") == "reflect");
  CHECK(border_of("pad", "pad", "circular") == "circular");
  CHECK(border_of("reflection_pad1d", "padding", "") == "reflect");
  CHECK(border_of("replication_pad1d", "padding", "") == "replicate");
}

TEST_CASE("pt2: turned matrices are read backwards, and identities are made of their places") {
  ProgramText text = with_inputs();
  text.tensor("a", {4, 8}, {1, 4}).tensor("b", {8, 4}).tensor("e", {8, 8});
  text.node("rot90", {{"self", "x"}, {"k", -3}, {"dims", Json{0, 1}}}, {"a"});
  text.node("rot90", {{"self", "x"}, {"k", 2}, {"dims", Json{0, 1}}}, {"b"});
  text.node("eye", {{"n", 8}}, {"e"});
  for (const char* name : {"a", "b", "e"}) text.output(name);
  const Model model = read(text);
  CHECK(rows_of(model) == Words{"flip", "permute_view", "flip", "iota", "one_hot"});
  // x is read and turned twice; eight places of 8 bytes, and the ones of each.
  CHECK(unfused(model) == 4 * 4 * 32 + 2 * 64 + 4 * 64);
}

TEST_CASE("pt2: what a scatter reaches does not count where it leaves itself out") {
  ProgramText text = with_inputs();
  text.input("g", {2, 4}).tensor("y", {8, 4});
  text.node("scatter_reduce",
            {{"self", "x"}, {"dim", 0}, {"index", "i"}, {"src", "g"}, {"include_self", false}},
            {"y"});
  add_word(text, "reduce", "amax");
  const Model model = read(text.output("y"));
  CHECK(rows_of(model) ==
        Words{"copy", "full", "expand_view", "scatter_elements", "scatter_elements"});
  // x is copied; one number goes to 8 places of 8 bytes; then the largest of what is there and of
  // g.
  CHECK(unfused(model) == 4 * 64 + 4 + (4 + 64 + 32) + (32 + 64 + 32 + 32));
}

TEST_CASE("pt2: windows that lie side by side are one copy, others are parts that are joined") {
  const auto model_of = [](int kernel, int stride, int padding,
                           const std::vector<ProgramText::Size>& result) {
    ProgramText text;
    text.input("x", {2, 3, 8, 8}).tensor("y", result);
    text.node("im2col",
              {{"self", "x"},
               {"kernel_size", Json{kernel, kernel}},
               {"dilation", Json{1, 1}},
               {"padding", Json{padding, padding}},
               {"stride", Json{stride, stride}}},
              {"y"});
    text.output("y");
    return read(text);
  };
  const Model patches = model_of(4, 4, 0, {2, 48, 4});
  CHECK(rows_of(patches) == Words{"reshape", "transpose", "reshape"});
  CHECK(unfused(patches) == 4 * 2 * 384);
  const Model overlapping = model_of(3, 1, 1, {2, 27, 64});
  CHECK(overlapping.origin.opaque == 0);
  // x with a border of zeros, and nine times its elements.
  CHECK(unfused(overlapping) == 4 * (384 + 600 + 600 + 9 * 384));
  ProgramText text;
  text.input("c", {2, 48, 4}).tensor("y", {2, 3, 8, 8});
  text.node("col2im",
            {{"self", "c"},
             {"output_size", Json{8, 8}},
             {"kernel_size", Json{4, 4}},
             {"dilation", Json{1, 1}},
             {"padding", Json{0, 0}},
             {"stride", Json{4, 4}}},
            {"y"});
  CHECK(rows_of(read(text.output("y"))) == Words{"reshape", "transpose", "reshape"});
}

TEST_CASE("pt2: a scatter overwrites a copy, unless nothing reads the tensor afterwards") {
  for (const bool read_later : {true, false}) {
    CAPTURE(read_later);
    ProgramText text = with_inputs();
    text.tensor("r", {8, 4}).tensor("g", {2, 4}).tensor("s", {8, 4}).tensor("z", {8, 4});
    text.node("relu", {{"self", "x"}}, {"r"});
    text.node("gather", {{"self", "x"}, {"dim", 0}, {"index", "i"}}, {"g"});
    text.node("scatter_add", {{"self", "r"}, {"dim", 0}, {"index", "i"}, {"src", "g"}}, {"s"});
    text.node("mul", {{"self", "s"}, {"other", read_later ? "r" : "x"}}, {"z"});
    text.output("z");
    const Model model = read(text);
    // r: 32 + 32. g: 8 and 8 indices of 8 bytes, 8. s: 8 + 8 + 8 indices, 8. z: 32 + 32, 32.
    const std::uint64_t others = 4 * (64 + 8 + 16 + 8 + 8 + 8 + 16 + 8 + 96);
    if (read_later) {
      CHECK(rows_of(model) == Words{"relu", "gather_elements", "copy", "scatter_elements", "mul"});
      CHECK(unfused(model) == others + std::uint64_t{4} * 64);
    } else {
      CHECK(rows_of(model) == Words{"relu", "gather_elements", "scatter_elements", "mul"});
      CHECK(unfused(model) == others);
    }
  }
}

TEST_CASE("pt2: an input is overwritten by an op in place alone") {
  for (const bool in_place : {true, false}) {
    CAPTURE(in_place);
    ProgramText text = with_inputs();
    text.input("v", {3, 4}).tensor("y", {8, 4});
    text.node(in_place ? "index_put_" : "index_put",
              {{"self", "x"}, {"indices", Json{"n"}}, {"values", "v"}, {"accumulate", true}},
              {"y"});
    text.output("y");
    const Model model = read(text);
    const std::uint64_t put = 4 * (12 + 6 + 12 + 12);
    CHECK(unfused(model) == put + (in_place ? 0 : 4 * 64));
    CHECK(rows_of(model) == (in_place ? Words{"scatter_update"} : Words{"copy", "scatter_update"}));
  }
}

TEST_CASE("pt2: a scatter into numbers makes the tensor that it overwrites") {
  ProgramText text = with_inputs();
  text.input("g", {2, 4}).tensor("z", {8, 4}).tensor("s", {8, 4}).tensor("t", {8, 4});
  text.tensor("u", {8, 4});
  text.node("zeros_like", {{"self", "x"}}, {"z"});
  text.node("scatter_add", {{"self", "z"}, {"dim", 0}, {"index", "i"}, {"src", "g"}}, {"s"});
  text.node("scatter_add", {{"self", "z"}, {"dim", 0}, {"index", "i"}, {"src", "g"}}, {"t"});
  text.node("add", {{"self", "s"}, {"other", "t"}}, {"u"});
  text.output("u");
  // Each its own.
  CHECK(rows_of(read(text)) ==
        Words{"full", "scatter_elements", "full", "scatter_elements", "add"});
}

TEST_CASE("pt2: a number goes to the rows that indices name, or to where a mask is true") {
  ProgramText text = with_inputs();
  text.input("m", {8}).tensor("m", {8}, {}, kBool).input("v", {1}).input("u", {3, 4});
  text.input("w", {4}).tensor("f", {8, 4}).tensor("p", {8, 4}).tensor("c", {8, 4});
  text.tensor("r", {8, 4});
  text.node("index_fill", {{"self", "x"}, {"dim", 0}, {"index", "n"}, {"value", 0.5}}, {"f"});
  text.node("index_put", {{"self", "x"}, {"indices", Json{"m"}}, {"values", "v"}}, {"p"});
  text.node("index_put", {{"self", "x"}, {"indices", Json{"m"}}, {"values", "u"}}, {"c"});
  text.node("index_put", {{"self", "x"}, {"indices", Json{"m"}}, {"values", "w"}}, {"r"});
  text.output("f").output("p").output("c").output("r");
  const Model model = read(text);
  // As many rows as a mask chooses are not known: those of u are a custom op.
  CHECK(rows_of(model) ==
        Words{"full", "copy", "scatter_update", "reshape", "where", "custom", "reshape", "where"});
  // Three rows; all, copied; the rows, indices and their places; x, m, v and the result; x, m, u
  // and the result; x, m, w and the result.
  CHECK(unfused(model) ==
        4 * (12 + 64 + 12 + 12) + 8 * 3 + 4 * (64 + 1) + 8 + 4 * (64 + 12) + 8 + 4 * (64 + 4) + 8);
}

TEST_CASE("pt2: one row of each place of the first axis is gathered") {
  for (const bool counts_up : {true, false}) {
    CAPTURE(counts_up);
    ProgramText text = with_inputs();
    text.input("h", {3, 5, 4}).tensor("a", {3}, {}, kLong).tensor("y", {3, 4}).tensor("z", {3, 4});
    text.node("arange", {{"start", counts_up ? 0 : 1}, {"end", counts_up ? 3 : 4}}, {"a"});
    text.node("index", {{"self", "h"}, {"indices", Json{"a", "n"}}}, {"y"});
    text.node("relu", {{"self", "y"}}, {"z"});
    text.output("z");
    const Model model = read(text);
    if (!counts_up) {
      // One index of both axes.
      CHECK(rows_of(model) == Words{"iota", "fma", "reshape", "gather", "relu"});
      CHECK(unfused(model) == 4 * 4 * 12 + 8 * (3 + 3 * 3 + 3));
      continue;
    }
    CHECK(rows_of(model) == Words{"reshape", "expand_view", "gather_elements", "reshape", "relu"});
    CHECK(unfused(model) == 4 * 4 * 12 + 8 * 3);
  }
}

TEST_CASE("pt2: scans, sorts and extremes with their places") {
  ProgramText text = with_inputs();
  text.tensor("c", {8, 4}).tensor("v", {8, 2}).tensor("p", {8, 2}, {}, kLong);
  text.tensor("m", {8}).tensor("q", {8}, {}, kLong).tensor("o", {8, 4}, {}, kLong);
  text.tensor("a", {4}, {}, kLong);
  text.node("cumsum", {{"self", "x"}, {"dim", 1}}, {"c"});
  text.node("topk", {{"self", "x"}, {"k", 2}, {"dim", -1}}, {"v", "p"});
  text.node("max", {{"self", "x"}, {"dim", 1}}, {"m", "q"});
  text.node("argsort", {{"self", "x"}, {"dim", 0}, {"descending", true}}, {"o"});
  text.node("arange", {{"start", 1}, {"end", 9}, {"step", 2}}, {"a"});
  for (const char* name : {"c", "v", "p", "m", "q", "o", "a"}) text.output(name);
  const Model model = read(text);
  CHECK(rows_of(model) == Words{"cumsum", "topk", "max_with_index", "sort", "iota"});
  // 32 read four times; 32, 16 of 4 and of 8 bytes, 8 of both, 32 of 8 and 4 of 8 written: the
  // values of the argsort are not needed.
  CHECK(unfused(model) == 4 * (4 * 32 + 32 + 16 + 8) + 8 * (16 + 8 + 32 + 4));
  CHECK(model.origin.missing.empty());
}
