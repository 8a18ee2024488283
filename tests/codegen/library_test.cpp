#include "codegen/library.hpp"

#include <doctest/doctest.h>

#include <optional>
#include <string>

#include "codegen/generate.hpp"
#include "graph/graph_text.hpp"

namespace fusecalc {
namespace {

using testing::graph_of;

// The library's call for all ops of a list around x [4, 60, 16] and w [32, 16].
std::optional<LibraryProduct> call(const std::string& ops, const std::string& more = "",
                                   const std::string& rest = "") {
  const OpGraph graph = graph_of(
      R"({"format": "fusecalc.ops/1", "dtype": "bf16", "tensors": {"x": {"shape": [4, 60, 16]},
          "w": {"shape": [32, 16]}, "b": {"shape": [32]}, "r": {"shape": [4, 60, 32]})" +
      more + R"(}, "ops": [)" + ops + "]" + rest + "}");
  TrafficCounter counter(graph, known_devices().front());
  Kernel all;
  for (OpId id = 0; id < graph.ops.size(); ++id) all.push_back(id);
  return generate(counter, all, known_devices().front()).library;
}

const std::string kBare = R"({"op": "linear", "inputs": ["x", "w"], "output": "h"})";
const std::string kBias = R"({"op": "linear", "inputs": ["x", "w", "b"], "output": "h"})";

std::string then(const std::string& op, const std::string& inputs, const std::string& output,
                 const std::string& more = "") {
  return R"(, {"op": ")" + op + R"(", "inputs": [)" + inputs + R"(], "output": ")" + output + "\"" +
         more + "}";
}

MatmulEpilogue epilogue_of(const std::optional<LibraryProduct>& product) {
  REQUIRE(product);
  return product->matmul.epilogue;
}

const std::string kTanh = R"(, "approximate": "tanh")";

TEST_CASE("a product with a bias and an activation is one call of the library") {
  CHECK(epilogue_of(call(kBare)) == MatmulEpilogue::kPlain);
  CHECK(epilogue_of(call(kBias)) == MatmulEpilogue::kBias);
  CHECK(epilogue_of(call(kBare + then("relu", R"("h")", "y"))) == MatmulEpilogue::kRelu);
  CHECK(epilogue_of(call(kBias + then("relu", R"("h")", "y"))) == MatmulEpilogue::kReluBias);
  CHECK(epilogue_of(call(kBare + then("gelu", R"("h")", "y", kTanh))) == MatmulEpilogue::kGelu);
  CHECK(epilogue_of(call(kBias + then("gelu", R"("h")", "y", kTanh))) == MatmulEpilogue::kGeluBias);
}

TEST_CASE("the library may be slow with 32-bit floats and where lines are no whole 16 bytes") {
  LibraryMatmul matmul{.operand = DType::kBf16, .outcome = DType::kBf16, .n = 64};
  matmul.a_line = matmul.b_line = matmul.result_line = 64;
  CHECK_FALSE(matmul.may_be_slow());
  matmul.b_line = 65;
  CHECK(matmul.may_be_slow());
  matmul.n = 1;
  CHECK_FALSE(matmul.may_be_slow());
  CHECK(LibraryMatmul{.operand = DType::kF32, .n = 64}.may_be_slow());
  CHECK_FALSE(LibraryMatmul{.operand = DType::kF64, .n = 64}.may_be_slow());
}

TEST_CASE("an addition of one number a column is a bias, from either side") {
  const auto product = call(kBare + then("add", R"("b", "h")", "g") + then("relu", R"("g")", "y"));
  CHECK(epilogue_of(product) == MatmulEpilogue::kReluBias);
  CHECK(product->matmul.n == 32);
  CHECK(epilogue_of(call(kBare + then("add", R"("h", "b")", "g"))) == MatmulEpilogue::kBias);
  CHECK(epilogue_of(call(kBare + then("add", R"("h", "c")", "g"),
                         R"(, "c": {"shape": [1, 1, 32]})")) == MatmulEpilogue::kBias);
}

TEST_CASE("the exact gelu is never the library's, which knows the one of tanh") {
  CHECK(!call(kBias + then("gelu", R"("h")", "y")));
  CHECK(!call(kBias + then("gelu", R"("h")", "y", R"(, "approximate": "none")")));
}

TEST_CASE("groups that the library does not support are not library calls") {
  CHECK(!call(kBare + then("add", R"("h", "r")", "y")));  // a residual
  CHECK(!call(kBare + then("add", R"("h", 1)", "y")));
  CHECK(!call(kBare + then("add", R"("h", "h")", "y")));
  // A number for each row.
  CHECK(!call(kBare + then("add", R"("h", "c")", "y"), R"(, "c": {"shape": [4, 60, 1]})"));
  CHECK(!call(kBias + then("add", R"("h", "b")", "y")));  // a second bias
  CHECK(!call(kBare + then("relu", R"("h")", "g") + then("add", R"("g", "b")", "y")));
  CHECK(!call(kBare + then("relu", R"("h")", "g") + then("gelu", R"("g")", "y", kTanh)));
  CHECK(!call(kBare + then("silu", R"("h")", "y")));
}

TEST_CASE("an intermediate that is needed outside keeps the group from the library") {
  CHECK(!call(kBare + then("relu", R"("h")", "y"), "", R"(, "outputs": ["h", "y"])"));
  CHECK(!call(kBare + then("relu", R"("h")", "g") + then("mul", R"("g", "h")", "y")));
}

TEST_CASE("a result that nobody needs has no memory for the library to write") {
  CHECK(!call(kBare, "", R"(, "outputs": ["x"])"));
}

TEST_CASE("equal products of the same rows are one call") {
  const std::string keys = R"({"op": "linear", "inputs": ["x", "w"], "output": "k"})";
  const auto values = [](const std::string& inputs) {
    return R"(, {"op": "linear", "inputs": [)" + inputs + R"(], "output": "v"})";
  };
  const std::string more = R"(, "u": {"shape": [32, 16]}, "c": {"shape": [32]},
                               "wide": {"shape": [48, 16]})";
  const auto both = call(keys + values(R"("x", "u")"), more);
  CHECK(epilogue_of(both) == MatmulEpilogue::kPlain);
  REQUIRE(both->siblings.size() == 1);
  CHECK(both->siblings[0].a == both->a);
  CHECK(both->siblings[0].b != both->b);
  CHECK(both->siblings[0].result != both->result);
  const std::string biased = R"({"op": "linear", "inputs": ["x", "w", "b"], "output": "k"})";
  const auto biases = call(biased + values(R"("x", "u", "c")"), more);
  CHECK(epilogue_of(biases) == MatmulEpilogue::kBias);
  CHECK(biases->siblings[0].bias != biases->bias);
  CHECK(epilogue_of(call(keys + then("relu", R"("k")", "p") + values(R"("x", "u")") +
                             then("relu", R"("v")", "q"),
                         more)) == MatmulEpilogue::kRelu);

  CHECK(!call(keys + values(R"("x", "wide")"), more));
  CHECK(!call(biased + values(R"("x", "u")"), more));
  CHECK(!call(keys + then("relu", R"("k")", "p") + values(R"("x", "u")"), more));
  CHECK(!call(keys + values(R"("x", "u")") + then("silu", R"("v")", "q"), more));
}

TEST_CASE("types that the library would not round to keep the group from it") {
  // h is bf16 and the sum f32; a call would never round to bf16.
  CHECK(
      !call(kBare + then("add", R"("h", "c")", "y"), R"(, "c": {"shape": [32], "dtype": "f32"})"));
  CHECK(
      !call(kBare + then("cast", R"("h")", "g", R"(, "to": "f32")") + then("relu", R"("g")", "y")));
}

}  // namespace
}  // namespace fusecalc
