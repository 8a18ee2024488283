// Attention written out as two products around a softmax, and what lies between them.

#include <doctest/doctest.h>

#include <functional>
#include <string>

#include "support/models.hpp"
#include "support/pt2_files.hpp"
#include "support/words.hpp"

using namespace fusecalc;
using namespace fusecalc::testing;

namespace {

using Json = nlohmann::json;

// softmax(q k^T / 4 + mask) v, in the matrices that bmm takes, with what `weights` adds between the
// softmax and the second product. 2 x 4 heads of 16, 8 queries and keys.
ProgramText written_attention(const std::function<std::string(ProgramText&)>& weights) {
  ProgramText text;
  text.input("q", {2, 4, 8, 16}).input("k", {2, 4, 8, 16}).input("v", {2, 4, 8, 16});
  text.input("mask", {8, 8});
  text.tensor("q3", {8, 8, 16}).tensor("k3", {8, 8, 16}).tensor("v3", {8, 8, 16});
  for (const std::string name : {"q", "k", "v"}) {
    text.node("view", {{"self", name}, {"size", Json{8, 8, 16}}}, {name + "3"});
  }
  text.tensor("kt", {8, 16, 8}, {128, 1, 16}).tensor("qk", {8, 8, 8}).tensor("s", {2, 4, 8, 8});
  text.tensor("scaled", {2, 4, 8, 8}).tensor("sum", {2, 4, 8, 8}).tensor("p", {2, 4, 8, 8});
  text.node("transpose", {{"self", "k3"}, {"dim0", 1}, {"dim1", 2}}, {"kt"});
  text.node("bmm", {{"self", "q3"}, {"mat2", "kt"}}, {"qk"});
  text.node("view", {{"self", "qk"}, {"size", Json{2, 4, 8, 8}}}, {"s"});
  text.node("div", {{"self", "s"}, {"other", 4}}, {"scaled"});
  text.node("add", {{"self", "scaled"}, {"other", "mask"}}, {"sum"});
  text.node("_softmax", {{"self", "sum"}, {"dim", -1}, {"half_to_float", false}}, {"p"});
  const std::string last = weights(text);
  text.tensor("p3", {8, 8, 8}).tensor("o3", {8, 8, 16}).tensor("o", {2, 4, 8, 16});
  text.node("view", {{"self", last}, {"size", Json{8, 8, 8}}}, {"p3"});
  text.node("bmm", {{"self", "p3"}, {"mat2", "v3"}}, {"o3"});
  text.node("view", {{"self", "o3"}, {"size", Json{2, 4, 8, 16}}}, {"o"});
  text.output("o");
  return text;
}

}  // namespace

TEST_CASE("pt2: attention written out is one op, of the heads that the products had") {
  const Model model = read(written_attention([](ProgramText&) { return std::string("p"); }));
  const Words ops = calls_of(model);
  REQUIRE(ops.size() == 3);
  CHECK(ops[0] == "attention(q, k, v, mask)");
  // 1/4 is the usual scale of heads of 16.
  CHECK(model.graph.ops[0].attributes.empty());
  // q, k, v and the result of 1,024 elements, the mask of 64; f32.
  CHECK(unfused(model) == 4 * (4 * 1024 + 64));
  CHECK(model.origin.opaque == 0);
  // bmm, div, add, softmax and bmm.
  CHECK(model.origin.exact == 5);
}

TEST_CASE("pt2: the softmax that gives rows without keys zeros is part of attention") {
  const Model model = read(written_attention([](ProgramText& text) {
    text.tensor("eq", {2, 4, 8, 8}, {}, kBool).tensor("not", {2, 4, 8, 8}, {}, kBool);
    text.tensor("any", {2, 4, 8, 1}, {}, kBool).tensor("none", {2, 4, 8, 1}, {}, kBool);
    text.tensor("zero", {2, 4, 8, 8}).tensor("safe", {2, 4, 8, 8});
    text.node("eq", {{"self", "sum"}, {"other", "-Infinity"}}, {"eq"});
    text.graph["nodes"].back()["inputs"][1]["arg"] = {{"as_float", "-Infinity"}};
    text.node("logical_not", {{"self", "eq"}}, {"not"});
    text.node("any", {{"self", "not"}, {"dim", -1}, {"keepdim", true}}, {"any"});
    text.node("logical_not", {{"self", "any"}}, {"none"});
    text.node("full_like", {{"self", "p"}, {"fill_value", 0}}, {"zero"});
    text.node("where", {{"condition", "none"}, {"self", "zero"}, {"other", "p"}}, {"safe"});
    return std::string("safe");
  }));
  CHECK(calls_of(model)[0] == "attention(q, k, v, mask)");
  CHECK(unfused(model) == 4 * (4 * 1024 + 64));
}

TEST_CASE(
    "pt2: attention that is computed in wider floats reads what was cast, and shared heads once") {
  ProgramText text;
  const int bf16 = kBf16;
  text.input("q", {1, 4, 8, 16}).input("k", {1, 2, 8, 16}).input("v", {1, 2, 8, 16});
  for (const char* name : {"q", "k", "v"}) text.graph["tensor_values"][name]["dtype"] = bf16;
  text.tensor("qf", {1, 4, 8, 16}).tensor("qs", {1, 4, 8, 16});
  text.node("_to_copy", {{"self", "q"}}, {"qf"});
  text.node("mul", {{"self", "qf"}, {"other", 2}}, {"qs"});
  for (const std::string name : {"k", "v"}) {
    text.tensor(name + "f", {1, 2, 8, 16}).tensor(name + "1", {1, 2, 1, 8, 16});
    text.tensor(name + "2", {1, 2, 2, 8, 16}, {256, 128, 0, 16, 1});
    text.tensor(name + "3", {1, 2, 2, 8, 16}).tensor(name + "4", {1, 4, 8, 16});
    text.node("_to_copy", {{"self", name}}, {name + "f"});
    text.node("unsqueeze", {{"self", name + "f"}, {"dim", 2}}, {name + "1"});
    text.node("expand", {{"self", name + "1"}, {"size", Json{1, 2, 2, 8, 16}}}, {name + "2"});
    text.node("clone", {{"self", name + "2"}}, {name + "3"});
    text.node("view", {{"self", name + "3"}, {"size", Json{1, 4, 8, 16}}}, {name + "4"});
  }
  text.tensor("kt", {1, 4, 16, 8}, {512, 128, 1, 16}).tensor("ks", {1, 4, 16, 8});
  text.tensor("s", {1, 4, 8, 8}).tensor("p", {1, 4, 8, 8}).tensor("o", {1, 4, 8, 16});
  text.tensor("y", {1, 4, 8, 16}, {}, bf16);
  text.node("transpose", {{"self", "k4"}, {"dim0", 2}, {"dim1", 3}}, {"kt"});
  text.node("mul", {{"self", "kt"}, {"other", 2}}, {"ks"});
  text.node("matmul", {{"self", "qs"}, {"other", "ks"}}, {"s"});
  text.node("_softmax", {{"self", "s"}, {"dim", -1}}, {"p"});
  text.node("matmul", {{"self", "p"}, {"other", "v4"}}, {"o"});
  text.node("_to_copy", {{"self", "o"}}, {"y"}).output("y");
  const Model model = read(text);
  REQUIRE(calls_of(model) == Words{"attention(q, k, v)"});
  REQUIRE(model.graph.ops.back().attributes.size() == 1);
  CHECK(std::get<double>(model.graph.ops.back().attributes[0].value) == 4.0);
  // Before they were repeated: 512 and 256 and 256 elements in, 512 out.
  CHECK(unfused(model) == 2 * (512 + 256 + 256 + 512));
}

TEST_CASE("pt2: a sink beside the scores scales what attention yields, as gpt-oss has it") {
  const auto program = [](bool shifts, int kept) {
    ProgramText text;
    text.input("q", {1, 4, 8, 16}).input("k", {1, 4, 8, 16}).input("v", {1, 4, 8, 16});
    text.input("sink", {4}).tensor("sink4", {1, 4, 1, 1});
    text.tensor("kt", {1, 4, 16, 8}, {512, 128, 1, 16}).tensor("s", {1, 4, 8, 8});
    text.tensor("scaled", {1, 4, 8, 8}).tensor("beside", {1, 4, 8, 1}, {4, 1, 0, 1});
    for (const char* name : {"all", "less", "p"}) text.tensor(name, {1, 4, 8, 9});
    text.tensor("most", {1, 4, 8, 1}).tensor("of_keys", {1, 4, 8, kept}, {288, 72, 9, 1});
    text.tensor("values", {1, 4, kept, 16}).tensor("o", {1, 4, 8, 16});
    text.node("transpose", {{"self", "k"}, {"dim0", 2}, {"dim1", 3}}, {"kt"});
    text.node("matmul", {{"self", "q"}, {"other", "kt"}}, {"s"});
    text.node("mul", {{"self", "s"}, {"other", 0.25}}, {"scaled"});
    text.node("view", {{"self", "sink"}, {"size", Json{1, 4, 1, 1}}}, {"sink4"});
    text.node("expand", {{"self", "sink4"}, {"size", Json{1, 4, 8, 1}}}, {"beside"});
    text.node("cat", {{"tensors", Json{"scaled", "beside"}}, {"dim", -1}}, {"all"});
    text.node("amax", {{"self", "all"}, {"dim", Json{-1}}, {"keepdim", true}}, {"most"});
    text.node("sub", {{"self", "all"}, {"other", "most"}}, {"less"});
    text.node("softmax", {{"self", shifts ? "less" : "all"}, {"dim", -1}}, {"p"});
    text.node("slice", {{"self", "p"}, {"dim", 3}, {"start", 0}, {"end", kept}}, {"of_keys"});
    text.node("slice", {{"self", "v"}, {"dim", 2}, {"start", 0}, {"end", kept}}, {"values"});
    text.node("matmul", {{"self", "of_keys"}, {"other", "values"}}, {"o"}).output("o");
    return read(text);
  };
  for (const bool shifts : {false, true}) {
    CAPTURE(shifts);
    const Model model = program(shifts, 8);
    CHECK(rows_of(model) ==
          Words{"reshape", "expand_view", "attention", "reshape", "sub", "sigmoid", "mul"});
    // Queries, keys, values and the result; 32 sums; 4 sinks.
    CHECK(unfused(model) == 4 * (4 * 512 + 32 + (32 + 4 + 32) + 2 * 32 + (512 + 32 + 512)));
  }
  for (const std::string& row : rows_of(program(true, 7))) CHECK(row != "attention");
}

TEST_CASE("pt2: attention stays written out if something else needs its weights") {
  ProgramText text = written_attention([](ProgramText&) { return std::string("p"); });
  text.output("p");
  for (const std::string& op : calls_of(read(text))) CHECK_FALSE(op.starts_with("attention"));
}

TEST_CASE("pt2: weights that are multiplied after the softmax are no attention") {
  const Model model = read(written_attention([](ProgramText& text) {
    text.tensor("twice", {2, 4, 8, 8});
    text.node("mul", {{"self", "p"}, {"other", 2}}, {"twice"});
    return std::string("twice");
  }));
  for (const std::string& op : calls_of(model)) CHECK_FALSE(op.starts_with("attention"));
}

TEST_CASE(
    "pt2: attention whose products add a bias to what they scale is one op, as Bloom has it") {
  for (const double beta : {1.0, 0.5}) {
    ProgramText text;
    text.input("q", {8, 8, 16}).input("k", {8, 8, 16}).input("v", {8, 8, 16});
    text.input("alibi", {8, 1, 8}).tensor("kt", {8, 16, 8}, {128, 1, 16});
    text.tensor("s", {8, 8, 8}).tensor("p", {8, 8, 8}).tensor("y", {8, 8, 16});
    text.node("transpose", {{"self", "k"}, {"dim0", 1}, {"dim1", 2}}, {"kt"});
    text.node(
        "baddbmm",
        {{"self", "alibi"}, {"batch1", "q"}, {"batch2", "kt"}, {"beta", beta}, {"alpha", 0.25}},
        {"s"});
    text.node("_softmax", {{"self", "s"}, {"dim", -1}, {"half_to_float", false}}, {"p"});
    text.node("bmm", {{"self", "p"}, {"mat2", "v"}}, {"y"}).output("y");
    const Model model = read(text);
    CHECK(model.origin.opaque == 0);
    CHECK(calls_of(model).back().starts_with("attention(q, k, v, "));
    // A scaled bias is written and read again.
    CHECK(unfused(model) == 4 * (4 * 1024 + 64) + (beta == 1 ? 0 : 4 * 2 * 64));
  }
}
