// Products: with factors, of vectors, as einsum, and under autocast.

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "support/models.hpp"
#include "support/pt2_files.hpp"
#include "support/words.hpp"

using namespace fusecalc;
using namespace fusecalc::testing;

namespace {

using Json = nlohmann::json;
using Sizes = std::vector<ProgramText::Size>;

}  // namespace

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
    return calls_of(read(text.output(op == "addmm" ? "y" : "z")));
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
    calls_of(model);
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
  CHECK(calls_of(read(text.output("d"))) == Words{"custom(x)"});
}

TEST_CASE("pt2: a product along several axes is one of matrices") {
  const auto model_of = [](const Json& axes, const Json& other_axes, const Sizes& other,
                           const Sizes& result) {
    ProgramText text;
    text.input("a", {2, 3, 4}).input("b", other).tensor("y", result);
    text.node("tensordot",
              {{"self", "a"}, {"other", "b"}, {"dims_self", axes}, {"dims_other", other_axes}},
              {"y"});
    return read(text.output("y"));
  };
  const Model last = model_of({2}, {0}, {4, 5}, {2, 3, 5});
  CHECK(last.origin.opaque == 0);
  CHECK(unfused(last) == 4 * (24 + 20 + 30));
  // Both sums run over the axes in the same order, so that neither operand is copied.
  CHECK(unfused(model_of({1, 2}, {0, 1}, {3, 4, 5}, {2, 5})) == 4 * (24 + 60 + 10));
  CHECK(unfused(model_of({-1}, {-1}, {5, 4}, {2, 3, 5})) == 4 * (24 + 20 + 30));
  // In another order `self` is copied.
  CHECK(unfused(model_of({1, 0}, {0, 1}, {3, 2, 5}, {4, 5})) == 4 * (48 + 24 + 30 + 20));
  CHECK(rows_of(model_of({0}, {0}, {1, 5}, {3, 4, 5})) == Words{"custom"});
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

TEST_CASE("pt2: products of a program with autocast have the casts that it leaves out") {
  ProgramText text;
  text.input("x", {4, 8}).parameter("w", "w", {6, 8}).tensor("y", {4, 6}, {}, kBf16);
  text.tensor("z", {4, 4}, {}, kBf16).tensor("t", {6, 4}, {1, 6}, kBf16).tensor("s", {4, 8});
  text.node("linear", {{"input", "x"}, {"weight", "w"}}, {"y"});
  text.node("t", {{"self", "y"}}, {"t"});
  text.node("mm", {{"self", "y"}, {"mat2", "t"}}, {"z"});
  text.node("relu", {{"self", "x"}}, {"s"}).output("z").output("s");
  const Model model = read(text);
  CHECK(calls_of(model) == Words{"cast(x)", "cast(w)", "linear(linear.cast, linear.cast_2)",
                                 "matmul(linear, linear)", "relu(x)"});
  CHECK(unfused(model) == (4 + 2) * (32 + 48) + 2 * (32 + 48 + 24) + 2 * (24 + 16) + 4 * 64);
}

TEST_CASE("pt2: attention with dropout of its weights has attention's bytes and FLOPs") {
  const auto of = [](double dropout, bool causal) {
    ProgramText text;
    text.input("q", {2, 4, 6, 8}).input("k", {2, 4, 6, 8}).input("v", {2, 4, 6, 8});
    text.tensor("y", {2, 4, 6, 8});
    text.node("scaled_dot_product_attention",
              {{"query", "q"},
               {"key", "k"},
               {"value", "v"},
               {"dropout_p", dropout},
               {"is_causal", causal}},
              {"y"});
    const Model model = read(text.output("y"));
    const OpGraph graph = build_graph(model.graph, {});
    REQUIRE(graph.ops.size() == 1);
    CHECK(graph.ops[0].op_class == OpClass::kContract);
    return graph.ops[0].flops;
  };
  CHECK(of(0.1, false) == of(0, false));
  CHECK(of(0.1, true) == of(0, true));
  CHECK(of(0, false) == 2 * 4 * 6 * 6 * 8 * 4);
  CHECK(of(0, true) == 2 * 4 * 21 * 8 * 4);
}

TEST_CASE("pt2: a mask that is one number for all scores changes none of their weights") {
  const auto calls = [](double number) {
    ProgramText text;
    text.input("q", {2, 4, 6, 8}).input("k", {2, 4, 6, 8}).input("v", {2, 4, 6, 8});
    text.tensor("m", {6, 6}).tensor("y", {2, 4, 6, 8});
    text.node("full", {{"size", {6, 6}}, {"fill_value", number}}, {"m"});
    text.node("scaled_dot_product_attention",
              {{"query", "q"}, {"key", "k"}, {"value", "v"}, {"attn_mask", "m"}}, {"y"});
    return calls_of(read(text.output("y")));
  };
  CHECK(calls(0) == Words{"attention(q, k, v)"});
  CHECK(calls(2.5) == Words{"attention(q, k, v)"});
}

TEST_CASE("pt2: the backward pass of an attention that was decomposed has attention's FLOPs") {
  const auto of = [](const std::vector<ProgramText::Size>& sums) {
    ProgramText text;
    for (const char* name : {"g", "q", "k", "v", "o"}) text.input(name, {2, 4, 6, 8});
    text.input("l", sums);
    for (const char* name : {"a", "b", "c"}) text.tensor(name, {2, 4, 6, 8});
    text.node("_scaled_dot_product_flash_attention_for_cpu_backward",
              {{"grad_out", "g"},
               {"query", "q"},
               {"key", "k"},
               {"value", "v"},
               {"out", "o"},
               {"logsumexp", "l"},
               {"dropout_p", 0.0},
               {"is_causal", false}},
              {"a", "b", "c"});
    for (const char* name : {"a", "b", "c"}) text.output(name);
    const OpGraph graph = build_graph(read(text).graph, {});
    REQUIRE(graph.ops.size() == 1);
    return graph.ops[0].flops;
  };
  CHECK(of({2, 4, 6}) == 2 * 4 * 6 * 6 * 8 * 10);
  CHECK(of({2, 4, 6, 6}) == of({2, 4, 6}));
}
