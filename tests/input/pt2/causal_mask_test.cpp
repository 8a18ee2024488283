// Masks that attention does not read, as they are made of places alone.

#include <doctest/doctest.h>

#include <functional>

#include "input/pt2/pt2.hpp"
#include "support/pt2_files.hpp"
#include "support/words.hpp"

using namespace fusecalc;
using namespace fusecalc::testing;

namespace {

using Json = nlohmann::json;

constexpr int kLong = 5;
constexpr int kBool = 12;

Model read(const ProgramText& program) { return read_pt2(program.file(), "m.pt2", {}); }

Words rows_of(const Model& model) {
  Words rows;
  for (const WrittenOp& op : model.graph.ops) rows.push_back(op.op);
  return rows;
}

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
