// Norms and activations that a program writes out.

#include <doctest/doctest.h>

#include "support/models.hpp"
#include "support/pt2_files.hpp"
#include "support/words.hpp"

using namespace fusecalc;
using namespace fusecalc::testing;

namespace {

using Json = nlohmann::json;

// What differs from norm to norm.
struct Norm {
  int axis = -1;
  bool keepdim = true;
  double epsilon = 1e-6;
  const char* also = nullptr;  // another output
};

// weight * (x.float() * rsqrt(mean(x.float()^2) + eps)).bfloat16(), as Llama has it.
ProgramText llama_norm(const Norm& norm) {
  ProgramText text;
  text.input("x", {64, 64}).input("w", {64});
  text.tensor("x", {64, 64}, {}, kBf16).tensor("w", {64}, {}, kBf16);
  text.tensor("x32", {64, 64}, {}, kFloat).tensor("squares", {64, 64}, {}, kFloat);
  for (const char* name : {"mean", "sum", "r"}) {
    if (!norm.keepdim) {
      text.tensor(name, {64}, {}, kFloat);
    } else if (norm.axis == 0) {
      text.tensor(name, {1, 64}, {}, kFloat);
    } else {
      text.tensor(name, {64, 1}, {}, kFloat);
    }
  }
  text.tensor("n", {64, 64}, {}, kFloat).tensor("n16", {64, 64}, {}, kBf16);
  text.tensor("y", {64, 64}, {}, kBf16);
  text.node("_to_copy", {{"self", "x"}, {"dtype", 7}}, {"x32"});
  text.node("pow", {{"self", "x32"}, {"exponent", 2}}, {"squares"});
  text.node("mean", {{"self", "squares"}, {"dim", Json{norm.axis}}, {"keepdim", norm.keepdim}},
            {"mean"});
  text.node("add", {{"self", "mean"}, {"other", norm.epsilon}}, {"sum"});
  text.node("rsqrt", {{"self", "sum"}}, {"r"});
  text.node("mul", {{"self", "x32"}, {"other", "r"}}, {"n"});
  text.node("_to_copy", {{"self", "n"}, {"dtype", 13}}, {"n16"});
  text.node("mul", {{"self", "w"}, {"other", "n16"}}, {"y"});
  text.output("y");
  if (norm.also != nullptr) text.output(norm.also);
  return text;
}

// (x - mean) / sqrt(mean((x - mean)^2) + eps) * w + b
ProgramText layer_norm(bool of_x) {
  ProgramText text;
  text.input("x", {4, 64}).input("w", {64}).input("b", {64});
  for (const char* name : {"mean", "variance", "sum", "deviation"}) text.tensor(name, {4, 1});
  for (const char* name : {"d", "squares", "n", "weighed", "y"}) text.tensor(name, {4, 64});
  text.node("mean", {{"self", "x"}, {"dim", Json{-1}}, {"keepdim", true}}, {"mean"});
  text.node("sub", {{"self", "x"}, {"other", "mean"}}, {"d"});
  text.node("pow", {{"self", "d"}, {"exponent", 2}}, {"squares"});
  text.node("mean", {{"self", "squares"}, {"dim", Json{-1}}, {"keepdim", true}}, {"variance"});
  text.node("add", {{"self", "variance"}, {"other", 1e-5}}, {"sum"});
  text.node("sqrt", {{"self", "sum"}}, {"deviation"});
  text.node("div", {{"self", of_x ? "x" : "d"}, {"other", "deviation"}}, {"n"});
  text.node("mul", {{"self", "n"}, {"other", "w"}}, {"weighed"});
  text.node("add", {{"self", "weighed"}, {"other", "b"}}, {"y"});
  text.output("y");
  return text;
}

// x / 2 * (1 + tanh(sqrt(2 / pi) * (x + third * x^3)))
ProgramText tanh_gelu(double third) {
  ProgramText text;
  text.input("x", {4, 64});
  for (const char* name : {"half", "cube", "part", "sum", "scaled", "t", "gate", "y"}) {
    text.tensor(name, {4, 64});
  }
  text.node("mul", {{"self", "x"}, {"other", 0.5}}, {"half"});
  text.node("pow", {{"self", "x"}, {"exponent", 3}}, {"cube"});
  text.node("mul", {{"self", "cube"}, {"other", third}}, {"part"});
  text.node("add", {{"self", "x"}, {"other", "part"}}, {"sum"});
  text.node("mul", {{"self", "sum"}, {"other", 0.7978845608028654}}, {"scaled"});
  text.node("tanh", {{"self", "scaled"}}, {"t"});
  text.node("add", {{"self", "t"}, {"other", 1.0}}, {"gate"});
  text.node("mul", {{"self", "half"}, {"other", "gate"}}, {"y"});
  text.output("y");
  return text;
}

}  // namespace

TEST_CASE("pt2: a norm by the root mean square, in wider floats and with its weight, is one op") {
  CHECK(rows_of(read(llama_norm({}))) == Words{"rms_norm"});
  // x and the result of 4,096 elements, and the weight of 64, of 2 bytes.
  CHECK(unfused(read(llama_norm({}))) == 2 * (2 * 4096 + 64));
  const Model model = read(llama_norm({}));
  CHECK(model.origin.exact == 8);
  CHECK(model.origin.folded == 0);
  const std::vector<WrittenAttribute>& attributes = model.graph.ops[0].attributes;
  REQUIRE(attributes.size() == 2);
  CHECK(std::get<double>(attributes[1].value) == 1e-6);
}

TEST_CASE("pt2: a norm stays written out where it is not one of rows, or its inside is needed") {
  const Words written = {"cast", "square", "mean", "add", "rsqrt", "mul", "cast", "mul"};
  CHECK(rows_of(read(llama_norm({.axis = 0}))) == written);
  CHECK(rows_of(read(llama_norm({.keepdim = false}))) ==
        written);  // the mean of a row scales a column
  CHECK(rows_of(read(llama_norm({.epsilon = 0}))) == written);
  CHECK(rows_of(read(llama_norm({.also = "r"}))) == written);
  CHECK(rows_of(read(llama_norm({.also = "squares"}))) == written);
  // What was not weighed yet is needed, too: the weight has an op of its own.
  CHECK(rows_of(read(llama_norm({.also = "n16"}))) == Words{"rms_norm", "mul"});
}

TEST_CASE("pt2: a layer norm that is written out is one op with its weight and bias") {
  CHECK(rows_of(read(layer_norm(false))) == Words{"layer_norm"});
  CHECK(unfused(read(layer_norm(false))) == 4 * (2 * 4 * 64 + 2 * 64));
  // x itself, divided by the deviation, is no norm.
  CHECK(rows_of(read(layer_norm(true))).size() == 9);
}

TEST_CASE(
    "pt2: a layer norm by the variance, or with the difference and the weight written first") {
  ProgramText text;
  text.input("x", {4, 64}).input("w", {64}).input("b", {64});
  for (const char* name : {"mean", "variance", "sum", "deviation"}) text.tensor(name, {4, 1});
  for (const char* name : {"d", "weighed", "n", "y"}) text.tensor(name, {4, 64});
  text.node("mean", {{"self", "x"}, {"dim", Json{-1}}, {"keepdim", true}}, {"mean"});
  text.node("sub", {{"self", "x"}, {"other", "mean"}}, {"d"});
  const std::size_t at = text.graph["nodes"].size();
  text.node("var", {{"self", "x"}, {"dim", Json{-1}}, {"correction", 0}, {"keepdim", true}},
            {"variance"});
  text.node("add", {{"self", "variance"}, {"other", 1e-5}}, {"sum"});
  text.node("sqrt", {{"self", "sum"}}, {"deviation"});
  text.node("mul", {{"self", "w"}, {"other", "d"}}, {"weighed"});
  text.node("div", {{"self", "weighed"}, {"other", "deviation"}}, {"n"});
  text.node("add", {{"self", "n"}, {"other", "b"}}, {"y"});
  text.output("y");
  CHECK(rows_of(read(text)) == Words{"layer_norm"});
  CHECK(unfused(read(text)) == 4 * (2 * 4 * 64 + 2 * 64));
  // Divided by one element less, it is no layer norm.
  text.graph["nodes"][at]["inputs"][2]["arg"] = {{"as_int", 1}};
  CHECK(rows_of(read(text)).size() == 8);
}

TEST_CASE("pt2: a norm whose weight and mean are folded, as TensorFlow has it, is one op") {
  const auto program = [](const char* shifted_by) {
    ProgramText text;
    text.input("x", {4, 64}).input("w", {64}).input("b", {64}).input("other", {4, 1});
    for (const char* name : {"mean", "variance", "sum", "root", "inverse"}) {
      text.tensor(name, {4, 1});
    }
    for (const char* name : {"d", "squares", "scale", "scaled", "shift", "rest", "y"}) {
      text.tensor(name, {4, 64});
    }
    text.node("mean", {{"self", "x"}, {"dim", Json{-1}}, {"keepdim", true}}, {"mean"});
    text.node("sub", {{"self", "x"}, {"other", "mean"}}, {"d"});
    text.node("mul", {{"self", "d"}, {"other", "d"}}, {"squares"});
    text.node("mean", {{"self", "squares"}, {"dim", Json{-1}}, {"keepdim", true}}, {"variance"});
    text.node("add", {{"self", "variance"}, {"other", 1e-3}}, {"sum"});
    text.node("sqrt", {{"self", "sum"}}, {"root"});
    text.node("reciprocal", {{"self", "root"}}, {"inverse"});
    text.node("mul", {{"self", "inverse"}, {"other", "w"}}, {"scale"});
    text.node("mul", {{"self", "x"}, {"other", "scale"}}, {"scaled"});
    text.node("mul", {{"self", shifted_by}, {"other", "scale"}}, {"shift"});
    text.node("sub", {{"self", "b"}, {"other", "shift"}}, {"rest"});
    text.node("add", {{"self", "scaled"}, {"other", "rest"}}, {"y"}).output("y");
    return text;
  };
  CHECK(rows_of(read(program("mean"))) == Words{"layer_norm"});
  CHECK(unfused(read(program("mean"))) == 4 * (2 * 4 * 64 + 2 * 64));
  CHECK(rows_of(read(program("other"))).size() == 12);
}

TEST_CASE("pt2: gelu by tanh is one op where its factors are those of gelu") {
  CHECK(rows_of(read(tanh_gelu(0.044715))) == Words{"gelu"});
  CHECK(unfused(read(tanh_gelu(0.044715))) == 4 * 2 * 4 * 64);
  CHECK(rows_of(read(tanh_gelu(0.05))).size() == 8);
}

TEST_CASE("pt2: silu that is computed in wider floats reads what was cast") {
  ProgramText text;
  text.input("x", {4, 64}).tensor("x", {4, 64}, {}, kBf16).tensor("x32", {4, 64}, {}, kFloat);
  text.tensor("gate", {4, 64}, {}, kFloat).tensor("y32", {4, 64}, {}, kFloat);
  text.tensor("y", {4, 64}, {}, kBf16);
  text.node("_to_copy", {{"self", "x"}, {"dtype", 7}}, {"x32"});
  text.node("sigmoid", {{"self", "x32"}}, {"gate"});
  text.node("mul", {{"self", "x32"}, {"other", "gate"}}, {"y32"});
  text.node("_to_copy", {{"self", "y32"}, {"dtype", 13}}, {"y"});
  text.output("y");
  CHECK(rows_of(read(text)) == Words{"silu"});
  CHECK(unfused(read(text)) == 2 * 2 * 4 * 64);
}
