// What ATen ops become that are several ops of the table, or parts of a pattern.

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <string_view>

#include "graph/op_graph.hpp"
#include "input/pt2/pt2.hpp"
#include "support/models.hpp"
#include "support/pt2_files.hpp"
#include "support/words.hpp"
#include "traffic/graph_bytes.hpp"

using namespace fusecalc;
using namespace fusecalc::testing;

namespace {

using Json = nlohmann::json;
using Sizes = std::vector<ProgramText::Size>;

Model read(const ProgramText& program) { return read_pt2(program.file(), "m.pt2", {}); }

// "op(inputs)" of every op; the graph is valid.
Words ops_of(const Model& model) {
  build_graph(model.graph, {});
  Words lines;
  for (const WrittenOp& op : model.graph.ops) {
    std::string line = op.op + "(";
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      const auto* tensor = std::get_if<std::string>(&op.inputs[i]);
      line += (i == 0 ? "" : ", ") + (tensor != nullptr ? *tensor : "number");
    }
    lines.push_back(line + ")");
  }
  return lines;
}

constexpr int kBool = 12;
constexpr int kBf16 = 13;

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
  const Words ops = ops_of(model);
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
  CHECK(ops_of(model)[0] == "attention(q, k, v, mask)");
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
  REQUIRE(ops_of(model) == Words{"attention(q, k, v)"});
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
  for (const std::string& op : ops_of(read(text))) CHECK_FALSE(op.starts_with("attention"));
}

TEST_CASE("pt2: weights that are multiplied after the softmax are no attention") {
  const Model model = read(written_attention([](ProgramText& text) {
    text.tensor("twice", {2, 4, 8, 8});
    text.node("mul", {{"self", "p"}, {"other", 2}}, {"twice"});
    return std::string("twice");
  }));
  for (const std::string& op : ops_of(model)) CHECK_FALSE(op.starts_with("attention"));
}

TEST_CASE("pt2: a cast back to the type before is what was cast") {
  ProgramText text;
  text.input("x", {4, 8}).tensor("h", {4, 8}, {}, kBf16).tensor("w", {4, 8});
  text.tensor("v", {32}).tensor("b", {32}, {}, kBf16).tensor("y", {32}, {}, kBf16);
  text.node("_to_copy", {{"self", "x"}}, {"h"}).node("_to_copy", {{"self", "h"}}, {"w"});
  text.node("view", {{"self", "w"}, {"size", Json{32}}}, {"v"});
  text.node("_to_copy", {{"self", "v"}}, {"b"}).node("relu", {{"self", "b"}}, {"y"}).output("y");
  const Model model = read(text);
  CHECK(ops_of(model) == Words{"cast(x)", "reshape(to_copy)", "relu(view)"});
  // f32 to bf16, and bf16 to bf16.
  CHECK(unfused(model) == 32 * (4 + 2) + 32 * (2 + 2));
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
    CHECK(ops_of(model).back().starts_with("attention(q, k, v, "));
    // A scaled bias is written and read again.
    CHECK(unfused(model) == 4 * (4 * 1024 + 64) + (beta == 1 ? 0 : 4 * 2 * 64));
  }
}

TEST_CASE("pt2: factors of addmm and baddbmm are ops where they are not 1") {
  const auto ops = [](const std::string& op, double beta, double alpha) {
    ProgramText text;
    text.input("b", {6}).input("x", {4, 8}).input("w", {8, 6}).input("c", {5, 6});
    text.input("u", {5, 4, 8}).input("v", {5, 8, 6}).tensor("y", {4, 6}).tensor("z", {5, 4, 6});
    if (op == "addmm") {
      text.node("addmm",
                {{"self", "b"}, {"mat1", "x"}, {"mat2", "w"}, {"beta", beta}, {"alpha", alpha}},
                {"y"});
    } else {
      text.node("baddbmm",
                {{"self", "b"}, {"batch1", "u"}, {"batch2", "v"}, {"beta", beta}, {"alpha", alpha}},
                {"z"});
    }
    return ops_of(read(text.output(op == "addmm" ? "y" : "z")));
  };
  CHECK(ops("addmm", 1, 1) == Words{"permute_view(w)", "linear(x, addmm.permute_view, b)"});
  CHECK(ops("addmm", 0, 1) == Words{"permute_view(w)", "linear(x, addmm.permute_view)"});
  CHECK(ops("addmm", 2, 3) == Words{"permute_view(w)", "linear(x, addmm.permute_view)",
                                    "mul(addmm.linear, number)", "mul(b, number)",
                                    "add(addmm.mul, addmm.mul_2)"});
  CHECK(ops("baddbmm", 1, 1) == Words{"matmul(u, v)", "add(baddbmm.matmul, b)"});
  CHECK(ops("baddbmm", 0, 3) == Words{"matmul(u, v)", "mul(baddbmm.matmul, number)"});
}

TEST_CASE("pt2: einsum is products of matrices, or of elements") {
  const auto bytes = [](const std::string& equation, const std::vector<Sizes>& inputs,
                        const Sizes& result) {
    ProgramText text;
    Json tensors = Json::array();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      std::string name = "x";
      name += std::to_string(i);
      text.input(name, inputs[i]);
      tensors.push_back({{"name", name}});
    }
    text.tensor("e", result).tensor("y", result);
    text.node("einsum", {{"equation", "?"}}, {"e"});
    text.graph["nodes"].back()["inputs"] = {
        {{"name", "equation"}, {"arg", {{"as_string", equation}}}},
        {{"name", "tensors"}, {"arg", {{"as_tensors", tensors}}}}};
    text.node("relu", {{"self", "e"}}, {"y"}).output("y");
    const Model model = read(text);
    CHECK(model.origin.opaque == 0);
    ops_of(model);
    return unfused(model) / 4;
  };
  // The product; relu reads and writes its result.
  CHECK(bytes("ij,jk->ik", {{2, 3}, {3, 5}}, {2, 5}) == (6 + 15 + 10) + 20);
  CHECK(bytes("bhqd,bhkd->bhqk", {{2, 4, 8, 16}, {2, 4, 8, 16}}, {2, 4, 8, 8}) ==
        (1024 + 1024 + 512) + 1024);
  // Heads inside are copied next to the batch first, both of them.
  CHECK(bytes("bqhd,bkhd->bhqk", {{2, 8, 4, 16}, {2, 8, 4, 16}}, {2, 4, 8, 8}) ==
        4 * 1024 + (1024 + 1024 + 512) + 1024);
  CHECK(bytes("i,j->ij", {{3}, {5}}, {3, 5}) == (3 + 5 + 15) + 30);
  CHECK(bytes("ij->ji", {{3, 5}}, {5, 3}) == 30);
  // Axes without letters are those of a batch.
  CHECK(bytes("...ij,jk->...ik", {{7, 2, 3}, {3, 5}}, {7, 2, 5}) == (42 + 15 + 70) + 140);
  // Summed over j first.
  CHECK(bytes("ij->i", {{3, 5}}, {3}) == (15 + 3) + 6);
}

TEST_CASE("pt2: an einsum that is not known is a custom op") {
  ProgramText text;
  text.input("x", {3, 3}).tensor("d", {3});
  text.node("einsum", {{"tensors", "x"}}, {"d"});
  text.graph["nodes"].back()["inputs"].push_back(
      {{"name", "equation"}, {"arg", {{"as_string", "ii->i"}}}});
  CHECK(ops_of(read(text.output("d"))) == Words{"custom(x)"});
}

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
  CHECK(ops_of(model) == Words{"concat(a, b)", "relu(slice_scatter)"});
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
    const Words ops = ops_of(program(3, in_place));
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

TEST_CASE("pt2: differences, halves, norms and errors are ops of the table") {
  ProgramText text;
  text.input("x", {4, 8}).input("t", {4, 8}).tensor("d", {4, 7}).tensor("g", {4, 4});
  text.tensor("n", {4}).tensor("m", {}).tensor("r", {4, 24}).tensor("s", {1, 4, 4});
  text.input("c", {4, 2, 2});
  text.node("diff", {{"self", "x"}, {"n", 1}, {"dim", -1}}, {"d"});
  text.node("glu", {{"self", "x"}, {"dim", -1}}, {"g"});
  text.node("linalg_vector_norm", {{"self", "x"}, {"ord", 2}, {"dim", Json{1}}}, {"n"});
  text.node("mse_loss", {{"self", "x"}, {"target", "t"}}, {"m"});
  text.node("repeat_interleave", {{"self", "x"}, {"repeats", 3}, {"dim", 1}}, {"r"});
  text.node("pixel_shuffle", {{"self", "c"}, {"upscale_factor", 2}}, {"s"});
  for (const char* name : {"d", "g", "n", "m", "r", "s"}) text.output(name);
  const Model model = read(text);
  CHECK(model.origin.opaque == 0);
  CHECK(model.origin.exact == 6);
  ops_of(model);
}

TEST_CASE("pt2: shifts of packed weights are those of integers") {
  constexpr int kU8 = 1;
  ProgramText text;
  text.input("w", {4, 8})
      .tensor("w", {4, 8}, {}, kU8)
      .tensor("h", {4, 8}, {}, kU8)
      .tensor("l", {4, 8}, {}, kU8);
  text.node("__rshift__", {{"self", "w"}, {"other", 4}}, {"h"}).output("h");
  text.node("__lshift__", {{"self", "w"}, {"other", 4}}, {"l"}).output("l");
  CHECK(ops_of(read(text)) ==
        Words{"bitwise_right_shift(w, number)", "bitwise_left_shift(w, number)"});
}

TEST_CASE("pt2: slopes of a prelu belong to the channels, or are one for all") {
  const auto program = [](const Sizes& x, int slopes) {
    ProgramText text;
    text.input("x", x).input("s", {slopes}).tensor("y", x);
    text.node("prelu", {{"self", "x"}, {"weight", "s"}}, {"y"}).output("y");
    return text;
  };
  // 2 x 3 x 4 elements read and written, and the slopes.
  CHECK(unfused(read(program({2, 3, 4}, 3))) == 4 * (24 + 3 + 24));
  CHECK(unfused(read(program({2, 3, 4}, 1))) == 4 * (24 + 1 + 24));
  CHECK(unfused(read(program({2, 3}, 3))) == 4 * (6 + 3 + 6));
  CHECK(ops_of(read(program({2, 3}, 3))) == Words{"prelu(x, s)"});
}

TEST_CASE("pt2: products of vectors, by the names that their arguments have") {
  ProgramText text;
  text.input("m", {4, 8}).input("v", {8}).input("u", {8}).input("s", {4});
  text.tensor("mv", {4}).tensor("dot", {}).tensor("outer", {4, 8});
  text.node("mv", {{"self", "m"}, {"vec", "v"}}, {"mv"});
  text.node("dot", {{"self", "u"}, {"tensor", "v"}}, {"dot"});
  text.node("outer", {{"self", "s"}, {"vec2", "v"}}, {"outer"});
  for (const char* name : {"mv", "dot", "outer"}) text.output(name);
  const Model model = read(text);
  CHECK(model.origin.opaque == 0);
  CHECK(unfused(model) == 4 * ((32 + 8 + 4) + (8 + 8 + 1) + (4 + 8 + 32)));
}

TEST_CASE("pt2: instance norms are group norms of one channel each") {
  ProgramText text;
  text.input("x", {2, 3, 4, 4}).input("w", {3}).input("b", {3}).tensor("y", {2, 3, 4, 4});
  text.node("instance_norm",
            {{"input", "x"}, {"weight", "w"}, {"bias", "b"}, {"use_input_stats", true}}, {"y"});
  text.output("y");
  const Model model = read(text);
  CHECK(ops_of(model) == Words{"group_norm(x, w, b)"});
  CHECK(unfused(model) == 4 * (96 + 6 + 96));
}

TEST_CASE("pt2: absolute errors, and channels that groups take turns with") {
  ProgramText text;
  text.input("x", {2, 6, 4}).input("t", {2, 6, 4}).tensor("l", {}).tensor("c", {2, 6, 4});
  text.node("l1_loss", {{"self", "x"}, {"target", "t"}}, {"l"}).output("l");
  text.node("channel_shuffle", {{"self", "x"}, {"groups", 2}}, {"c"}).output("c");
  CHECK(ops_of(read(text)) == Words{"sub(x, t)", "abs(l1_loss.sub)", "mean(l1_loss.abs)",
                                    "reshape(x)", "transpose(channel_shuffle.reshape)",
                                    "reshape(channel_shuffle.transpose)"});
}

TEST_CASE("pt2: a bag of embeddings reads the rows that it names") {
  constexpr int kI64 = 5;
  ProgramText text;
  text.input("w", {1000, 8}).input("i", {20}).tensor("i", {20}, {}, kI64);
  text.input("o", {4}).tensor("o", {4}, {}, kI64).tensor("y", {4, 8});
  text.node("embedding_bag", {{"weight", "w"}, {"indices", "i"}, {"offsets", "o"}}, {"y"});
  text.output("y");
  CHECK(unfused(read(text)) == 4 * 20 * 8 + 8 * 20 + 8 * 4 + 4 * 4 * 8);
}

TEST_CASE("pt2: a known condition selects what it selects") {
  ProgramText text;
  text.input("x", {4}).tensor("one", {4}, {}, kBool).tensor("w", {4}).tensor("y", {4});
  text.node("ones", {{"size", Json{4}}}, {"one"});
  text.node("where", {{"condition", "one"}, {"self", "x"}, {"other", 0}}, {"w"});
  text.node("relu", {{"self", "w"}}, {"y"}).output("y");
  CHECK(ops_of(read(text)) == Words{"relu(x)"});
}

TEST_CASE("pt2: products of a program with autocast have the casts that it leaves out") {
  ProgramText text;
  text.input("x", {4, 8}).parameter("w", "w", {6, 8}).tensor("y", {4, 6}, {}, kBf16);
  text.tensor("z", {4, 4}, {}, kBf16).tensor("t", {6, 4}, {1, 6}, kBf16).tensor("s", {4, 8});
  text.node("linear", {{"input", "x"}, {"weight", "w"}}, {"y"});
  text.node("t", {{"self", "y"}}, {"t"});
  text.node("mm", {{"self", "y"}, {"mat2", "t"}}, {"z"});
  text.node("relu", {{"self", "x"}}, {"s"}).output("z").output("s");
  const Model model = read(text);
  CHECK(ops_of(model) == Words{"cast(x)", "cast(w)", "linear(linear.cast, linear.cast_2)",
                               "matmul(linear, linear)", "relu(x)"});
  CHECK(unfused(model) == (4 + 2) * (32 + 48) + 2 * (32 + 48 + 24) + 2 * (24 + 16) + 4 * 64);
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
  CHECK(ops_of(model) == Words{"mul(x, number)"});
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
    CHECK(ops_of(read(text)) == (hides ? Words{"add(number, x)"} : Words{"add(x, x)"}));
  }
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
  CHECK(ops_of(model) == Words{"full()", "concat(a, b, slice_scatter.full)"});
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

TEST_CASE("pt2: recurrent networks are their steps") {
  const auto program = [](const std::string& kind, int gates) {
    ProgramText text;
    text.input("x", {2, 3, 5}).tensor("h", {1, 2, 4}).tensor("c", {1, 2, 4});
    text.parameter("wi", "wi", {gates * 4, 5}).parameter("wh", "wh", {gates * 4, 4});
    text.parameter("bi", "bi", {gates * 4}).parameter("bh", "bh", {gates * 4});
    text.tensor("o", {2, 3, 4}).tensor("hn", {1, 2, 4}).tensor("cn", {1, 2, 4});
    text.node("zeros", {{"size", Json{1, 2, 4}}}, {"h"});
    text.node("zeros", {{"size", Json{1, 2, 4}}}, {"c"});
    const bool lstm = gates == 4;
    text.node(
        kind, {{"input", "x"}, {"num_layers", 1}, {"has_biases", true}, {"batch_first", true}},
        lstm ? std::vector<std::string>{"o", "hn", "cn"} : std::vector<std::string>{"o", "hn"});
    const auto list = [](const std::vector<std::string>& names) {
      Json tensors = Json::array();
      for (const std::string& name : names) tensors.push_back({{"name", name}});
      return Json{{"as_tensors", tensors}};
    };
    Json& inputs = text.graph["nodes"].back()["inputs"];
    const Json states = lstm ? list({"h", "c"}) : Json{{"as_tensor", {{"name", "h"}}}};
    inputs.push_back({{"name", "hx"}, {"arg", states}});
    inputs.push_back({{"name", "params"}, {"arg", list({"wi", "wh", "bi", "bh"})}});
    return text.output("o");
  };
  const auto count = [](const Words& ops, std::string_view op) {
    return std::ranges::count_if(ops,
                                 [&](const std::string& line) { return line.starts_with(op); });
  };
  for (const int gates : {4, 3, 1}) {
    CAPTURE(gates);
    const Model model = read(program(gates == 4 ? "lstm" : gates == 3 ? "gru" : "rnn_tanh", gates));
    const Words ops = ops_of(model);
    CHECK(model.origin.opaque == 0);
    // All rows of x at once; the state of the second and the third step.
    CHECK(count(ops, "linear(") == 1 + 2);
    CHECK(count(ops, "tanh(") == (gates == 4 ? 6 : 3));
    CHECK(count(ops, "concat(") == 1);
  }
}

TEST_CASE("pt2: a cell of a recurrent network is one step") {
  const auto ops = [](const std::string& kind, int gates, bool biases) {
    ProgramText text;
    text.input("x", {2, 5}).input("h", {2, 4}).input("c", {2, 4});
    text.parameter("wi", "wi", {gates * 4, 5}).parameter("wh", "wh", {gates * 4, 4});
    text.parameter("bi", "bi", {gates * 4}).parameter("bh", "bh", {gates * 4});
    text.tensor("hn", {2, 4}).tensor("cn", {2, 4});
    std::vector<std::pair<std::string, Json>> arguments = {{"input", "x"}};
    if (gates != 4) arguments.emplace_back("hx", "h");
    for (const std::string name : {"w_ih", "w_hh"}) {
      arguments.emplace_back(name, name == "w_ih" ? "wi" : "wh");
    }
    if (biases) arguments.insert(arguments.end(), {{"b_ih", "bi"}, {"b_hh", "bh"}});
    text.node(kind, arguments,
              gates == 4 ? std::vector<std::string>{"hn", "cn"} : std::vector<std::string>{"hn"});
    if (gates == 4) {
      text.graph["nodes"].back()["inputs"].push_back(
          {{"name", "hx"}, {"arg", {{"as_tensors", {{{"name", "h"}}, {{"name", "c"}}}}}}});
    }
    return rows_of(read(text.output("hn")));
  };
  const auto count = [](const Words& rows, const std::string& row) {
    return std::ranges::count(rows, row);
  };
  CHECK(ops("rnn_relu_cell", 1, false) == Words{"linear", "linear", "add", "relu"});
  CHECK(ops("rnn_tanh_cell", 1, true) == Words{"linear", "linear", "add", "tanh"});
  const Words lstm = ops("lstm_cell", 4, true);
  CHECK(count(lstm, "linear") == 2);
  CHECK(count(lstm, "sigmoid") == 3);
  CHECK(count(lstm, "tanh") == 2);
  CHECK(count(lstm, "fma") == 1);
  const Words gru = ops("gru_cell", 3, true);
  CHECK(count(gru, "linear") == 2);
  CHECK(count(gru, "sigmoid") == 2);
  CHECK(gru.back() == "lerp");
}
