// The type of results that no operand's type decides: floats made of integers, and numbers alone.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <map>
#include <string>
#include <string_view>

#include "graph/graph_text.hpp"
#include "graph/op_table.hpp"
#include "plan/legality.hpp"

using namespace fusecalc;
using namespace fusecalc::testing;

namespace {

// Operands of integers, and what an op is given besides its inputs.
constexpr std::string_view kIntegers =
    R"("i": {"shape": [2, 4], "dtype": "i32"}, "j": {"shape": [2, 4], "dtype": "i8"},
       "c": {"shape": [2, 4], "dtype": "bool"}, "w": {"shape": [4], "dtype": "i32"},
       "n": {"shape": [2], "dtype": "i64"}, "m": {"shape": [4, 4], "dtype": "i32"},
       "h": {"shape": [1, 2, 4, 4], "dtype": "i8"}, "r": {"shape": [2, 4], "dtype": "i32"},
       "d3": {"shape": [2, 2, 2], "dtype": "i8"}, "d4": {"shape": [2, 2, 2, 2], "dtype": "i8"},
       "d5": {"shape": [2, 2, 2, 2, 2], "dtype": "i8"}, "q": {"shape": [1, 2, 4], "dtype": "i32"},
       "k": {"shape": [2, 1], "dtype": "i32"}, "b3": {"shape": [2, 4, 3], "dtype": "i8"},
       "w1": {"shape": [1, 4], "dtype": "i32"})";

std::string made(std::string_view list_dtype, std::string_view op, std::string_view rest) {
  const std::string dtype = list_dtype.empty() ? "" : fmt::format(R"("dtype": "{}", )", list_dtype);
  const OpGraph graph = graph_of(fmt::format(
      R"({{{}"tensors": {{{}}}, "ops": [{{"op": "{}", {}}}]}})", dtype, kIntegers, op, rest));
  std::string types;
  for (const Tensor& tensor : graph.tensors) {
    if (tensor.producer == kNone && tensor.view_of == kNone) continue;
    types += (types.empty() ? "" : " ") + std::string(name_of(tensor.type.dtype));
  }
  return types;
}

std::string with_inputs(std::string_view inputs, std::string_view more = "") {
  return fmt::format(R"("inputs": [{}], "output": "y"{}{})", inputs, more.empty() ? "" : ", ",
                     more);
}

struct Made {
  std::string rest;
  std::string types;  // "float": what the list says
};

// What NumPy and PyTorch make of integers: a float where the result is no integer. Ops without
// shape rules of their own are left to their type rules.
std::map<std::string_view, Made> of_integers() {
  const std::string one = with_inputs(R"("i")");
  const std::string half = R"("stride": 2, "padding": 1)";
  const auto twice = [](std::string_view x) { return fmt::format("{0}, {0}", x); };
  const auto thrice = [](std::string_view x) { return fmt::format("{0}, {0}, {0}", x); };
  return {
      {"div", {with_inputs(R"("i", "j")"), "float"}},
      {"mean", {one, "float"}},
      {"softmax", {one, "float"}},
      {"clamp", {with_inputs(R"("i")", R"("min": 0, "max": 6)"), "i32"}},
      {"cast", {with_inputs(R"("i")", R"("to": "i16")"), "i16"}},
      {"where", {with_inputs(R"("c", "j", "i")"), "i32"}},
      {"dropout", {with_inputs(R"("i")", R"("p": 0.5)"), "float"}},
      {"sum", {one, "i64"}},
      {"argmax", {one, "i64"}},
      {"layer_norm", {with_inputs(R"("i", "w", "w")"), "float"}},
      {"batch_norm", {with_inputs(R"("i", "w", "w", "w", "w")"), "float"}},
      {"group_norm", {with_inputs(R"("i", "w", "w")", R"("groups": 2)"), "float"}},
      {"cross_entropy", {with_inputs(R"("i", "n")"), "float"}},
      {"nll_loss", {with_inputs(R"("i", "n")"), "float"}},
      {"concat", {with_inputs(R"("i", "j")"), "i32"}},
      {"slice", {with_inputs(R"("i")", R"("starts": [1])"), "i32"}},
      {"slice_view", {with_inputs(R"("i")", R"("starts": [1])"), "i32"}},
      {"expand_view", {with_inputs(R"("i")", R"("shape": [3, 2, 4])"), "i32"}},
      {"gather", {with_inputs(R"("i", "n")"), "i32"}},
      {"embedding", {with_inputs(R"("i", "n")"), "i32"}},
      {"scatter_update", {with_inputs(R"("i", "n", "r")"), "i32"}},
      {"broadcast_to", {with_inputs(R"("i")", R"("shape": [3, 2, 4])"), "i32"}},
      {"reshape", {with_inputs(R"("i")", R"("shape": [8])"), "i32"}},
      {"view", {with_inputs(R"("i")", R"("shape": [8])"), "i32"}},
      {"pad", {with_inputs(R"("i")", R"("after": [1, 0])"), "i32"}},
      {"roll", {with_inputs(R"("i")", R"("axes": [1], "shifts": [1])"), "i32"}},
      {"repeat", {with_inputs(R"("i")", R"("repeats": [2, 1])"), "i32"}},
      {"rotary", {with_inputs(R"("i", "i", "i")"), "float"}},
      {"one_hot", {with_inputs(R"("i")", R"("classes": 3)"), "i64"}},
      {"iota", {with_inputs("", R"("shape": [3], "delta": 0.5)"), "float"}},
      {"full", {with_inputs("", R"("shape": [3], "value": 0.5)"), "float"}},
      {"topk", {with_inputs(R"("i")", R"("k": 2)"), "i32"}},
      {"matmul", {with_inputs(R"("i", "m")"), "i32"}},
      {"linear", {with_inputs(R"("i", "m")"), "i32"}},
      {"grouped_matmul", {with_inputs(R"("i", "b3", "n")"), "i32"}},
      {"scaled_matmul", {with_inputs(R"("i", "m", "k", "w1")"), "i32"}},
      {"conv2d", {with_inputs(R"("h", "h")", R"("padding": 2)"), "i32"}},
      {"conv1d", {with_inputs(twice(R"("d3")")), "i32"}},
      {"conv_transpose1d", {with_inputs(twice(R"("d3")")), "i32"}},
      {"conv1d_backward", {with_inputs(thrice(R"("d3")"), half), "float"}},
      {"conv_transpose1d_backward", {with_inputs(thrice(R"("d3")"), half), "float"}},
      {"conv_transpose2d", {with_inputs(twice(R"("d4")")), "i32"}},
      {"conv2d_backward", {with_inputs(thrice(R"("d4")"), half), "float"}},
      {"conv_transpose2d_backward", {with_inputs(thrice(R"("d4")"), half), "float"}},
      {"conv3d", {with_inputs(twice(R"("d5")")), "i32"}},
      {"conv_transpose3d", {with_inputs(twice(R"("d5")")), "i32"}},
      {"conv3d_backward", {with_inputs(thrice(R"("d5")"), half), "float"}},
      {"conv_transpose3d_backward", {with_inputs(thrice(R"("d5")"), half), "float"}},
      {"max_pool", {with_inputs(R"("h")", R"("kernel": 2)"), "i8"}},
      {"avg_pool", {with_inputs(R"("h")", R"("kernel": 2)"), "float"}},
      {"adaptive_max_pool", {with_inputs(R"("h")", R"("size": 2)"), "i8"}},
      {"adaptive_avg_pool", {with_inputs(R"("h")", R"("size": 2)"), "float"}},
      {"upsample_nearest", {with_inputs(R"("h")", R"("scale": 2)"), "i8"}},
      {"upsample_linear", {with_inputs(R"("h")", R"("scale": 2)"), "float"}},
      {"softmax_backward", {with_inputs(R"("i", "j")"), "float"}},
      {"log_softmax_backward", {with_inputs(R"("i", "j")"), "float"}},
      {"nll_loss_backward", {with_inputs(R"("n", "i", "n")", R"("reduction": "none")"), "float"}},
      {"layer_norm_backward", {with_inputs(R"("i", "i", "k", "k")"), "float"}},
      {"rms_norm_backward", {with_inputs(R"("i", "i", "k")"), "float"}},
      {"batch_norm_backward", {with_inputs(R"("i", "i", "w", "w")"), "float"}},
      {"group_norm_backward", {with_inputs(R"("i", "i", "k", "k")"), "float"}},
      {"attention_backward", {with_inputs(R"("h", "h", "h", "h", "h", "q")"), "float"}},
      {"embedding_backward", {with_inputs(R"("i", "n")", R"("size": 5)"), "float"}},
      {"max_pool_backward", {with_inputs(thrice(R"("h")")), "float"}},
      {"avg_pool_backward", {with_inputs(twice(R"("h")"), R"("kernel": 1)"), "float"}},
      {"adaptive_avg_pool_backward", {with_inputs(twice(R"("h")")), "float"}},
      {"upsample_nearest_backward", {with_inputs(R"("h")", R"("size": 2)"), "float"}},
      {"upsample_linear_backward", {with_inputs(R"("h")", R"("size": 2)"), "float"}},
      {"attention", {with_inputs(R"("h", "h", "h")"), "float"}}};
}

Made by_type_rule(const OpRow& row) {
  std::string inputs = R"("i")";
  for (unsigned i = 1; i < row.min_inputs; ++i) inputs += R"(, "i")";
  switch (row.type_rule) {
    case TypeRule::kFloat: return {with_inputs(inputs), "float"};
    case TypeRule::kBool: return {with_inputs(inputs), "bool"};
    case TypeRule::kIndex:
    case TypeRule::kAccumulate: return {with_inputs(inputs), "i64"};
    case TypeRule::kBits:
    case TypeRule::kPromote: break;
  }
  const bool floats = row.family == OpFamily::kSoftmax || row.family == OpFamily::kRowNorm;
  return {with_inputs(inputs), floats ? "float" : "i32"};
}

}  // namespace

TEST_CASE("floats made of integers have the list's dtype, whatever the op") {
  const std::map<std::string_view, Made> rows = of_integers();
  const std::map<std::string_view, std::string_view> floats = {
      {"", "f32"},      {"f64", "f64"}, {"f32", "f32"}, {"tf32", "tf32"}, {"f16", "f16"},
      {"bf16", "bf16"}, {"i64", "f32"}, {"u8", "f32"},  {"bool", "f32"}};
  for (const auto& pair : floats) {
    const auto& [list_dtype, type] = pair;
    CAPTURE(pair.first);
    for (const OpRow& row : op_table()) {
      if (row.family == OpFamily::kCustom) continue;  // declares its results
      const auto found = rows.find(row.name);
      const auto& [rest, types] = found == rows.end() ? by_type_rule(row) : found->second;
      CAPTURE(row.name);
      CHECK(made(list_dtype, row.name, rest) == (types == "float" ? type : types));
    }
  }
}

TEST_CASE("numbers alone have the list's dtype, unless it cannot hold them") {
  const auto chosen = [](std::string_view list_dtype, std::string_view numbers) {
    return made(list_dtype, "where", with_inputs(fmt::format(R"("c", {})", numbers)));
  };
  CHECK(chosen("bf16", "1, 0") == "bf16");
  CHECK(chosen("bf16", "0, -1e9") == "bf16");
  CHECK(chosen("f64", "0.5, 0") == "f64");
  CHECK(chosen("i32", "1, 0") == "i32");
  CHECK(chosen("i32", "1, 0.5") == "f32");
  CHECK(chosen("", "1, 0") == "f32");
  // A tensor decides where there is one.
  CHECK(chosen("bf16", R"("j", 0)") == "i8");
  CHECK(chosen("bf16", R"("j", 0.5)") == "bf16");
}

TEST_CASE("a number that integers cannot hold makes a float of the list's dtype") {
  CHECK(made("f16", "add", with_inputs(R"("i", 0.5)")) == "f16");
  CHECK(made("f16", "pow", with_inputs(R"("i", 0.5)")) == "f16");
  CHECK(made("f16", "clamp", with_inputs(R"("i", 0.5, 6)")) == "f16");
  CHECK(made("f16", "clamp", with_inputs(R"("i")", R"("min": 0.5)")) == "f16");
  CHECK(made("f16", "clamp", with_inputs(R"("i")", R"("max": 6)")) == "i32");
  CHECK(made("u8", "mul", with_inputs(R"("i", 0.5)")) == "f32");
}

TEST_CASE("a declared dtype replaces that of a float made of integers") {
  const OpGraph graph = graph_of(R"({"dtype": "bf16",
    "tensors": {"a": {"shape": [4], "dtype": "i32"}, "y": {"dtype": "f32"}},
    "ops": [{"op": "div", "inputs": ["a", "a"], "output": "y"}]})");
  CHECK(tensor_named(graph, "y").type.dtype == DType::kF32);
  CHECK(tensor_named(graph, "y").bytes == 16);
}

TEST_CASE("statistics are f32, or f64 where the input is") {
  const auto of = [](std::string_view dtype, std::string_view op, std::string_view rest) {
    const OpGraph graph = graph_of(fmt::format(
        R"({{"tensors": {{"x": {{"shape": [3, 4], "dtype": "{}"}},
                          "g": {{"shape": [4], "dtype": "{}"}},
                          "n": {{"shape": [3], "dtype": "i64"}}}},
            "ops": [{{"op": "{}", {}}}]}})",
        dtype, dtype, op, rest));
    return std::string(name_of(tensor_named(graph, "s").type.dtype));
  };
  for (const auto& pair : std::map<std::string_view, std::string_view>{
           {"f64", "f64"}, {"f32", "f32"}, {"tf32", "f32"}, {"bf16", "f32"}, {"i32", "f32"}}) {
    const auto& [dtype, kept] = pair;
    CAPTURE(pair.first);
    CHECK(of(dtype, "cross_entropy", R"("inputs": ["x", "n"], "outputs": ["y", "s"])") == kept);
    CHECK(of(dtype, "batch_norm",
             R"("inputs": ["x", "g", "g"], "outputs": ["y", "m", "s"], "mode": "training")") ==
          kept);
  }
}

TEST_CASE("attention on integers has no kernel, whatever its result is declared as") {
  for (const std::string_view declared : {"", R"(, "y": {"dtype": "f32"})"}) {
    const OpGraph graph = graph_of(fmt::format(
        R"({{"dtype": "f16", "tensors": {{"h": {{"shape": [1, 2, 8, 8], "dtype": "i8"}}{}}},
            "ops": [{{"op": "attention", "inputs": ["h", "h", "h"], "output": "y"}}]}})",
        declared));
    PhaseFinder phases(graph);
    CHECK(check_launch(phases, {0}, {.on_chip_bytes = 1U << 17U}).obstacle ==
          Obstacle::kIntegerAttention);
  }
}
