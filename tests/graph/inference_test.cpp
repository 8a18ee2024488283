// Shapes and types that ops make of their inputs, family by family.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "graph/graph_text.hpp"

using namespace fusecalc;
using namespace fusecalc::testing;

namespace {

// An op on inputs a, b, c, d of the given shapes; `rest` is the rest of the op.
std::string list_of(std::string_view op, std::string_view inputs, std::string_view tensors,
                    std::string_view rest = "", std::string_view outputs = R"("output": "y")") {
  return fmt::format(R"({{"tensors": {{{}}}, "ops": [{{"op": "{}", "inputs": [{}], {}{}{}}}]}})",
                     tensors, op, inputs, outputs, rest.empty() ? "" : ", ", rest);
}

std::string type_of(const OpGraph& graph, std::string_view tensor) {
  const TensorType& type = tensor_named(graph, tensor).type;
  return fmt::format("{} {}", name_of(type.dtype), to_string(type.shape));
}

// "f32 [2, 3]": what the op makes.
std::string made(std::string_view op, std::string_view inputs, std::string_view tensors,
                 std::string_view rest = "") {
  return type_of(graph_of(list_of(op, inputs, tensors, rest)), "y");
}

std::string fault(std::string_view op, std::string_view inputs, std::string_view tensors,
                  std::string_view rest = "") {
  return fault_of(list_of(op, inputs, tensors, rest));
}

}  // namespace

TEST_CASE("pointwise ops broadcast as NumPy does") {
  const std::string_view tensors =
      R"("a": {"shape": [8, 1, 6, 1]}, "b": {"shape": [7, 1, 5]}, "s": {"shape": []})";
  CHECK(made("add", R"("a", "b")", tensors) == "f32 [8, 7, 6, 5]");
  CHECK(made("mul", R"("s", "b")", tensors) == "f32 [7, 1, 5]");
  CHECK(made("fma", R"("s", "s", "a")", tensors) == "f32 [8, 1, 6, 1]");
  CHECK(made("where", R"("b", 1, "a")", tensors) == "f32 [8, 7, 6, 5]");
  CHECK(made("relu", R"("s")", tensors) == "f32 []");
  CHECK(made("add", R"("a", "b")", R"("a": {"shape": [0, 3]}, "b": {"shape": [1, 3]})") ==
        "f32 [0, 3]");
}

TEST_CASE("rows of all batches that one matrix multiplies are rows of one product") {
  const auto matrix = [](std::string_view b, std::string_view rest = "") {
    const MatrixShape of =
        graph_of(list_of("matmul", R"("a", "b")",
                         fmt::format(R"("a": {{"shape": [2, 3, 5, 5]}}, "b": {{"shape": {}}})", b),
                         rest))
            .ops[0]
            .matrix;
    return fmt::format("{} of {} x {} x {}", of.batch, of.rows, of.columns, of.depth);
  };
  CHECK(matrix("[5, 7]") == "1 of 30 x 7 x 5");
  CHECK(matrix("[7, 5]", R"("transpose_b": true)") == "1 of 30 x 7 x 5");
  CHECK(matrix("[5]") == "1 of 30 x 1 x 5");
  CHECK(matrix("[3, 5, 7]") == "6 of 5 x 7 x 5");
  // Such rows lie apart.
  CHECK(matrix("[5, 7]", R"("transpose_a": true)") == "6 of 5 x 7 x 5");
}

TEST_CASE("the type of a result is the wider of its inputs' types") {
  const auto sum = [](std::string_view a, std::string_view b) {
    return made(
        "add", R"("a", "b")",
        fmt::format(R"("a": {{"shape": [2], "dtype": "{}"}}, "b": {{"shape": [2], "dtype": "{}"}})",
                    a, b));
  };
  CHECK(sum("f16", "f32") == "f32 [2]");
  CHECK(sum("bf16", "f16") == "f32 [2]");
  CHECK(sum("f64", "f32") == "f64 [2]");
  CHECK(sum("i64", "bf16") == "bf16 [2]");
  CHECK(sum("i8", "i32") == "i32 [2]");
  CHECK(sum("bool", "u8") == "u8 [2]");
  // Neither holds the values of the other.
  CHECK(sum("i8", "u8") == "i16 [2]");
  CHECK(sum("u8", "i4") == "i16 [2]");
  CHECK(sum("i4", "u4") == "i8 [2]");
  CHECK(sum("u4", "i8") == "i8 [2]");
  CHECK(sum("u8", "i16") == "i16 [2]");
  CHECK(sum("f16", "f16") == "f16 [2]");
}

TEST_CASE("numbers take the tensors' type unless it cannot hold them") {
  const std::string_view tensors =
      R"("h": {"shape": [2], "dtype": "f16"}, "i": {"shape": [2], "dtype": "i32"})";
  CHECK(made("add", R"("h", 1)", tensors) == "f16 [2]");
  CHECK(made("add", R"("h", 0.5)", tensors) == "f16 [2]");
  CHECK(made("add", R"("i", 1)", tensors) == "i32 [2]");
  CHECK(made("add", R"("i", 0.5)", tensors) == "f32 [2]");
  CHECK(made("add", R"("i", -9223372036854775808)", tensors) == "i32 [2]");
  CHECK(made("add", R"("i", 9223372036854775808)", tensors) == "f32 [2]");
  CHECK(made("add", R"("i", 1e300)", tensors) == "f32 [2]");
  CHECK(made("div", R"("i", 2)", tensors) == "f32 [2]");
  CHECK(made("exp", R"("i")", tensors) == "f32 [2]");
  CHECK(made("gt", R"("h", 0)", tensors) == "bool [2]");
  CHECK(made("neg", R"("i")", tensors) == "i32 [2]");
}

TEST_CASE("bits are those of integers") {
  const std::string_view tensors =
      R"("b": {"shape": [3], "dtype": "bool"}, "i": {"shape": [2, 3], "dtype": "i16"},
         "u": {"shape": [3], "dtype": "u8"}, "x": {"shape": [3]})";
  CHECK(made("bitwise_and", R"("b", "b")", tensors) == "bool [3]");
  CHECK(made("bitwise_or", R"("b", "i")", tensors) == "i16 [2, 3]");
  CHECK(made("bitwise_xor", R"("i", 5)", tensors) == "i16 [2, 3]");
  CHECK(made("bitwise_not", R"("u")", tensors) == "u8 [3]");
  CHECK(made("bitwise_left_shift", R"("u", 3)", tensors) == "u8 [3]");
  CHECK(made("bitwise_right_shift", R"("i", "u")", tensors) == "i16 [2, 3]");
  CHECK(fault("bitwise_and", R"("i", "x")", tensors) ==
        R"(/ops/0/inputs/1: bitwise_and takes integers, but "x" of shape [3] is f32)");
  CHECK(fault("bitwise_not", R"("x")", tensors) ==
        R"(/ops/0/inputs/0: bitwise_not takes integers, but "x" of shape [3] is f32)");
  CHECK(fault("bitwise_left_shift", R"("i", 0.5)", tensors) ==
        "/ops/0/inputs/1: bitwise_left_shift takes integers");
}

TEST_CASE("questions answer with bools, rounding keeps the type, curves are floats") {
  const std::string_view tensors =
      R"("h": {"shape": [2, 3], "dtype": "f16"}, "i": {"shape": [3], "dtype": "i32"})";
  for (const char* op : {"ne", "logical_and", "logical_or", "logical_xor"}) {
    CHECK(made(op, R"("h", "i")", tensors) == "bool [2, 3]");
  }
  for (const char* op : {"isnan", "isinf", "logical_not"}) {
    CHECK(made(op, R"("i")", tensors) == "bool [3]");
  }
  for (const char* op : {"floor", "ceil", "round", "trunc", "sign", "frac", "nan_to_num"}) {
    CHECK(made(op, R"("i")", tensors) == "i32 [3]");
    CHECK(made(op, R"("h")", tensors) == "f16 [2, 3]");
  }
  for (const char* op : {"fmod", "remainder", "floor_divide"}) {
    CHECK(made(op, R"("i", 3)", tensors) == "i32 [3]");
    CHECK(made(op, R"("h", "i")", tensors) == "f16 [2, 3]");
  }
  for (const char* op :
       {"erf",         "exp2",      "expm1", "log2",  "softplus", "leaky_relu", "elu",  "selu",
        "hardsigmoid", "hardswish", "mish",  "tan",   "asin",     "acos",       "atan", "sinh",
        "cosh",        "asinh",     "acosh", "atanh", "log10",    "erfc",       "logit"}) {
    CHECK(made(op, R"("i")", tensors) == "f32 [3]");
    CHECK(made(op, R"("h")", tensors) == "f16 [2, 3]");
  }
  for (const char* op : {"atan2", "copysign", "hypot", "logaddexp", "xlogy", "gate", "huber",
                         "smooth_l1", "binary_cross_entropy"}) {
    CHECK(made(op, R"("i", "i")", tensors) == "f32 [3]");
    CHECK(made(op, R"("h", "i")", tensors) == "f16 [2, 3]");
  }
  CHECK(made("squared_difference", R"("i", "i")", tensors) == "i32 [3]");
  CHECK(made("squared_difference", R"("h", "i")", tensors) == "f16 [2, 3]");
  CHECK(made("prelu", R"("h", 0.25)", tensors) == "f16 [2, 3]");
}

TEST_CASE("infinities become the ends of a float's type") {
  const auto bounds = [](std::string_view dtype, std::string_view rest = "") {
    const Attributes at =
        *graph_of(list_of("nan_to_num", R"("x")",
                          fmt::format(R"("x": {{"shape": [3], "dtype": "{}"}})", dtype), rest))
             .ops[0]
             .attributes;
    return std::pair(at.min, at.max);
  };
  using Bounds = std::pair<std::optional<double>, std::optional<double>>;
  CHECK(bounds("f16") == Bounds(-65504, 65504));
  CHECK(bounds("fp8_e4m3") == Bounds(-448, 448));
  CHECK(bounds("f16", R"("max": 2)") == Bounds(-65504, 2));
  CHECK(bounds("i32") == Bounds());
}

TEST_CASE("cast, clamp and dropout") {
  const std::string_view tensors = R"("x": {"shape": [2, 3], "dtype": "f16"}, "m": {"shape": [3]})";
  CHECK(made("cast", R"("x")", tensors, R"("to": "fp8_e5m2")") == "fp8_e5m2 [2, 3]");
  CHECK(made("cast", R"("x")", tensors, R"("dtype": "i4")") == "i4 [2, 3]");
  CHECK(made("clamp", R"("x")", tensors, R"("min": 0, "max": 6)") == "f16 [2, 3]");
  CHECK(made("clamp", R"("x", 0, 6)", tensors) == "f16 [2, 3]");
  const OpGraph graph = graph_of(list_of(
      "dropout", R"("x")", tensors, R"("save_mask": true, "p": 0)", R"("outputs": ["y", "mask"])"));
  CHECK(type_of(graph, "y") == "f16 [2, 3]");
  CHECK(type_of(graph, "mask") == "bool [2, 3]");
}

TEST_CASE("reductions drop the axes that they reduce, or keep them as 1") {
  const std::string_view x = R"("x": {"shape": [2, 3, 4], "dtype": "f16"})";
  CHECK(made("sum", R"("x")", x) == "f16 []");
  CHECK(made("sum", R"("x")", x, R"("keepdim": true)") == "f16 [1, 1, 1]");
  CHECK(made("max", R"("x")", x, R"("axis": 1)") == "f16 [2, 4]");
  CHECK(made("max", R"("x")", x, R"("axis": -1, "keepdims": true)") == "f16 [2, 3, 1]");
  CHECK(made("mean", R"("x")", x, R"("axes": [0, 2])") == "f16 [3]");
  CHECK(made("min", R"("x")", x, R"("attrs": {"axes": [-1, 0], "keepdim": true})") ==
        "f16 [1, 3, 1]");
  CHECK(made("argmax", R"("x")", x, R"("axis": 0)") == "i64 [3, 4]");
  const std::string_view i = R"("x": {"shape": [2, 3], "dtype": "i32"})";
  CHECK(made("sum", R"("x")", i, R"("axis": 0)") == "i64 [3]");
  CHECK(made("mean", R"("x")", i, R"("axis": 0)") == "f32 [3]");
  CHECK(made("max", R"("x")", i, R"("axis": 0)") == "i32 [3]");
  CHECK(made("logsumexp", R"("x")", i, R"("axis": 1)") == "f32 [2]");
  CHECK(made("l2_norm", R"("x")", i, R"("axis": 1)") == "f32 [2]");
}

TEST_CASE("normalisations keep the shape") {
  const std::string_view x =
      R"("x": {"shape": [2, 6, 4]}, "d": {"shape": [4]}, "cd": {"shape": [6, 4]}, "c": {"shape": [6]})";
  CHECK(made("softmax", R"("x")", x) == "f32 [2, 6, 4]");
  CHECK(made("log_softmax", R"("x")", x, R"("axis": 1)") == "f32 [2, 6, 4]");
  CHECK(made("layer_norm", R"("x", "d", "d")", x) == "f32 [2, 6, 4]");
  CHECK(made("layer_norm", R"("x", "cd")", x) == "f32 [2, 6, 4]");
  CHECK(made("rms_norm", R"("x")", x, R"("axes": [1, 2])") == "f32 [2, 6, 4]");
  CHECK(made("group_norm", R"("x", "c", "c")", x, R"("groups": 3)") == "f32 [2, 6, 4]");
  CHECK(made("batch_norm", R"("x", "c", "c", "c", "c")", x) == "f32 [2, 6, 4]");
  const OpGraph graph = graph_of(list_of("batch_norm", R"("x", "c", "c")", x,
                                         R"("mode": "training")", R"("outputs": ["y", "m", "v"])"));
  CHECK(type_of(graph, "y") == "f32 [2, 6, 4]");
  CHECK(type_of(graph, "m") == "f32 [6]");
  CHECK(type_of(graph, "v") == "f32 [6]");
}

TEST_CASE("losses end in one value, or one per sample") {
  const std::string_view x =
      R"("x": {"shape": [2, 5, 10], "dtype": "bf16"}, "i": {"shape": [2, 5], "dtype": "i64"})";
  CHECK(made("cross_entropy", R"("x", "i")", x) == "bf16 []");
  CHECK(made("cross_entropy", R"("x", "i")", x, R"("reduction": "sum")") == "bf16 []");
  CHECK(made("nll_loss", R"("x", "i")", x, R"("reduction": "none")") == "bf16 [2, 5]");
  const OpGraph graph =
      graph_of(list_of("cross_entropy", R"("x", "i")", x, "", R"("outputs": ["y", "lse"])"));
  CHECK(type_of(graph, "lse") == "f32 [2, 5]");
}

TEST_CASE("movement") {
  const std::string_view x =
      R"("x": {"shape": [2, 3, 4], "dtype": "i8"}, "z": {"shape": [2, 5, 4], "dtype": "f16"},
         "i": {"shape": [7, 6], "dtype": "i32"}, "r": {"shape": [2, 7, 6, 4], "dtype": "i8"},
         "t": {"shape": [9, 4]})";
  CHECK(made("transpose", R"("x")", x) == "i8 [4, 3, 2]");
  CHECK(made("transpose", R"("x")", x, R"("perm": [0, -1, 1])") == "i8 [2, 4, 3]");
  CHECK(made("permute_view", R"("x")", x, R"("perm": [2, 0, 1])") == "i8 [4, 2, 3]");
  CHECK(made("concat", R"("x", "z", "x")", x, R"("axis": 1)") == "f16 [2, 11, 4]");
  CHECK(made("concat", R"("x", "x")", x) == "i8 [4, 3, 4]");
  CHECK(made("slice", R"("x")", x, R"("axis": -1, "start": 1, "end": -1)") == "i8 [2, 3, 2]");
  CHECK(made("slice", R"("x")", x, R"("starts": [0, 1])") == "i8 [2, 2, 4]");
  CHECK(made("slice", R"("x")", x, R"("axes": [2, 1], "ends": [3, 3], "steps": [2, 2])") ==
        "i8 [2, 2, 2]");
  CHECK(made("slice", R"("x")", x, R"("axis": 0, "start": 2, "end": 2)") == "i8 [0, 3, 4]");
  CHECK(made("gather", R"("x", "i")", x, R"("axis": 1)") == "i8 [2, 7, 6, 4]");
  CHECK(made("embedding", R"("t", "i")", x) == "f32 [7, 6, 4]");
  CHECK(made("embedding", R"("i", "t")", x) == "f32 [7, 6, 4]");
  CHECK(made("scatter_update", R"("x", "i", "r")", x, R"("axis": 1)") == "i8 [2, 3, 4]");
  CHECK(made("broadcast_to", R"("x")", x, R"("shape": [5, 2, 3, 4])") == "i8 [5, 2, 3, 4]");
  CHECK(made("reshape", R"("x")", x, R"("shape": [-1, 6])") == "i8 [4, 6]");
  CHECK(made("view", R"("x")", x, R"("shape": 24)") == "i8 [24]");
  CHECK(made("copy", R"("x")", x) == "i8 [2, 3, 4]");
  CHECK(made("slice_view", R"("x")", x, R"("axis": -1, "start": 1, "step": 2)") == "i8 [2, 3, 2]");
  CHECK(made("expand_view", R"("x")", x, R"("shape": [5, 2, 3, 4])") == "i8 [5, 2, 3, 4]");
}

TEST_CASE("split_view has a result for each part") {
  const std::string_view x = R"("x": {"shape": [2, 6, 4], "dtype": "i8"})";
  const std::string_view outputs = R"("outputs": ["a", "b"])";
  const OpGraph equal = graph_of(list_of("split_view", R"("x")", x, R"("axis": 1)", outputs));
  CHECK(type_of(equal, "a") == "i8 [2, 3, 4]");
  CHECK(type_of(equal, "b") == "i8 [2, 3, 4]");
  const OpGraph sized =
      graph_of(list_of("split_view", R"("x")", x, R"("axis": -1, "sizes": [1, 3])", outputs));
  CHECK(type_of(sized, "a") == "i8 [2, 6, 1]");
  CHECK(type_of(sized, "b") == "i8 [2, 6, 3]");
}

TEST_CASE("a view's map leads to the elements of its value") {
  const OpGraph graph = graph_of(R"({"tensors": {"x": {"shape": [4, 36]}, "w": {"shape": [1, 3]}},
    "ops": [{"op": "slice_view", "inputs": ["x"], "output": "part", "axis": 1, "start": 12, "end": 24},
            {"op": "reshape", "inputs": ["part"], "output": "heads", "shape": [4, 3, 4]},
            {"op": "permute_view", "inputs": ["heads"], "output": "turned", "perm": [1, 0, 2]},
            {"op": "reshape", "inputs": ["turned"], "output": "flat", "shape": [3, 16]},
            {"op": "slice_view", "inputs": ["x"], "output": "same", "axis": 1, "start": 12, "end": 24},
            {"op": "permute_view", "inputs": ["turned"], "output": "back", "perm": [1, 0, 2]},
            {"op": "expand_view", "inputs": ["w"], "output": "rows", "shape": [5, 3]},
            {"op": "neg", "inputs": ["flat"], "output": "y"}]})");
  const auto tensor = [&](std::string_view name) -> const Tensor& {
    return *std::ranges::find(graph.tensors, name, &Tensor::name);
  };
  REQUIRE(tensor("flat").maps.size() == 1);
  // The element [2][1 * 4 + 3]: row 1, column 12 + 2 * 4 + 3.
  CHECK(tensor("flat").maps[0](2 * 16 + 7) == 36 + 23);
  CHECK(tensor("flat").shown == 48);
  CHECK(tensor("rows").shown == 3);
  CHECK(tensor("turned").window == tensor("flat").window);
  CHECK(tensor("part").window == tensor("same").window);
  CHECK(tensor("part").window == tensor("back").window);
  CHECK(tensor("part").window != tensor("turned").window);
  CHECK(tensor("x").window == tensor("x").value);
}

TEST_CASE("matmul broadcasts batches and takes vectors") {
  const std::string_view x =
      R"("a": {"shape": [3, 1, 2, 5]}, "b": {"shape": [4, 5, 7]}, "v": {"shape": [5]},
         "c": {"shape": [7, 5]}, "q": {"shape": [2, 5], "dtype": "i8"}, "p": {"shape": [5, 2], "dtype": "i8"},
         "e": {"shape": [2, 5], "dtype": "fp8_e4m3"}, "f": {"shape": [5, 2], "dtype": "fp8_e4m3"})";
  CHECK(made("matmul", R"("a", "b")", x) == "f32 [3, 4, 2, 7]");
  CHECK(made("matmul", R"("a", "v")", x) == "f32 [3, 1, 2]");
  CHECK(made("matmul", R"("v", "b")", x) == "f32 [4, 7]");
  CHECK(made("matmul", R"("v", "v")", x) == "f32 []");
  CHECK(made("matmul", R"("a", "c")", x, R"("transpose_b": true)") == "f32 [3, 1, 2, 7]");
  CHECK(made("matmul", R"("b", "a")", x, R"("transpose_a": true, "transpose_b": true)") ==
        "f32 [3, 4, 7, 2]");
  CHECK(made("matmul", R"("q", "p")", x) == "i32 [2, 2]");
  CHECK(made("matmul", R"("e", "f")", x) == "bf16 [2, 2]");
}

TEST_CASE("linear, conv2d and attention") {
  CHECK(made("linear", R"("x", "w", "b")",
             R"("x": {"shape": [2, 3, 8]}, "w": {"shape": [16, 8]}, "b": {"shape": [16]})") ==
        "f32 [2, 3, 16]");
  const std::string_view image = R"("x": {"shape": [2, 8, 9, 11]}, "w": {"shape": [6, 4, 3, 3]})";
  CHECK(made("conv2d", R"("x", "w")", image, R"("groups": 2)") == "f32 [2, 6, 7, 9]");
  CHECK(made("conv2d", R"("x", "w")", image, R"("groups": 2, "padding": 1, "stride": 2)") ==
        "f32 [2, 6, 5, 6]");
  CHECK(made("conv2d", R"("x", "w")", image,
             R"("groups": 2, "dilation": [2, 1], "strides": [1, 3], "padding": [2, 0])") ==
        "f32 [2, 6, 9, 3]");
  const std::string_view heads =
      R"("q": {"shape": [2, 8, 5, 16]}, "k": {"shape": [2, 2, 7, 16]}, "v": {"shape": [2, 2, 7, 4]},
         "m": {"shape": [5, 7]})";
  CHECK(made("attention", R"("q", "k", "v")", heads, R"("causal": true)") == "f32 [2, 8, 5, 4]");
  CHECK(made("attention", R"("q", "k", "v", "m")", heads, R"("scale": 0.1)") == "f32 [2, 8, 5, 4]");
  CHECK(made("attention", R"("q", "k", "v")", heads, R"("causal": true, "window": 3)") ==
        "f32 [2, 8, 5, 4]");
}

TEST_CASE("a grouped product multiplies rows by the matrices of their groups") {
  const std::string_view x =
      R"("a": {"shape": [9, 4], "dtype": "bf16"}, "b": {"shape": [5, 4, 6], "dtype": "bf16"},
         "t": {"shape": [5, 6, 4], "dtype": "bf16"}, "o": {"shape": [5], "dtype": "i32"},
         "n": {"shape": [4], "dtype": "i64"}, "f": {"shape": [5]}, "v": {"shape": [4]})";
  const std::string op = "grouped_matmul";
  CHECK(made(op, R"("a", "b", "o")", x) == "bf16 [9, 6]");
  CHECK(made(op, R"("a", "t", "o")", x, R"("transpose_b": true)") == "bf16 [9, 6]");
  CHECK(fault(op, R"("v", "b", "o")", x) ==
        "/ops/0/inputs/0: \"v\" of shape [4] must be a matrix [rows, k]");
  CHECK(fault(op, R"("a", "a", "o")", x) ==
        "/ops/0/inputs/1: \"a\" of shape [9, 4] must be [groups, k, n]");
  CHECK(fault(op, R"("a", "a", "o")", x, R"("transpose_b": true)") ==
        "/ops/0/inputs/1: \"a\" of shape [9, 4] must be [groups, n, k]");
  CHECK(fault(op, R"("a", "t", "o")", x) ==
        "/ops/0/inputs/1: \"t\" of shape [5, 6, 4] does not match \"a\" of shape [9, 4]: the "
        "inner dimensions are 6 and 4");
  CHECK(fault(op, R"("a", "b", "f")", x) ==
        "/ops/0/inputs/2: offsets must be integers, but \"f\" of shape [5] is f32");
  CHECK(fault(op, R"("a", "b", "n")", x) ==
        "/ops/0/inputs/2: \"n\" of shape [4] must have the shape [5] with an offset for each "
        "group");
}

TEST_CASE("a scaled product has scales for all, for rows and columns, or for blocks") {
  const std::string_view x =
      R"("a": {"shape": [6, 256], "dtype": "fp8_e4m3"}, "b": {"shape": [256, 4], "dtype": "fp8_e4m3"},
         "t": {"shape": [4, 256], "dtype": "fp8_e5m2"}, "one": {"shape": []}, "unit": {"shape": [1]},
         "rows": {"shape": [6, 1]}, "columns": {"shape": [1, 4]}, "blocks_a": {"shape": [6, 2]},
         "blocks_b": {"shape": [2, 1]}, "bias": {"shape": [4], "dtype": "bf16"},
         "zero": {"shape": [6, 0]})";
  const std::string op = "scaled_matmul";
  CHECK(made(op, R"("a", "b", "one", "unit")", x) == "bf16 [6, 4]");
  CHECK(made(op, R"("a", "t", "rows", "columns", "bias")", x, R"("transpose_b": true)") ==
        "bf16 [6, 4]");
  CHECK(made(op, R"("a", "b", "blocks_a", "blocks_b")", x) == "bf16 [6, 4]");
  CHECK(
      fault(op, R"("a", "b", "one", "rows")", x) ==
      "/ops/0/inputs/3: \"rows\" of shape [6, 1] must have 1 element, or 2 axes that divide those "
      "of the matrix [256, 4] which it scales");
  CHECK(
      fault(op, R"("a", "b", "zero", "one")", x) ==
      "/ops/0/inputs/2: \"zero\" of shape [6, 0] must have 1 element, or 2 axes that divide those "
      "of the matrix [6, 256] which it scales");
  CHECK(
      fault(op, R"("a", "b", "bias", "one")", x) ==
      "/ops/0/inputs/2: \"bias\" of shape [4] must have 1 element, or 2 axes that divide those of "
      "the matrix [6, 256] which it scales");
  CHECK(
      fault(op, R"("a", "t", "one", "one")", x) ==
      "/ops/0/inputs/1: \"t\" of shape [4, 256] does not match \"a\" of shape [6, 256]: the inner "
      "dimensions are 4 and 256");
  CHECK(fault(op, R"("a", "b", "one", "one", "unit")", x) ==
        "/ops/0/inputs/4: \"unit\" of shape [1] must have the shape [4] with a number for each "
        "column");
  CHECK(fault(op, R"("bias", "b", "one", "one")", x) ==
        "/ops/0/inputs/0: \"bias\" of shape [4] must be a matrix");
}

TEST_CASE("floating-point operations count each product and sum once") {
  const auto flops = [](std::string_view op, std::string_view inputs, std::string_view tensors,
                        std::string_view rest = "") {
    return graph_of(list_of(op, inputs, tensors, rest)).ops[0].flops;
  };
  CHECK(flops("add", R"("x", "x")", R"("x": {"shape": [10, 10]})") == 100);
  CHECK(flops("gt", R"("x", "x")", R"("x": {"shape": [10, 10]})") == 0);
  CHECK(flops("sum", R"("x")", R"("x": {"shape": [10, 10]})", R"("axis": 0)") == 100);
  CHECK(flops("matmul", R"("a", "b")", R"("a": {"shape": [3, 4, 5]}, "b": {"shape": [5, 6]})") ==
        2 * 3 * 4 * 5 * 6);
  CHECK(flops("linear", R"("a", "b")", R"("a": {"shape": [3, 4, 5]}, "b": {"shape": [6, 5]})") ==
        2 * 3 * 4 * 5 * 6);
  // However many groups share the rows.
  CHECK(flops("grouped_matmul", R"("a", "b", "o")",
              R"("a": {"shape": [9, 4]}, "b": {"shape": [5, 4, 6]},
                 "o": {"shape": [5], "dtype": "i32"})") == 2 * 9 * 4 * 6);
  CHECK(flops("conv2d", R"("a", "b")",
              R"("a": {"shape": [1, 4, 6, 6]}, "b": {"shape": [8, 2, 3, 3]})",
              R"("groups": 2)") == 2 * 4 * 4 * 8 * 2 * 9);
  // Both products: 2 * 4 queries * 6 keys * (5 + 5), for 3 heads.
  CHECK(flops("attention", R"("q", "k", "k")",
              R"("q": {"shape": [1, 3, 4, 5]}, "k": {"shape": [1, 3, 6, 5]})") ==
        3 * 2 * 4 * 6 * 10);
}

TEST_CASE("causal attention counts the pairs of a query and a key that it sees") {
  // For both products: 2 * (5 + 5) for each pair.
  const auto pairs = [](int queries, int keys, std::string_view attributes) {
    const std::string tensors = fmt::format(
        R"("q": {{"shape": [1, 3, {}, 5]}}, "k": {{"shape": [1, 3, {}, 5]}})", queries, keys);
    const std::string text = list_of("attention", R"("q", "k", "k")", tensors, attributes);
    return graph_of(text).ops[0].flops / (std::uint64_t{3} * 2 * 10);
  };
  CHECK(pairs(4, 6, R"("causal": true)") == 3 + 4 + 5 + 6);
  CHECK(pairs(4, 4, R"("causal": true)") == 1 + 2 + 3 + 4);
  // The first queries see no key.
  CHECK(pairs(6, 4, R"("causal": true)") == 1 + 2 + 3 + 4);
  CHECK(pairs(6, 1, R"("causal": true)") == 1);
  CHECK(pairs(4, 6, R"("causal": true, "window": 4)") == 3 + 4 + 4 + 4);
  CHECK(pairs(6, 4, R"("causal": true, "window": 2)") == 1 + 2 + 2 + 2);
  CHECK(pairs(6, 4, R"("causal": true, "window": 9)") == 1 + 2 + 3 + 4);
  CHECK(pairs(6, 4, R"("causal": true, "window": 1)") == 4);
  // Beyond what a double holds exactly: 2^27 (2^27 + 1) / 2 pairs of 4 operations.
  const OpGraph large = graph_of(
      list_of("attention", R"("q", "k", "k")",
              R"("q": {"shape": [1, 1, 134217728, 1]}, "k": {"shape": [1, 1, 134217728, 1]})",
              R"("causal": true)"));
  CHECK(large.ops[0].flops == 4 * (std::uint64_t{1} << 26U) * ((std::uint64_t{1} << 27U) + 1));
}

TEST_CASE("shapes that do not fit are refused with the location") {
  CHECK(fault("add", R"("a", "b")", R"("a": {"shape": [2, 3]}, "b": {"shape": [2]})") ==
        "/ops/0/inputs/1: \"b\" of shape [2] does not broadcast with \"a\" of shape [2, 3]");
  CHECK(fault("sum", R"("a")", R"("a": {"shape": [2, 3]})", R"("attrs": {"axis": 2})") ==
        "/ops/0/attrs/axis: axis 2 is out of range for a shape with 2 axes");
  CHECK(fault("linear", R"("a", "b")", R"("a": {"shape": [2, 3]}, "b": {"shape": [3, 4]})") ==
        "/ops/0/inputs/1: \"b\" of shape [3, 4] is [out, in], and in = 4 does not match the last "
        "axis "
        "of \"a\" of shape [2, 3]");
  // No axes are not the default.
  for (const std::string_view slice : {"slice", "slice_view"}) {
    CHECK(fault(slice, R"("a")", R"("a": {"shape": [2, 3]})", R"("axes": [], "starts": [1])") ==
          "/ops/0/axes: has 0 entries, expected 1");
  }
}

TEST_CASE("a declared result is pinned: its type is taken, its shape must agree") {
  const OpGraph graph = graph_of(R"({"tensors": {"x": {"shape": [2], "dtype": "f16"},
      "y": {"shape": [2], "dtype": "f32"}, "z": {"dtype": "bf16"}},
    "ops": [{"op": "relu", "inputs": ["x"], "output": "y"},
            {"op": "exp", "inputs": ["y"], "output": "z"}]})");
  CHECK(type_of(graph, "y") == "f32 [2]");
  CHECK(type_of(graph, "z") == "bf16 [2]");
}
