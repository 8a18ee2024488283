// Masks that attention does not read, as they are made of places alone.

#include <doctest/doctest.h>

#include <functional>

#include "support/models.hpp"
#include "support/pt2_files.hpp"
#include "support/words.hpp"

using namespace fusecalc;
using namespace fusecalc::testing;

namespace {

using Json = nlohmann::json;

// What becomes of attention over 8 queries and `keys` keys with a mask that `made` adds.
Words attention_with(int keys, const std::function<void(ProgramText&)>& made) {
  ProgramText text;
  text.input("q", {1, 2, 8, 16}).input("k", {1, 2, keys, 16}).input("v", {1, 2, keys, 16});
  text.tensor("mask", {8, keys}, {}, kBool).tensor("o", {1, 2, 8, 16});
  made(text);
  text.node("scaled_dot_product_attention",
            {{"query", "q"}, {"key", "k"}, {"value", "v"}, {"attn_mask", "mask"}}, {"o"});
  text.output("o");
  const Model model = read(text);
  Words words = rows_of(model);
  for (const WrittenAttribute& attribute : model.graph.ops.back().attributes) {
    words.push_back(attribute.name);
  }
  return words;
}

// mask: where the number of a key compares so with that of a query.
void compare_places(ProgramText& text, int keys, const std::string& op, int first) {
  text.tensor("rows", {8}, {}, kLong).tensor("columns", {keys}, {}, kLong);
  text.tensor("row", {8, 1}, {}, kLong);
  text.node("arange", {{"start", first}, {"end", 8 + first}}, {"rows"});
  text.node("arange", {{"end", keys}}, {"columns"});
  text.node("unsqueeze", {{"self", "rows"}, {"dim", 1}}, {"row"});
  text.node(op, {{"self", "columns"}, {"other", "row"}}, {"mask"});
}

}  // namespace

TEST_CASE("pt2: a mask that is made of places alone is `causal` where it is that of causal") {
  const Words causal = {"attention", "causal"};
  const auto compared = [](int keys, const std::string& op, int first) {
    return attention_with(keys, [&](ProgramText& text) { compare_places(text, keys, op, first); });
  };
  CHECK(compared(8, "le", 0) == causal);
  CHECK(compared(8, "lt", 1) == causal);
  CHECK(compared(12, "le", 4) == causal);  // the last query sees the last key
  // Other diagonals, and the other side, stay masks.
  CHECK(compared(12, "le", 0).back() == "attention");
  CHECK(compared(8, "lt", 0).back() == "attention");
  CHECK(compared(8, "ge", 0).back() == "attention");
  const auto triangle = [](const std::string& op, int diagonal, bool negated) {
    return attention_with(8, [&](ProgramText& text) {
      text.tensor("ones", {8, 8}, {}, kBool).tensor("part", {8, 8}, {}, kBool);
      text.node("full", {{"size", Json{8, 8}}, {"fill_value", true}}, {"ones"});
      const std::string made = negated ? "part" : "mask";
      text.node(op, {{"self", "ones"}, {"diagonal", diagonal}}, {made});
      if (negated) text.node("logical_not", {{"self", "part"}}, {"mask"});
    });
  };
  CHECK(triangle("tril", 0, false) == causal);
  CHECK(triangle("triu", 1, true) == causal);
  CHECK(triangle("tril", 1, false).back() == "attention");
  CHECK(triangle("triu", 0, true).back() == "attention");
}

TEST_CASE(
    "pt2: a mask of numbers is causal where it adds minus infinity to later keys, or is 0 there") {
  const Words causal = {"attention", "causal"};
  const auto added = [](const char* number, int diagonal) {
    return attention_with(8, [&](ProgramText& text) {
      text.tensor("all", {8, 8}).tensor("mask", {8, 8});
      text.node("full", {{"size", Json{8, 8}}, {"fill_value", 0}}, {"all"});
      text.graph["nodes"].back()["inputs"][1]["arg"] = {{"as_float", number}};
      text.node("triu", {{"self", "all"}, {"diagonal", diagonal}}, {"mask"});
    });
  };
  CHECK(added("-Infinity", 1) == causal);
  CHECK(added("-Infinity", 0).back() == "attention");
  const auto zeros = [](const std::string& op, const std::string& compare) {
    return attention_with(8, [&](ProgramText& text) {
      text.tensor("ones", {8, 8}).tensor("part", {8, 8});
      text.node("full", {{"size", Json{8, 8}}, {"fill_value", 1}}, {"ones"});
      text.node(op, {{"self", "ones"}, {"diagonal", op == "tril" ? 0 : 1}}, {"part"});
      text.node(compare, {{"self", "part"}, {"other", 0}}, {"mask"});
    });
  };
  CHECK(zeros("tril", "ne") == causal);
  CHECK(zeros("triu", "eq") == causal);
  CHECK(zeros("tril", "eq").back() == "attention");
}

// Positions that a model counts up tell that all of its tokens are of one sequence: keys of the
// same number of jumps so far. `from` is the position before the first, `jump` what is a jump.
Words packed(int from, int jump) {
  return attention_with(8, [&](ProgramText& text) {
    for (const char* name : {"places", "step", "jumps"}) text.tensor(name, {8}, {}, kLong);
    text.tensor("before", {1}, {}, kLong).tensor("jumped", {8}, {}, kBool);
    text.tensor("row", {8, 1}, {}, kLong).tensor("place", {8, 1}, {}, kLong);
    text.tensor("same", {8, 8}, {}, kBool).tensor("seen", {8, 8}, {}, kBool);
    text.node("arange", {{"end", 8}}, {"places"});
    text.node("full", {{"size", Json{1}}, {"fill_value", from}}, {"before"});
    text.node("diff", {{"self", "places"}, {"prepend", "before"}}, {"step"});
    text.node("ne", {{"self", "step"}, {"other", jump}}, {"jumped"});
    text.node("cumsum", {{"self", "jumped"}, {"dim", 0}}, {"jumps"});
    text.node("unsqueeze", {{"self", "jumps"}, {"dim", 1}}, {"row"});
    text.node("eq", {{"self", "jumps"}, {"other", "row"}}, {"same"});
    text.node("unsqueeze", {{"self", "places"}, {"dim", 1}}, {"place"});
    text.node("le", {{"self", "places"}, {"other", "place"}}, {"seen"});
    text.node("bitwise_and", {{"self", "same"}, {"other", "seen"}}, {"mask"});
  });
}

TEST_CASE("pt2: a mask of sequences that are packed is causal where all keys are of one") {
  CHECK(packed(-1, 1) == Words{"attention", "causal"});
  CHECK(packed(-5, 1).back() == "attention");  // the first step is another
  CHECK(packed(-1, 2).back() == "attention");  // each place is a sequence
}

TEST_CASE("pt2: a mask of the last keys before each query is a window where it is causal, too") {
  // With 12 keys, the queries are the last eight.
  const auto within = [](int keys, int window, bool causal) {
    return attention_with(keys, [&](ProgramText& text) {
      compare_places(text, keys, "le", keys - 8);
      text.graph["nodes"].back()["outputs"][0]["as_tensor"]["name"] = "past";
      text.tensor("past", {8, keys}, {}, kBool).tensor("first", {8, 1}, {}, kLong);
      text.tensor("near", {8, keys}, {}, kBool);
      text.node("sub", {{"self", "row"}, {"other", window}}, {"first"});
      text.node("gt", {{"self", "columns"}, {"other", "first"}}, {"near"});
      text.node("bitwise_and", {{"self", causal ? "past" : "near"}, {"other", "near"}}, {"mask"});
    });
  };
  CHECK(within(8, 3, true) == Words{"attention", "causal", "window"});
  CHECK(within(12, 3, true) == Words{"attention", "causal", "window"});
  CHECK(within(8, 8, true) == Words{"attention", "causal"});  // all keys are within it
  CHECK(within(8, 3, false).back() == "attention");
}

TEST_CASE("pt2: causal attention with fewer queries than keys aligns the first ones, by a mask") {
  ProgramText text;
  text.input("q", {1, 2, 8, 16}).input("k", {1, 2, 12, 16}).input("v", {1, 2, 12, 16});
  text.tensor("o", {1, 2, 8, 16});
  text.node("scaled_dot_product_attention",
            {{"query", "q"}, {"key", "k"}, {"value", "v"}, {"is_causal", true}}, {"o"});
  text.output("o");
  const Model model = read(text);
  CHECK(rows_of(model) == Words{"full", "tril", "attention"});
  CHECK(model.graph.ops.back().attributes.empty());
}
