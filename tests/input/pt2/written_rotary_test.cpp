// Rotary embeddings that a program writes out: in halves, interleaved, of complex numbers.

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "graph/op_graph.hpp"
#include "support/models.hpp"
#include "support/pt2_files.hpp"
#include "support/results.hpp"
#include "support/words.hpp"

using namespace fusecalc;
using namespace fusecalc::testing;

namespace {

using Json = nlohmann::json;

// Without views.
Words computing_rows_of(const Model& model) {
  Words rows;
  build_graph(model.graph, {});
  for (const WrittenOp& op : model.graph.ops) {
    if (op_named(op.op)->op_class != OpClass::kView) rows.push_back(op.op);
  }
  return rows;
}

// Checks that a program is these ops, without views, and computes what it does where something
// else needs `inner`, a tensor inside of it: then the op is left written out.
void check_rotary(ProgramText text, const Words& rows, const std::string& inner) {
  const Model model = read(text);
  CHECK(computing_rows_of(model) == rows);
  CHECK(model.origin.opaque == 0);
  text.output(inner);
  const Model written = read(text);
  CHECK(computing_rows_of(written).size() > rows.size());
  CHECK(result_of(model) == result_of(written));
}

// Elements of the last of four axes.
void slice(ProgramText& text, const std::string& from, int start, int end, int step,
           const std::string& to) {
  text.node("slice", {{"self", from}, {"dim", 3}, {"start", start}, {"end", end}, {"step", step}},
            {to});
}

struct Halves {
  bool swaps_factors = false;
  bool subtracts = false;  // x cos - turned sin, with the first half of x negated
};

// q cos + cat(-q[4:], q[:4]) sin, of 2 heads of 8 at 3 places, transposed as models do.
ProgramText halves(const Halves& way) {
  ProgramText text;
  text.input("x", {1, 3, 2, 8}).input("c", {1, 1, 3, 8}).input("si", {1, 1, 3, 8});
  text.tensor("q", {1, 2, 3, 8}, {48, 8, 16, 1});
  text.tensor("a", {1, 2, 3, 4}, {48, 8, 16, 1}).tensor("b", {1, 2, 3, 4}, {48, 8, 16, 1});
  for (const char* name : {"n", "m"}) text.tensor(name, {1, 2, 3, 4});
  for (const char* name : {"t", "qc", "ts", "y"}) text.tensor(name, {1, 2, 3, 8});
  text.node("transpose", {{"self", "x"}, {"dim0", 1}, {"dim1", 2}}, {"q"});
  slice(text, "q", 0, 4, 1, "a");
  slice(text, "q", 4, 8, 1, "b");
  text.node("neg", {{"self", way.subtracts ? "a" : "b"}}, {"n"});
  const Json joined = way.subtracts ? Json{"b", "n"} : Json{"n", "a"};
  text.node("cat", {{"tensors", joined}, {"dim", -1}}, {"t"});
  const auto multiply = [&](const char* x, const char* angle, const char* y) {
    text.node("mul",
              {{"self", way.swaps_factors ? angle : x}, {"other", way.swaps_factors ? x : angle}},
              {y});
  };
  multiply("q", "c", "qc");
  multiply("t", "si", "ts");
  const bool swaps = way.swaps_factors && !way.subtracts;
  text.node(way.subtracts ? "sub" : "add",
            {{"self", swaps ? "ts" : "qc"}, {"other", swaps ? "qc" : "ts"}}, {"y"});
  text.output("y");
  return text;
}

// (a cos - b sin, b cos + a sin) of one angle a pair, of which a and b are halves or neighbours, in
// the places of these or in halves.
ProgramText pairs(bool interleaved, bool stacked) {
  ProgramText text;
  text.input("q", {1, 2, 3, 8}).input("c", {3, 4}).input("si", {3, 4});
  for (const char* name : {"ac", "bs", "bc", "as", "u", "v"}) text.tensor(name, {1, 2, 3, 4});
  const int step = interleaved ? 2 : 1;
  for (const std::string name : {"a", "b"}) text.tensor(name, {1, 2, 3, 4}, {48, 24, 8, step});
  slice(text, "q", 0, interleaved ? 8 : 4, step, "a");
  slice(text, "q", interleaved ? 1 : 4, 8, step, "b");
  for (const std::string name : {"a", "b"}) {
    text.node("mul", {{"self", name}, {"other", "c"}}, {name + "c"});
    text.node("mul", {{"self", "si"}, {"other", name}}, {name + "s"});
  }
  text.node("sub", {{"self", "ac"}, {"other", "bs"}}, {"u"});
  text.node("add", {{"self", "as"}, {"other", "bc"}}, {"v"});
  text.tensor("y", {1, 2, 3, 8});
  if (stacked) {
    text.tensor("st", {1, 2, 3, 4, 2});
    text.node("stack", {{"tensors", Json{"u", "v"}}, {"dim", -1}}, {"st"});
    text.node("view", {{"self", "st"}, {"size", Json{1, 2, 3, 8}}}, {"y"});
  } else {
    text.node("cat", {{"tensors", Json{"u", "v"}}, {"dim", -1}}, {"y"});
  }
  return text.output("y");
}

// q cos + turned sin, of neighbours and an angle for each element: as GPT-J has it.
ProgramText neighbours() {
  ProgramText text;
  text.input("q", {1, 2, 3, 8}).input("c", {3, 8}).input("si", {3, 8});
  text.tensor("a", {1, 2, 3, 4}, {48, 24, 8, 2}).tensor("b", {1, 2, 3, 4}, {48, 24, 8, 2});
  text.tensor("n", {1, 2, 3, 4}).tensor("st", {1, 2, 3, 4, 2});
  for (const char* name : {"t", "qc", "ts", "y"}) text.tensor(name, {1, 2, 3, 8});
  slice(text, "q", 0, 8, 2, "a");
  slice(text, "q", 1, 8, 2, "b");
  text.node("neg", {{"self", "b"}}, {"n"});
  text.node("stack", {{"tensors", Json{"n", "a"}}, {"dim", -1}}, {"st"});
  text.node("view", {{"self", "st"}, {"size", Json{1, 2, 3, 8}}}, {"t"});
  text.node("mul", {{"self", "q"}, {"other", "c"}}, {"qc"});
  text.node("mul", {{"self", "t"}, {"other", "si"}}, {"ts"});
  text.node("add", {{"self", "qc"}, {"other", "ts"}}, {"y"});
  return text.output("y");
}

// The same of complex numbers, in f32 and back, as Llama's own code has it; `factor` scales them.
ProgramText complex_numbers(double factor = 1) {
  ProgramText text;
  text.input("x", {1, 3, 2, 8}).input("f", {5, 4});
  text.tensor("x", {1, 3, 2, 8}, {}, kBf16).tensor("f", {5, 4}, {}, kComplex);
  text.tensor("x32", {1, 3, 2, 8}).tensor("xp", {1, 3, 2, 4, 2});
  text.tensor("xc", {1, 3, 2, 4}, {}, kComplex).tensor("fs", {3, 4}, {}, kComplex);
  text.tensor("f1", {3, 4}, {}, kComplex);
  text.tensor("fv", {1, 3, 1, 4}, {}, kComplex).tensor("p", {1, 3, 2, 4}, {}, kComplex);
  text.tensor("r", {1, 3, 2, 4, 2}).tensor("flat", {1, 3, 2, 8});
  text.tensor("y", {1, 3, 2, 8}, {}, kBf16);
  text.node("_to_copy", {{"self", "x"}, {"dtype", 7}}, {"x32"});
  text.node("view", {{"self", "x32"}, {"size", Json{1, 3, 2, 4, 2}}}, {"xp"});
  text.node("view_as_complex", {{"self", "xp"}}, {"xc"});
  text.node("slice", {{"self", "f"}, {"dim", 0}, {"start", 1}, {"end", 4}}, {"f1"});
  text.node("mul", {{"self", "f1"}, {"other", factor}}, {"fs"});
  text.node("view", {{"self", "fs"}, {"size", Json{1, 3, 1, 4}}}, {"fv"});
  text.node("mul", {{"self", "xc"}, {"other", "fv"}}, {"p"});
  text.node("view_as_real", {{"self", "p"}}, {"r"});
  text.node("view", {{"self", "r"}, {"size", Json{1, 3, 2, 8}}}, {"flat"});
  text.node("_to_copy", {{"self", "flat"}, {"dtype", 13}}, {"y"});
  return text.output("y");
}

// The first 4 of 8 elements are turned, and joined with the others.
ProgramText part(int rest) {
  ProgramText text;
  text.input("q", {1, 2, 3, 8}).input("c", {3, 4}).input("si", {3, 4});
  text.tensor("r", {1, 2, 3, 4}, {48, 24, 8, 1}).tensor("s", {1, 2, 3, 4}, {48, 24, 8, 1});
  text.tensor("a", {1, 2, 3, 2}, {48, 24, 8, 1}).tensor("b", {1, 2, 3, 2}, {48, 24, 8, 1});
  text.tensor("n", {1, 2, 3, 2}).tensor("y", {1, 2, 3, 8});
  for (const char* name : {"t", "qc", "ts", "w"}) text.tensor(name, {1, 2, 3, 4});
  slice(text, "q", 0, 4, 1, "r");
  slice(text, "q", rest, rest + 4, 1, "s");
  slice(text, "r", 0, 2, 1, "a");
  slice(text, "r", 2, 4, 1, "b");
  text.node("neg", {{"self", "b"}}, {"n"});
  text.node("cat", {{"tensors", Json{"n", "a"}}, {"dim", -1}}, {"t"});
  text.node("mul", {{"self", "r"}, {"other", "c"}}, {"qc"});
  text.node("mul", {{"self", "t"}, {"other", "si"}}, {"ts"});
  text.node("add", {{"self", "qc"}, {"other", "ts"}}, {"w"});
  text.node("cat", {{"tensors", Json{"w", "s"}}, {"dim", -1}}, {"y"});
  return text.output("y");
}

}  // namespace

TEST_CASE("pt2: halves that are turned are one op, however they are written") {
  for (const bool swaps : {false, true}) {
    for (const bool subtracts : {false, true}) {
      CAPTURE(swaps);
      CAPTURE(subtracts);
      check_rotary(halves({.swaps_factors = swaps, .subtracts = subtracts}), {"rotary"}, "ts");
    }
  }
  // 48 elements in and out, 24 cosines and sines; f32.
  CHECK(unfused(read(halves({}))) == 4 * (48 + 48 + 24 + 24));
}

TEST_CASE("pt2: what is turned and what is not may be cast to a wider float each on its own") {
  ProgramText text;
  text.input("q", {1, 2, 3, 8}).input("c", {1, 1, 3, 8}).input("si", {1, 1, 3, 8});
  text.tensor("q", {1, 2, 3, 8}, {}, kBf16).tensor("y", {1, 2, 3, 8}, {}, kBf16);
  for (const char* name : {"a", "b"}) text.tensor(name, {1, 2, 3, 4}, {48, 24, 8, 1});
  for (const char* name : {"wide", "other", "t", "qc", "ts", "w"}) text.tensor(name, {1, 2, 3, 8});
  text.tensor("n", {1, 2, 3, 4});
  for (const char* name : {"wide", "other"}) {
    text.node("_to_copy", {{"self", "q"}, {"dtype", 7}}, {name});
  }
  slice(text, "other", 0, 4, 1, "a");
  slice(text, "other", 4, 8, 1, "b");
  text.node("neg", {{"self", "b"}}, {"n"});
  text.node("cat", {{"tensors", Json{"n", "a"}}, {"dim", -1}}, {"t"});
  text.node("mul", {{"self", "wide"}, {"other", "c"}}, {"qc"});
  text.node("mul", {{"self", "t"}, {"other", "si"}}, {"ts"});
  text.node("add", {{"self", "qc"}, {"other", "ts"}}, {"w"});
  text.node("_to_copy", {{"self", "w"}, {"dtype", kBf16}}, {"y"});
  text.output("y");
  check_rotary(text, {"rotary"}, "ts");
  CHECK(unfused(read(text)) == 2 * (48 + 48) + 4 * (24 + 24));
}

TEST_CASE("pt2: a sum and its product may be one op") {
  ProgramText text = halves({});
  Json& nodes = text.graph["nodes"];
  const std::size_t last = nodes.size() - 1;
  nodes.erase(last);
  nodes.erase(last - 1);
  text.node("addcmul", {{"self", "qc"}, {"tensor1", "t"}, {"tensor2", "si"}, {"value", 1}}, {"y"});
  check_rotary(text, {"rotary"}, "qc");
}

TEST_CASE("pt2: pairs that are turned, half of the axis apart or neighbours") {
  check_rotary(pairs(false, false), {"rotary"}, "as");
  check_rotary(pairs(true, true), {"rotary"}, "bs");
  // As DeepSeek has it: neighbours that become halves.
  check_rotary(pairs(true, false), {"rotary"}, "bs");
  check_rotary(neighbours(), {"rotary"}, "qc");
  // One cosine and one sine for each of 4 pairs at 3 places.
  CHECK(unfused(read(pairs(true, true))) == 4 * (48 + 48 + 12 + 12));
}

TEST_CASE("pt2: products of complex numbers turn pairs, and read what was cast") {
  const Model model = read(complex_numbers());
  CHECK(computing_rows_of(model) == Words{"rotary"});
  CHECK(model.origin.opaque == 0);
  // x and y in bf16; 3 of the 5 rows of 4 factors, 8 bytes each.
  CHECK(unfused(model) == 2 * (48 + 48) + 8 * 12);
  CHECK(computing_rows_of(read(complex_numbers(2))) == Words{"mul", "rotary"});
  ProgramText rows = complex_numbers();
  rows.input("i", {3}).tensor("i", {3}, {}, 5);
  Json& slice = rows.graph["nodes"][3];
  slice["target"] = "torch.ops.aten.index_select.default";
  slice["inputs"].push_back({{"name", "index"}, {"arg", tensor_argument("i")}});
  CHECK(computing_rows_of(read(rows)) == Words{"gather", "rotary"});
  ProgramText text = complex_numbers();
  text.output("flat");
  const Model written = read(text);
  CHECK(computing_rows_of(written) == Words{"cast", "rotary", "cast"});
  CHECK(result_of(model) == result_of(written));
}

TEST_CASE("pt2: a part of each head is turned, and the rest joined with it") {
  check_rotary(part(4), {"rotary"}, "w");
  CHECK(unfused(read(part(4))) == 4 * (48 + 48 + 12 + 12));
  // Other elements than those that follow are copied.
  CHECK(computing_rows_of(read(part(3))) == Words{"rotary", "concat"});
  CHECK(computing_rows_of(read(part(0))) == Words{"rotary", "concat"});
}

TEST_CASE("pt2: what only looks like a rotary embedding stays as it is") {
  const auto count = [](ProgramText text, const std::function<void(Json&)>& change) {
    for (Json& node : text.graph["nodes"]) change(node);
    const Words rows = computing_rows_of(read(text));
    return std::ranges::count(rows, "rotary");
  };
  const auto is = [](const Json& node, const char* result) {
    return node["outputs"][0]["as_tensor"]["name"] == result;
  };
  CHECK(count(halves({}), [](Json&) {}) == 1);
  // The other sign, the same half twice, and halves in their own order.
  const auto renamed = [&](const char* result, std::size_t input, const char* to) {
    return [=](Json& node) {
      if (is(node, result)) node["inputs"][input]["arg"] = tensor_argument(to);
    };
  };
  CHECK(count(halves({}), renamed("n", 0, "a")) == 0);
  CHECK(count(pairs(true, true), renamed("v", 1, "ac")) == 0);
  CHECK(count(pairs(false, false), renamed("as", 1, "b")) == 0);
  CHECK(count(pairs(false, false), renamed("u", 0, "bc")) == 0);
  CHECK(count(halves({}), [&](Json& node) {
          if (is(node, "y")) node["target"] = "torch.ops.aten.sub.Tensor";
        }) == 0);
}

TEST_CASE("pt2: complex numbers that are no pairs, or that other ops read, are opaque") {
  ProgramText text = complex_numbers();
  text.tensor("xp", {1, 3, 2, 2, 4});
  CHECK(read(text).origin.opaque > 0);
  ProgramText sums;
  sums.input("f", {4}).tensor("f", {4}, {}, kComplex).tensor("y", {4}, {}, kComplex);
  sums.node("view_as_complex", {{"self", "f"}}, {"y"}).output("y");
  CHECK(read(sums).origin.opaque == 1);
  // Also with parts of 8 bytes each.
  sums.tensor("f", {4}, {}, 11).tensor("y", {4}, {}, 11);
  CHECK(unfused(read(sums)) == 16 * (4 + 4));
  ProgramText parts;
  parts.input("f", {4}).tensor("f", {4}, {}, kComplex).tensor("r", {4}, {2}).tensor("i", {4}, {2});
  parts.tensor("y", {4}).node("real", {{"self", "f"}}, {"r"}).node("imag", {{"self", "f"}}, {"i"});
  parts.node("mul", {{"self", "r"}, {"other", "i"}}, {"y"}).output("y");
  CHECK(computing_rows_of(read(parts)) == Words{"mul"});
  CHECK(unfused(read(parts)) == 4 * (8 + 4));
  // Magnitudes, as those of a spectrum: one part is squared, and read beside the other.
  ProgramText lengths;
  lengths.input("f", {4}).tensor("f", {4}, {}, kComplex).tensor("y", {4});
  lengths.node("abs", {{"self", "f"}}, {"y"}).output("y");
  CHECK(computing_rows_of(read(lengths)) == Words{"square", "fma", "sqrt"});
  CHECK(unfused(read(lengths)) == 4 * (2 * 4 + 3 * 4 + 2 * 4));
}

TEST_CASE("pt2: sums, multiples and slices of complex numbers are ops of their pairs") {
  ProgramText text;
  text.input("f", {4}).input("g", {4}).input("r", {4});
  for (const char* name : {"f", "g", "s", "h", "y"}) text.tensor(name, {4}, {}, kComplex);
  text.node("add", {{"self", "f"}, {"other", "g"}}, {"s"});
  text.node("div", {{"self", "s"}, {"other", 2}}, {"h"});
  text.node("mul", {{"self", "h"}, {"other", "r"}}, {"y"}).output("y");
  CHECK(computing_rows_of(read(text)) == Words{"add", "mul", "mul"});
  CHECK(unfused(read(text)) == 4 * (3 * 8 + 2 * 8 + 4 + 2 * 8));

  // What a filter of frequencies writes: the first ones, and zeros.
  ProgramText low;
  low.input("f", {4, 6}).tensor("f", {4, 6}, {}, kComplex).tensor("z", {4, 6}, {}, kComplex);
  low.tensor("a", {4, 2}, {6, 1}, kComplex).tensor("y", {4, 6}, {}, kComplex);
  low.tensor("s", {6}, {}, kComplex);
  low.node("zeros_like", {{"self", "f"}}, {"z"});
  low.node("slice", {{"self", "f"}, {"dim", 1}, {"start", 0}, {"end", 2}}, {"a"});
  low.node("slice_scatter", {{"self", "z"}, {"src", "a"}, {"dim", 1}, {"start", 0}, {"end", 2}},
           {"y"});
  low.node("sum", {{"self", "y"}, {"dim", Json{0}}}, {"s"}).output("s");
  const Model model = read(low);
  CHECK(computing_rows_of(model) == Words{"full", "concat", "sum"});
  CHECK(unfused(model) == 8 * (16 + 8 + 16 + 24 + 24 + 6));
}
