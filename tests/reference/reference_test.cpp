#include "reference/reference.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>

#include "graph/dropout.hpp"
#include "graph/graph_text.hpp"
#include "measure/inputs.hpp"
#include "reference/element.hpp"
#include "support/results.hpp"

namespace fusecalc {
namespace {

using testing::Given;
using testing::graph_of;

using Values = std::vector<double>;

void check_close(const Values& actual, const Values& expected) {
  REQUIRE(actual.size() == expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    CHECK(actual[i] == doctest::Approx(expected[i]).epsilon(1e-12));
  }
}

TEST_CASE("element by element, with broadcasts, constants and views") {
  const Given given(R"({"format": "fusecalc.ops/1",
    "tensors": {"x": {"shape": [2, 3]}, "b": {"shape": [3]}},
    "ops": [{"op": "add", "inputs": ["x", "b"], "output": "s"},
            {"op": "permute_view", "inputs": ["s"], "output": "t"},
            {"op": "fma", "inputs": ["t", 2, 1], "output": "y"},
            {"op": "relu", "inputs": ["y"], "output": "r"}]})",
                    {{"x", {1, -2, 3, 4, 5, -60}}, {"b", {10, 20, 30}}});
  CHECK(given.values("s") == Values{11, 18, 33, 14, 25, -30});
  CHECK(given.values("y") == Values{23, 29, 37, 51, 67, -59});
  CHECK(given.values("r") == Values{23, 29, 37, 51, 67, 0});
}

TEST_CASE("sums of no elements are 0") {
  const Given given(R"({"format": "fusecalc.ops/1", "tensors": {"x": {"shape": [2, 0, 3]}},
    "ops": [{"op": "sum", "inputs": ["x"], "output": "y", "axes": [1]}]})",
                    {{"x", {}}});
  CHECK(given.values("y") == Values(6, 0));
}

TEST_CASE("rotary embeddings, worked out by hand") {
  const auto turned = [](const std::string& attributes, int angles) {
    const Given given(R"({"format": "fusecalc.ops/1",
      "tensors": {"x": {"shape": [1, 2, 4]}, "cos": {"shape": [2, )" +
                          std::to_string(angles) + R"(]}, "sin": {"shape": [2, )" +
                          std::to_string(angles) + R"(]}},
      "ops": [{"op": "rotary", "inputs": ["x", "cos", "sin"], "output": "y")" +
                          attributes + "}]}",
                      {{"x", {1, 2, 3, 4, 5, 6, 7, 8}},
                       {"cos", {1, 2, 0, 1, 1, 2, 0, 1}},
                       {"sin", {3, 4, 1, 0, 3, 4, 1, 0}}});
    return given.values("y");
  };
  // Pairs are (1, 3), (2, 4), (5, 7) and (6, 8).
  CHECK(turned("", 2) == Values{1 - 9, 4 - 16, 3 + 3, 8 + 8, -7, 6, 5, 8});
  CHECK(turned("", 4) == Values{1 - 9, 4 - 16, 1, 4, 5 - 21, 12 - 32, 5, 8});
  // (1, 2), (3, 4), (5, 6) and (7, 8).
  CHECK(turned(R"(, "interleaved": true)", 2) == Values{1 - 6, 2 + 3, 6 - 16, 8 + 12, -6, 5, 7, 8});
  // (1, 2) and (5, 6) alone.
  CHECK(turned(R"(, "rotated": 2)", 2) == Values{1 - 6, 4 + 4, 3, 4, -6, 6, 7, 8});
}

TEST_CASE("gradients of norms, worked out by hand") {
  // n is (2, 0) and (4, 12), g = dy w is (1, 4) and (3, 8); means of g n: 1 and 54.
  const Given layer(
      R"({"format": "fusecalc.ops/1",
    "tensors": {"dy": {"shape": [2, 2]}, "x": {"shape": [2, 2]}, "m": {"shape": [2, 1]},
                "r": {"shape": [2, 1]}, "w": {"shape": [2]}},
    "ops": [{"op": "layer_norm_backward", "inputs": ["dy", "x", "m", "r", "w"],
             "outputs": ["dx", "dw", "db"]}]})",
      {{"dy", {1, 2, 3, 4}}, {"x", {3, 1, 4, 8}}, {"m", {1, 2}}, {"r", {1, 2}}, {"w", {1, 2}}});
  CHECK(layer.values("dx") == Values{-3.5, 1.5, -437, -1291});
  CHECK(layer.values("dw") == Values{14, 48});
  CHECK(layer.values("db") == Values{4, 6});
  // Without a mean n is (3, 1) and (8, 16); without a weight means of dy n are 2.5 and 44.
  const Given rms(R"({"format": "fusecalc.ops/1",
    "tensors": {"dy": {"shape": [2, 2]}, "x": {"shape": [2, 2]}, "r": {"shape": [2, 1]}},
    "ops": [{"op": "rms_norm_backward", "inputs": ["dy", "x", "r"], "output": "dx"},
            {"op": "rms_norm_backward", "inputs": ["dy", "x", "r"], "output": "dw",
             "gradients": [1]}]})",
                  {{"dy", {1, 2, 3, 4}}, {"x", {3, 1, 4, 8}}, {"r", {1, 2}}});
  CHECK(rms.values("dx") == Values{-6.5, -0.5, -698, -1400});
  CHECK(rms.values("dw") == Values{27, 66});
}

TEST_CASE("gradients of a layer_norm are those of its written-out form") {
  std::map<std::string, std::vector<std::int64_t>> values;
  const auto draw = [&](const std::string& name, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) values[name].push_back(i * i * 7 % 23 - 11);
  };
  for (const char* large : {"dy", "x"}) draw(large, std::int64_t{3} * 4 * 5);
  for (const char* of_rows : {"m", "r"}) draw(of_rows, std::int64_t{3} * 4);
  draw("w", 5);
  const Given given(R"({"format": "fusecalc.ops/1",
    "tensors": {"dy": {"shape": [3, 4, 5]}, "x": {"shape": [3, 4, 5]}, "m": {"shape": [3, 4, 1]},
                "r": {"shape": [3, 4, 1]}, "w": {"shape": [5]}},
    "ops": [{"op": "layer_norm_backward", "inputs": ["dy", "x", "m", "r", "w"],
             "outputs": ["dx", "dw", "db"]},
            {"op": "sub", "inputs": ["x", "m"], "output": "c"},
            {"op": "mul", "inputs": ["c", "r"], "output": "n"},
            {"op": "mul", "inputs": ["dy", "w"], "output": "g"},
            {"op": "mul", "inputs": ["g", "n"], "output": "gn"},
            {"op": "mean", "inputs": ["g"], "output": "s", "axes": [-1], "keepdim": true},
            {"op": "mean", "inputs": ["gn"], "output": "t", "axes": [-1], "keepdim": true},
            {"op": "mul", "inputs": ["n", "t"], "output": "nt"},
            {"op": "sub", "inputs": ["g", "s"], "output": "gs"},
            {"op": "sub", "inputs": ["gs", "nt"], "output": "d"},
            {"op": "mul", "inputs": ["d", "r"], "output": "dx2"},
            {"op": "mul", "inputs": ["dy", "n"], "output": "dyn"},
            {"op": "sum", "inputs": ["dyn"], "output": "dw2", "axes": [0, 1]},
            {"op": "sum", "inputs": ["dy"], "output": "db2", "axes": [0, 1]}]})",
                    values);
  for (const std::string result : {"dx", "dw", "db"}) {
    check_close(given.values(result), given.values(result + "2"));
  }
}

TEST_CASE("rows along any axis") {
  const Given given(R"({"format": "fusecalc.ops/1", "tensors": {"x": {"shape": [2, 4]}},
    "ops": [{"op": "sum", "inputs": ["x"], "axes": [1], "output": "rows"},
            {"op": "mean", "inputs": ["x"], "axes": [0], "output": "columns"},
            {"op": "var", "inputs": ["x"], "axes": [1], "output": "var"},
            {"op": "argmax", "inputs": ["x"], "axes": [1], "output": "where"},
            {"op": "amax_abs", "inputs": ["x"], "output": "largest"}]})",
                    {{"x", {1, 2, 3, 6, -9, 4, 4, 1}}});
  CHECK(given.values("rows") == Values{12, 0});
  CHECK(given.values("columns") == Values{-4, 3, 3.5, 3.5});
  CHECK(given.values("var") == Values{3.5, 28.5});  // (4+1+0+9)/4, (81+16+16+1)/4
  CHECK(given.values("where") == Values{3, 1});     // the first of two equal ones
  CHECK(given.values("largest") == Values{9});
}

TEST_CASE("normalisations and losses") {
  const Given given(R"({"format": "fusecalc.ops/1",
    "tensors": {"x": {"shape": [2, 2]}, "w": {"shape": [2]}, "b": {"shape": [2]},
                "t": {"shape": [2], "dtype": "i64"}},
    "ops": [{"op": "softmax", "inputs": ["x"], "output": "p"},
            {"op": "softmax", "inputs": ["x"], "axes": [0], "output": "pc"},
            {"op": "layer_norm", "inputs": ["x", "w", "b"], "eps": 0, "output": "ln"},
            {"op": "rms_norm", "inputs": ["x", "w"], "eps": 0, "output": "rms"},
            {"op": "batch_norm", "inputs": ["x", "w", "b"], "mode": "training", "eps": 0,
             "outputs": ["bn", "mean", "variance"]},
            {"op": "cross_entropy", "inputs": ["x", "t"], "outputs": ["loss", "lse"]}]})",
                    {{"x", {1, 3, 2, 7}}, {"w", {2, 3}}, {"b", {10, 20}}, {"t", {1, 0}}});
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  check_close(given.values("p"), {sigmoid(-2), sigmoid(2), sigmoid(-5), sigmoid(5)});
  check_close(given.values("pc"), {sigmoid(-1), sigmoid(-4), sigmoid(1), sigmoid(4)});
  check_close(given.values("ln"), {8, 23, 8, 23});  // -1 and 1 before weight and bias
  check_close(given.values("rms"),
              {2 / std::sqrt(5), 9 / std::sqrt(5), 4 / std::sqrt(26.5), 21 / std::sqrt(26.5)});
  check_close(given.values("bn"), {8, 17, 12, 23});
  check_close(given.values("mean"), {1.5, 5});
  check_close(given.values("variance"), {0.25, 4});
  const double first = std::log(std::exp(1) + std::exp(3));
  const double second = std::log(std::exp(2) + std::exp(7));
  check_close(given.values("lse"), {first, second});
  check_close(given.values("loss"), {(first - 3 + second - 2) / 2});
}

TEST_CASE("movement: gathered, scattered, cut and joined") {
  const Given given(R"({"format": "fusecalc.ops/1",
    "tensors": {"x": {"shape": [3, 2]}, "i": {"shape": [2], "dtype": "i64"},
                "r": {"shape": [2, 2]}},
    "ops": [{"op": "gather", "inputs": ["x", "i"], "output": "g"},
            {"op": "slice", "inputs": ["x"], "axes": [0], "starts": [0], "ends": [3],
             "steps": [2], "output": "s"},
            {"op": "concat", "inputs": ["g", "s"], "axes": [1], "output": "c"},
            {"op": "transpose", "inputs": ["c"], "output": "t"},
            {"op": "scatter_update", "inputs": ["x", "i", "r"], "output": "u"}]})",
                    {{"x", {1, 2, 3, 4, 5, 6}}, {"i", {2, 0}}, {"r", {7, 8, 9, 10}}});
  CHECK(given.values("g") == Values{5, 6, 1, 2});
  CHECK(given.values("c") == Values{5, 6, 1, 2, 1, 2, 5, 6});
  CHECK(given.values("t") == Values{5, 1, 6, 2, 1, 5, 2, 6});
  CHECK(given.values("u") == Values{9, 10, 3, 4, 7, 8});
}

TEST_CASE("of several updates of one row the last remains") {
  const Given given(
      R"({"format": "fusecalc.ops/1",
    "tensors": {"x": {"shape": [3, 2]}, "i": {"shape": [4], "dtype": "i64"},
                "r": {"shape": [4, 2]}},
    "ops": [{"op": "scatter_update", "inputs": ["x", "i", "r"], "output": "u"}]})",
      {{"x", {1, 2, 3, 4, 5, 6}}, {"i", {2, 0, 2, 2}}, {"r", {10, 11, 12, 13, 14, 15, 16, 17}}});
  CHECK(given.values("u") == Values{12, 13, 3, 4, 16, 17});
}

TEST_CASE("products, windows and attention") {
  const Given given(R"({"format": "fusecalc.ops/1",
    "tensors": {"a": {"shape": [2, 2]}, "w": {"shape": [1, 2]}, "bias": {"shape": [1]},
                "x": {"shape": [1, 1, 2, 2]}, "k": {"shape": [1, 1, 2, 2]},
                "q": {"shape": [1, 2, 1]}, "kk": {"shape": [1, 2, 1]}, "v": {"shape": [1, 2, 1]}},
    "ops": [{"op": "matmul", "inputs": ["a", "a"], "output": "aa"},
            {"op": "matmul", "inputs": ["a", "a"], "transpose_b": true, "output": "at"},
            {"op": "linear", "inputs": ["a", "w", "bias"], "output": "l"},
            {"op": "conv2d", "inputs": ["x", "k"], "padding": 1, "output": "c"},
            {"op": "attention", "inputs": ["q", "kk", "v"], "causal": true, "scale": 1,
             "output": "o"},
            {"op": "attention", "inputs": ["q", "kk", "v"], "causal": true, "scale": 1,
             "window": 1, "outputs": ["last", "sums"]}]})",
                    {{"a", {1, 2, 3, 4}},
                     {"w", {5, 6}},
                     {"bias", {100}},
                     {"x", {1, 2, 3, 4}},
                     {"k", {1, 10, 100, 1000}},
                     {"q", {1, 2}},
                     {"kk", {0, 3}},
                     {"v", {10, 20}}});
  CHECK(given.values("aa") == Values{7, 10, 15, 22});
  CHECK(given.values("at") == Values{5, 11, 11, 25});
  CHECK(given.values("l") == Values{117, 139});
  CHECK(given.values("c") == Values{1000, 2100, 200, 3010, 4321, 402, 30, 43, 4});
  check_close(given.values("o"), {10, (10 + 20 * std::exp(6)) / (1 + std::exp(6))});
  CHECK(given.values("last") == Values{10, 20});
  CHECK(given.values("sums") == Values{0, 6});
}

TEST_CASE("stored integers and bools take effect") {
  const Given given(R"({"format": "fusecalc.ops/1", "tensors": {"x": {"shape": [3]}},
    "ops": [{"op": "mul", "inputs": ["x", 0.75], "output": "h"},
            {"op": "cast", "inputs": ["h"], "to": "i32", "output": "whole"},
            {"op": "cast", "inputs": ["h"], "to": "bool", "output": "flag"},
            {"op": "mul", "inputs": ["whole", 100], "output": "hundreds"},
            {"op": "cast", "inputs": ["hundreds"], "to": "u8", "output": "byte"}]})",
                    {{"x", {-3, 0, 5}}});
  CHECK(given.values("whole") == Values{-2, 0, 3});  // -2.25 and 3.75, towards zero
  CHECK(given.values("flag") == Values{1, 0, 1});
  CHECK(given.values("byte") == Values{256 - 200, 0, 300 - 256});
}

TEST_CASE("sums and products of integers keep the low bits that their types have") {
  const Given updates(R"({"format": "fusecalc.ops/1", "dtype": "i8",
    "tensors": {"x": {"shape": [3]}, "y": {"shape": [3]}, "z": {"shape": [3]},
                "i": {"shape": [4], "dtype": "i64"}, "u": {"shape": [4]},
                "b": {"shape": [3], "dtype": "u8"}, "c": {"shape": [3], "dtype": "i32"},
                "v": {"shape": [4], "dtype": "i32"}},
    "ops": [{"op": "scatter_update", "inputs": ["x", "i", "u"], "output": "added", "combine": "add"},
            {"op": "scatter_elements", "inputs": ["y", "i", "u"], "output": "scaled",
             "combine": "mul"},
            {"op": "scatter_update", "inputs": ["b", "i", "u"], "output": "of_bytes",
             "combine": "add"},
            {"op": "scatter_update", "inputs": ["c", "i", "v"], "output": "of_words",
             "combine": "mul"},
            {"op": "scatter_update", "inputs": ["z", "i", "u"], "output": "most",
             "combine": "max"}]})",
                      {{"x", {100, -100, 7}},
                       {"y", {100, -100, 7}},
                       {"z", {100, -100, 7}},
                       {"i", {0, 0, 1, 1}},
                       {"u", {20, 30, -20, -30}},
                       {"b", {250, 10, 7}},
                       {"c", {65537, 3, 7}},
                       {"v", {65537, 1, -5, 2}}});
  CHECK(updates.values("added") == Values{150 - 256, -150 + 256, 7});
  // 60,000 is 234 * 256 + 96.
  CHECK(updates.values("scaled") == Values{96, -96, 7});
  CHECK(updates.values("of_bytes") == Values{300 - 256, 10 - 50 + 256, 7});
  // 65,537 squared is 2^32 + 2^17 + 1.
  CHECK(updates.values("of_words") == Values{131073, -30, 7});
  CHECK(updates.values("most") == Values{100, -20, 7});

  const Given others(R"({"format": "fusecalc.ops/1", "dtype": "u8",
    "tensors": {"a": {"shape": [2]}, "b": {"shape": [2]}, "t": {"shape": [41], "dtype": "i64"},
                "f": {"shape": [2, 2], "dtype": "bool"}, "m": {"shape": [1, 2], "dtype": "i32"},
                "n": {"shape": [2, 1], "dtype": "i32"}},
    "ops": [{"op": "sub", "inputs": ["a", "b"], "output": "less"},
            {"op": "mul", "inputs": ["a", "b"], "output": "times"},
            {"op": "add", "inputs": ["f", "f"], "output": "either"},
            {"op": "matmul", "inputs": ["m", "n"], "output": "product"},
            {"op": "prod", "inputs": ["t"], "output": "p"},
            {"op": "cumprod", "inputs": ["t"], "output": "running"}]})",
                     {{"a", {3, 20}},
                      {"b", {5, 30}},
                      {"f", {0, 1, 1, 0}},
                      {"m", {65536, 3}},
                      {"n", {65536, 5}},
                      {"t", std::vector<std::int64_t>(41, 3)}});
  CHECK(others.values("less") == Values{254, 246});
  CHECK(others.values("times") == Values{15, 600 - 2 * 256});
  CHECK(others.values("either") == Values{0, 1, 1, 0});
  CHECK(others.values("product") == Values{15});  // and 2^32
  // 3^40 is 12,157,665,459,056,928,801, and 2^64 is 18,446,744,073,709,551,616; 3^41 is the first
  // times 3.
  CHECK(others.values("running")[39] == -6289078614652622815.0);
  CHECK(others.values("running")[40] == -420491770248316829.0);
  CHECK(others.values("p") == Values{-420491770248316829.0});
}

TEST_CASE("casts of integers keep low bits, those of floats stop at 32 bits first") {
  const Given given(R"({"format": "fusecalc.ops/1",
    "tensors": {"i": {"shape": [4], "dtype": "i64"}, "u": {"shape": [3], "dtype": "u8"},
                "b": {"shape": [2], "dtype": "bool"}, "s": {"shape": [2], "dtype": "i8"},
                "f": {"shape": [4]}},
    "ops": [{"op": "cast", "inputs": ["i"], "to": "u8", "output": "bytes"},
            {"op": "cast", "inputs": ["i"], "to": "i16", "output": "halves"},
            {"op": "cast", "inputs": ["i"], "to": "i32", "output": "words"},
            {"op": "cast", "inputs": ["u"], "to": "i8", "output": "signed"},
            {"op": "cast", "inputs": ["b"], "to": "u8", "output": "flags"},
            {"op": "neg", "inputs": ["s"], "output": "negated"},
            {"op": "abs", "inputs": ["s"], "output": "magnitudes"},
            {"op": "cast", "inputs": ["f"], "to": "u8", "output": "of_floats"},
            {"op": "cast", "inputs": ["f"], "to": "i32", "output": "whole"}]})",
                    {{"i", {300, -1, 32768, 4294967298}},
                     {"u", {127, 128, 255}},
                     {"b", {0, 1}},
                     {"s", {-128, 5}},
                     {"f", {300, -3, 4294967296, -4294967296}}});
  CHECK(given.values("bytes") == Values{44, 255, 0, 2});
  CHECK(given.values("halves") == Values{300, -1, -32768, 2});
  CHECK(given.values("words") == Values{300, -1, 32768, 2});
  CHECK(given.values("signed") == Values{127, -128, -1});
  CHECK(given.values("flags") == Values{0, 1});
  CHECK(given.values("negated") == Values{-128, -5});
  CHECK(given.values("magnitudes") == Values{-128, 5});
  // The ends of an i32 are 2^31 - 1, whose low bits are ones, and -2^31.
  CHECK(given.values("of_floats") == Values{44, 253, 255, 0});
  CHECK(given.values("whole") == Values{300, -3, 2147483647, -2147483648.0});
}

TEST_CASE("dropout keeps what its draw says, scaled") {
  const Given given(R"({"format": "fusecalc.ops/1", "tensors": {"x": {"shape": [2000]}},
    "ops": [{"op": "dropout", "inputs": ["x"], "p": 0.25, "seed": 9, "save_mask": true,
             "outputs": ["y", "m"]},
            {"op": "dropout", "inputs": ["x"], "p": 0.25, "seed": 9, "output": "z"}]})",
                    {{"x", std::vector<std::int64_t>(2000, 3)}});
  const Values mask = given.values("m");
  const Values y = given.values("y");
  for (std::uint64_t i = 0; i < 2000; ++i) {
    const bool kept = dropout_draw(9 + 0xd1342543de82ef95U, i) >= 1U << 22U;
    REQUIRE(mask[i] == (kept ? 1 : 0));
    REQUIRE(y[i] == (kept ? 4 : 0));
  }
  CHECK(std::ranges::count(mask, 0.0) > 400);
  CHECK(std::ranges::count(mask, 0.0) < 600);
  CHECK(y != given.values("z"));  // another op, other elements
}

TEST_CASE("dropout's draws do not change between versions") {
  CHECK(dropout_draw(0, 0) == 0x23417d);
  CHECK(dropout_draw(0, 1) == 0x946d6);
  CHECK(dropout_draw(1, 0) == 0x304e76);
  CHECK(dropout_draw(0, std::uint64_t{1} << 32U) == 0x9c2bd9);
  CHECK(dropout_draw(std::uint64_t{1} << 63U, 5) == 0x668f9a);
}

TEST_CASE("dropout's draws are below p with probability p, independently of adjacent draws") {
  constexpr std::uint64_t kCount = 1U << 18U;
  // Four standard deviations of how many of kCount are found where each is with probability p.
  const auto expected = [](std::uint64_t found, double p) {
    const double mean = kCount * p;
    return std::abs(static_cast<double>(found) - mean) < 4 * std::sqrt(mean * (1 - p));
  };
  constexpr std::uint64_t kHighWord = std::uint64_t{1} << 32U;
  for (const std::uint64_t first : {std::uint64_t{0}, 3 * kHighWord - 1000}) {
    const auto small = [first](std::uint64_t seed, std::uint64_t i) {
      return dropout_draw(seed, first + i) < 0.1 * 0x1p24;
    };
    for (const std::uint64_t seed : {0U, 7U}) {
      std::uint64_t alone = 0;
      for (std::uint64_t i = 0; i < kCount; ++i) alone += small(seed, i) ? 1U : 0U;
      CHECK(expected(alone, 0.1));
      for (const std::uint64_t apart :
           {std::uint64_t{1}, std::uint64_t{2}, std::uint64_t{8}, std::uint64_t{768},
            std::uint64_t{1024}, std::uint64_t{16384}, std::uint64_t{65536}, kHighWord}) {
        CAPTURE(apart);
        std::uint64_t both = 0;
        for (std::uint64_t i = 0; i < kCount; ++i) {
          both += small(seed, i) && small(seed, i + apart) ? 1U : 0U;
        }
        CHECK(expected(both, 0.01));
      }
      for (const std::uint64_t other : {seed + 1, seed + 0xd1342543de82ef95U}) {
        CAPTURE(other);
        std::uint64_t both = 0;
        for (std::uint64_t i = 0; i < kCount; ++i) {
          both += small(seed, i) && small(other, i) ? 1U : 0U;
        }
        CHECK(expected(both, 0.01));
      }
    }
  }
}

TEST_CASE("single elements equal those of a full evaluation") {
  const OpGraph graph = graph_of(R"({"format": "fusecalc.ops/1",
    "tensors": {"x": {"shape": [6, 5, 4]}, "w": {"shape": [4, 4]}},
    "ops": [{"op": "permute_view", "inputs": ["x"], "output": "v", "perm": [1, 2, 0]},
            {"op": "softmax", "inputs": ["v"], "axes": [1], "output": "p"},
            {"op": "permute_view", "inputs": ["p"], "output": "u", "perm": [2, 0, 1]},
            {"op": "matmul", "inputs": ["u", "w"], "output": "y"},
            {"op": "add", "inputs": ["y", "x"], "output": "z"},
            {"op": "layer_norm", "inputs": ["z"], "output": "out"}]})");
  const auto inputs = random_inputs(graph, 1);
  const Reference reference(graph, inputs);
  const TensorId out = static_cast<TensorId>(graph.tensors.size() - 1);
  std::vector<std::uint64_t> all(120);
  for (std::uint64_t i = 0; i < 120; ++i) all[i] = i;
  const Answer together = reference.evaluate(out, all);
  REQUIRE(together.elements.size() == 120);
  for (const std::uint64_t i : all) {
    const Answer alone = reference.evaluate(out, std::array{i});
    CHECK(alone.elements[0].value == doctest::Approx(together.elements[i].value).epsilon(1e-12));
  }
  const std::array<std::uint64_t, 4> some = {7, 7, 3, 119};
  const Answer repeated = reference.evaluate(out, some);
  CHECK(repeated.elements[1].value == repeated.elements[0].value);
  CHECK(repeated.elements[3].value == doctest::Approx(together.elements[119].value).epsilon(1e-12));
}

TEST_CASE("a chain of ten thousand ops is no deeper than a short one") {
  std::string text = R"({"format": "fusecalc.ops/1", "tensors": {"x0": {"shape": [4]}}, "ops": [)";
  for (int i = 0; i < 10'000; ++i) {
    text += std::string(i > 0 ? "," : "") + R"({"op": "sub", "inputs": ["x)" + std::to_string(i) +
            R"(", 1], "output": "x)" + std::to_string(i + 1) + R"("})";
  }
  const Given given(text + "]}", {{"x0", {1, 2, 3, 4}}});
  CHECK(given.values("x10000") == Values{-9999, -9998, -9997, -9996});
}

TEST_CASE("too much work and custom ops are reported, not evaluated") {
  const OpGraph graph = graph_of(R"({"format": "fusecalc.ops/1", "dims": {"N": 65536},
    "tensors": {"x": {"shape": ["N", "N"]}, "w": {"shape": ["N", "N"]}, "c": {"shape": [4]}},
    "ops": [{"op": "linear", "inputs": ["x", "w"], "output": "y"},
            {"op": "linear", "inputs": ["y", "w"], "output": "z"},
            {"name": "mine", "op": "custom", "inputs": ["z"], "output": "c"},
            {"op": "neg", "inputs": ["c"], "output": "d"}]})");
  const auto inputs = random_inputs(graph, 0);
  const Reference reference(graph, inputs);
  const auto answer = [&](std::string_view name) {
    return reference.evaluate(testing::id_of(graph, name), std::array<std::uint64_t, 1>{3});
  };
  CHECK(answer("y").reason == "");
  CHECK(answer("z").reason.starts_with("too much work for the reference"));
  CHECK(answer("d").reason == "\"mine\" is a custom op: its computation is unknown");
}

TEST_CASE("a given tensor is used as it is, regardless of the op that writes it") {
  const Given given(R"({"format": "fusecalc.ops/1", "tensors": {"x": {"shape": [2]},
                "h": {"shape": [2]}},
    "ops": [{"op": "exp", "inputs": ["x"], "output": "h"},
            {"op": "mul", "inputs": ["h", 2], "output": "y"}]})",
                    {{"h", {3, 4}}});
  CHECK(given.values("y") == Values{6, 8});
  CHECK(given.values("h") == Values{3, 4});
}

TEST_CASE("every op that computes has a function") {
  for (const OpRow& row : op_table()) {
    const bool computes = row.op_class == OpClass::kPointwise || row.op_class == OpClass::kReduce;
    if (computes && row.name != "dropout") {
      CAPTURE(row.name);
      const bool known = row.reference != nullptr;
      CHECK(known);
    }
  }
}

}  // namespace
}  // namespace fusecalc
