// What the planners fuse with a contraction.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "graph/graph_text.hpp"
#include "planner/plan_text.hpp"
#include "traffic/graph_bytes.hpp"

using namespace fusecalc;
using namespace fusecalc::testing;

TEST_CASE("a value that feeds a matmul and a pointwise op is written once and read by the matmul") {
  const OpGraph graph =
      graph_of(R"({"tensors": {"x": {"shape": [64, 256]}, "w": {"shape": [256, 256]}},
    "ops": [{"name": "exp", "op": "exp", "inputs": ["x"], "output": "e"},
            {"name": "mm", "op": "matmul", "inputs": ["e", "w"], "output": "p"},
            {"name": "neg", "op": "neg", "inputs": ["e"], "output": "n"}]})");
  CHECK(auto_of(graph) == "[exp neg] [mm]");
  CHECK(compiler_of(graph) == "[exp neg] [mm]");
  CHECK(obstacle(graph, {"exp", "mm"}) ==
        "matmul can compute an operand as it loads it only if both are bf16 or both f16, the first "
        "is not transposed and the result has several columns");
}

TEST_CASE("weights are computed as a product of few rows reads them") {
  const auto graph = [](int rows, const char* more) {
    return graph_of(fmt::format(
        R"({{"dtype": "bf16", "tensors": {{"x": {{"shape": [{}, 256]}},
             "q": {{"shape": [64, 2, 128], "dtype": "u4"}}, "s": {{"shape": [64, 2, 1]}}}},
    "ops": [{{"name": "scale", "op": "mul", "inputs": ["q", "s"], "output": "v"}},
            {{"name": "view", "op": "view", "inputs": ["v"], "output": "w", "shape": [64, 256]}},
            {{"name": "product", "op": "linear", "inputs": ["x", "w"], "output": "h"}},
            {{"name": "silu", "op": "silu", "inputs": ["h"], "output": "y"}}{}]}})",
        rows, more));
  };
  CHECK(auto_of(graph(1, "")) == "[scale product silu]");
  CHECK(auto_of(graph(32, "")) == "[scale product silu]");
  CHECK(compiler_of(graph(1, "")) == "[scale] [product] [silu]");
  // More rows would need each weight several times.
  CHECK(auto_of(graph(33, "")) == "[scale] [product silu]");
  // Weights that memory needs all the same, and such as are no longer in order.
  const char* needed = R"(, {"name": "sum", "op": "sum", "inputs": ["v"], "output": "t"})";
  CHECK(auto_of(graph(1, needed)) == "[scale sum] [product silu]");
  const OpGraph turned = graph_of(
      R"({"dtype": "bf16", "tensors": {"x": {"shape": [4, 256]}, "q": {"shape": [256, 64]}},
    "ops": [{"name": "twice", "op": "add", "inputs": ["q", "q"], "output": "v"},
            {"name": "turn", "op": "permute_view", "inputs": ["v"], "output": "w", "perm": [1, 0]},
            {"name": "product", "op": "linear", "inputs": ["x", "w"], "output": "h"}]})");
  CHECK(auto_of(turned) == "[twice] [product]");
  // The rows themselves come from memory.
  const OpGraph rows = graph_of(
      R"({"dtype": "bf16", "tensors": {"x": {"shape": [4, 256]}, "w": {"shape": [64, 256]}},
    "ops": [{"name": "relu", "op": "relu", "inputs": ["x"], "output": "r"},
            {"name": "product", "op": "linear", "inputs": ["r", "w"], "output": "h"}]})");
  CHECK(auto_of(rows) == "[relu] [product]");
}

TEST_CASE("many rows of a product's first operand are computed as it reads them") {
  const auto graph = [](const std::string& ops, int rows = 65, const char* more = "",
                        const char* dtype = "bf16") {
    return graph_of(fmt::format(
        R"({{"dtype": "{0}", "tensors": {{"x": {{"shape": [{1}, 256], "dtype": "f32"}},
             "scale": {{"shape": [{1}, 1], "dtype": "f32"}}, "gain": {{"shape": [256]}},
             "r": {{"shape": [{1}, 64]}}, "w": {{"shape": [64, 256]}},
             "t": {{"shape": [99, 256]}}, "ids": {{"shape": [{1}], "dtype": "i64"}},
             "z": {{"shape": [256, {1}]}}}},
    "ops": [{2}]{3}}})",
        dtype, rows, ops, more));
  };
  const std::string cast =
      R"({"name": "cast", "op": "cast", "inputs": ["x"], "output": "c", "dtype": "bf16"},)";
  const std::string product =
      R"({"name": "mm", "op": "linear", "inputs": ["c", "w"], "output": "h"})";
  CHECK(auto_of(graph(cast + product)) == "[cast mm]");
  CHECK(compiler_of(graph(cast + product)) == "[cast] [mm]");
  // The rows of f32 and the weights once, and the result.
  CHECK(kernel_bytes(graph(cast + product)) == Bytes{65 * 256 * 4 + 64 * 256 * 2, 65 * 64 * 2});
  // An epilogue goes with it.
  CHECK(auto_of(graph(cast + product +
                      R"(,{"name": "res", "op": "add", "inputs": ["h", "r"], "output": "y"})")) ==
        "[cast mm res]");
  // A normalisation's scaling, by row and by column.
  CHECK(auto_of(graph(
            R"({"name": "row", "op": "mul", "inputs": ["x", "scale"], "output": "s"},
               {"name": "col", "op": "mul", "inputs": ["s", "gain"], "output": "g"},
               {"name": "cast", "op": "cast", "inputs": ["g"], "output": "c", "dtype": "bf16"},)" +
            product)) == "[row col cast mm]");
  // Rows of a table: as many as are named, and their numbers.
  const OpGraph gathers = graph(
      R"({"name": "look", "op": "embedding", "inputs": ["t", "ids"], "output": "c"},)" + product);
  CHECK(auto_of(gathers) == "[look mm]");
  CHECK(kernel_bytes(gathers) == Bytes{65 * 256 * 2 + 65 * 8 + 64 * 256 * 2, 65 * 64 * 2});
  // Few rows have kernels that load them as they are.
  CHECK(auto_of(graph(cast + product, 64)) == "[cast] [mm]");
  CHECK(obstacle(graph(cast + product, 64), {"cast", "mm"}) ==
        "with more than 64 rows linear can compute its first operand as it loads it, with at most "
        "32 its weights; it has 64 rows, and cast makes its first operand");
  // Rows that memory needs all the same, that are in another order, or of another type.
  CHECK(auto_of(graph(cast + product, 65, R"(, "outputs": ["c", "h"])")) == "[cast] [mm]");
  const std::string turned =
      R"({"name": "relu", "op": "relu", "inputs": ["z"], "output": "p"},
         {"op": "permute_view", "inputs": ["p"], "output": "c", "perm": [1, 0]},)";
  CHECK(auto_of(graph(turned + product)) == "[relu] [mm]");
  const std::string f32 = R"({"name": "relu", "op": "relu", "inputs": ["x"], "output": "c"},)";
  CHECK(auto_of(graph(f32 + product, 65, "", "f32")) == "[relu] [mm]");
  // Nor those that are reduced on the way.
  CHECK(auto_of(graph(R"({"name": "norm", "op": "softmax", "inputs": ["x"], "output": "s"},
                         {"name": "cast", "op": "cast", "inputs": ["s"], "output": "c",
                          "dtype": "bf16"},)" +
                      product)) == "[norm cast] [mm]");
}

TEST_CASE("what an epilogue can compute at the same bytes is no prologue") {
  const OpGraph graph = graph_of(
      R"({"dtype": "bf16", "tensors": {"x": {"shape": [256, 256]}, "w": {"shape": [512, 256]},
          "b": {"shape": [512]}, "v": {"shape": [256, 512]}},
    "ops": [{"name": "up", "op": "linear", "inputs": ["x", "w"], "output": "h"},
            {"name": "bias", "op": "add", "inputs": ["h", "b"], "output": "a"},
            {"name": "gelu", "op": "gelu", "inputs": ["a"], "output": "g"},
            {"name": "down", "op": "linear", "inputs": ["g", "v"], "output": "y"}]})");
  CHECK(auto_of(graph) == "[up bias gelu] [down]");
}

TEST_CASE("what a product's rows are computed from is not overwritten by its kernel") {
  const OpGraph graph = graph_of(
      R"({"dtype": "bf16", "tensors": {"x": {"shape": [256, 256]}, "w": {"shape": [256, 256]}},
    "ops": [{"name": "relu", "op": "relu", "inputs": ["x"], "output": "r"},
            {"name": "mm", "op": "linear", "inputs": ["r", "w"], "output": "h"},
            {"name": "add", "op": "add", "inputs": ["x", "h"], "output": "y",
             "inplace": {"y": "x"}}]})");
  CHECK(obstacle(graph, {"relu", "mm", "add"}).find("overwrites memory in place") !=
        std::string::npos);
}

TEST_CASE("an op that reads the result and the input of a matmul joins the matmul's kernel") {
  const OpGraph graph =
      graph_of(R"({"tensors": {"x": {"shape": [64, 256]}, "w": {"shape": [256, 256]}},
    "ops": [{"name": "exp", "op": "exp", "inputs": ["x"], "output": "e"},
            {"name": "mm", "op": "matmul", "inputs": ["e", "w"], "output": "p"},
            {"name": "res", "op": "add", "inputs": ["p", "e"], "output": "y"}]})");
  CHECK(auto_of(graph) == "[exp] [mm res]");
  CHECK(compiler_of(graph) == "[exp] [mm] [res]");
}

TEST_CASE("two linear layers of one input share a kernel") {
  const auto graph = [](const std::string& ops, const char* more = "", int rows = 65,
                        const char* dtype = "bf16") {
    return graph_of(fmt::format(
        R"({{"dtype": "{}", "tensors": {{"x": {{"shape": [{}, 256]}}, "z": {{"shape": [{}, 256]}},
         "g": {{"shape": [512, 256]}}, "u": {{"shape": [512, 256]}}, "n": {{"shape": [1, 256]}}}},
    "ops": [{}]{}}})",
        dtype, rows, rows, ops, more));
  };
  const std::string gate = R"({"name": "gate", "op": "linear", "inputs": ["x", "g"], "output": "a"},
      {"name": "silu", "op": "silu", "inputs": ["a"], "output": "s"},)";
  const std::string up = R"({"name": "up", "op": "linear", "inputs": ["x", "u"], "output": "b"},)";
  const std::string mul = R"({"name": "mul", "op": "mul", "inputs": ["s", "b"], "output": "y"})";
  CHECK(auto_of(graph(gate + up + mul)) == "[gate silu up mul]");
  CHECK(auto_of(graph(up + gate + mul)) == "[up gate silu mul]");
  CHECK(compiler_of(graph(gate + up + mul)) == "[gate] [up] [silu mul]");
  CHECK(auto_of(graph(gate + up + mul, "", 65, "f32")) == "[gate silu up mul]");
  // Few rows have kernels of their own, f64 has no tiles. Which one takes the product's other ops
  // is a matter of time.
  const auto are_apart = [](const std::string& plan) {
    return plan == "[gate silu] [up mul]" || plan == "[up] [gate silu mul]" ||
           plan == "[gate] [silu up mul]";
  };
  CHECK(are_apart(auto_of(graph(gate + up + mul, "", 64))));
  CHECK(are_apart(auto_of(graph(gate + up + mul, "", 65, "f64"))));
  // A result that somebody else needs is written, and nothing has to be made of both.
  CHECK(auto_of(graph(gate + up + mul, R"(, "outputs": ["b", "y"])")) == "[gate silu up mul]");
  const std::string apart = R"({"name": "relu", "op": "relu", "inputs": ["b"], "output": "y"})";
  CHECK(auto_of(graph(gate + up + apart)) == "[gate silu up relu]");
  // x is read once: 65 rows of it, and 1024 columns of weights.
  const OpGraph both =
      graph(gate + R"({"name": "up", "op": "linear", "inputs": ["x", "u"], "output": "b"})");
  CHECK(kernel_bytes(both) == Bytes{2 * 256 * (65 + 1024), 2 * 2 * 65 * 512});
  const std::string third =
      R"({"name": "more", "op": "linear", "inputs": ["x", "g"], "output": "c"})";
  CHECK(auto_of(graph(gate + up + third)) == "[gate silu up more]");
  // An op that takes two results needs both in a tile, which then has no place for a third.
  const std::string narrow =
      R"(, {"name": "more", "op": "linear", "inputs": ["x", "z"], "output": "c"})";
  CHECK(auto_of(graph(gate + up + mul + narrow)) == "[gate silu up mul] [more]");
  // Another input, or one that the kernel would have to make.
  const std::string other =
      R"({"name": "up", "op": "linear", "inputs": ["z", "u"], "output": "b"},)";
  CHECK(are_apart(auto_of(graph(gate + other + mul))));
  // Rows of the results are reduced by a kernel that reads what this one writes.
  const std::string sum =
      R"(, {"name": "sum", "op": "sum", "inputs": ["y"], "output": "t", "axis": 1})";
  CHECK(auto_of(graph(gate + up + mul + sum)) == "[gate silu up mul] [sum]");
}

TEST_CASE("up to four linear layers of one input share a kernel, of any numbers of columns") {
  const auto graph = [](const std::string& ops, int rows = 65) {
    return graph_of(fmt::format(
        R"({{"dtype": "bf16", "tensors": {{"x": {{"shape": [{}, 256]}}, "wq": {{"shape": [512, 256]}},
         "wk": {{"shape": [72, 256]}}, "wv": {{"shape": [9, 256]}}, "b": {{"shape": [72]}},
         "e": {{"shape": [{}, 9]}}}},
    "ops": [{}]}})",
        rows, rows, ops));
  };
  const std::string q = R"({"name": "q", "op": "linear", "inputs": ["x", "wq"], "output": "q"})";
  const std::string k =
      R"(, {"name": "k", "op": "linear", "inputs": ["x", "wk", "b"], "output": "k"})";
  const std::string v = R"(, {"name": "v", "op": "linear", "inputs": ["x", "wv"], "output": "v"})";
  CHECK(auto_of(graph(q + k + v)) == "[q k v]");
  CHECK(auto_of(graph(q + v)) == "[q v]");
  CHECK(auto_of(graph(q + k + v, 64)) == "[q] [k] [v]");
  CHECK(compiler_of(graph(q + k + v)) == "[q] [k] [v]");
  // x once, all weights and the bias; three results.
  CHECK(kernel_bytes(graph(q + k + v)) ==
        Bytes{2 * (65 * 256 + (512 + 72 + 9) * 256 + 72), 2 * 65 * (512 + 72 + 9)});
  // Each has an epilogue of its own.
  const std::string own = R"(, {"name": "silu", "op": "silu", "inputs": ["k"], "output": "s"},
      {"name": "add", "op": "add", "inputs": ["v", "e"], "output": "t"})";
  CHECK(auto_of(graph(q + k + v + own)) == "[q k v silu add]");
  // The same rows, shown by views in the same order; in another order they are other rows.
  const auto viewed = [&](const char* view) {
    return graph(std::string(view) + R"(, {"name": "q", "op": "linear", "inputs": ["x", "wq"],
        "output": "q"}, {"name": "k", "op": "linear", "inputs": ["y", "wk"], "output": "k"})",
                 130);
  };
  CHECK(
      auto_of(viewed(R"({"op": "view", "inputs": ["x"], "output": "y", "shape": [2, 65, 256]})")) ==
      "[q k]");
  CHECK(auto_of(viewed(R"({"op": "view", "inputs": ["x"], "output": "z", "shape": [2, 65, 256]},
      {"op": "permute_view", "inputs": ["z"], "output": "y", "perm": [1, 0, 2]})")) == "[q] [k]");
  // Rows of one that are reduced lie in several tiles, and other parts have other rows.
  const std::string sum =
      R"(, {"name": "sum", "op": "sum", "inputs": ["q"], "output": "t", "axis": 1})";
  CHECK(obstacle(graph(q + k + sum), {"q", "k", "sum"}) ==
        "a kernel of several products cannot reduce their results, as sum does");
  // A gate and its factor out of one of them.
  const std::string gated = R"(, {"op": "slice_view", "inputs": ["q"], "output": "q1", "axes": [1],
      "starts": [0], "ends": [256]}, {"op": "slice_view", "inputs": ["q"], "output": "q2",
      "axes": [1], "starts": [256], "ends": [512]}, {"name": "silu", "op": "silu", "inputs": ["q1"],
      "output": "s"}, {"name": "mul", "op": "mul", "inputs": ["s", "q2"], "output": "g"})";
  CHECK(auto_of(graph(q + k + gated)) == "[q silu mul] [k]");
  CHECK(obstacle(graph(q + k + gated), {"q", "k", "silu", "mul"}) ==
        "mul takes an element of each half of the columns of linear, for which a kernel has tiles "
        "of both halves, and none of linear beside them");
  // Of five, four.
  const std::string more = R"(, {"name": "r", "op": "linear", "inputs": ["x", "wq"], "output": "r"},
      {"name": "s", "op": "linear", "inputs": ["x", "wk"], "output": "s"})";
  const OpGraph five = graph(q + k + v + more);
  CHECK(obstacle(five, {"q", "k", "v", "r", "s"}) ==
        "two contractions side by side, and a kernel runs one main loop, except for up to four "
        "products of one input (more than 64 rows, weights of 2 axes in one layout); one "
        "contraction with their weights concatenated would read their common input once");
  const std::string turned = R"({"op": "slice_view", "inputs": ["wq"], "output": "hq", "axes": [0],
      "starts": [0], "ends": [256]}, {"op": "permute_view", "inputs": ["hq"], "output": "tq",
      "perm": [1, 0]}, {"name": "a", "op": "linear", "inputs": ["x", "tq"], "output": "a"})";
  CHECK(obstacle(graph(turned + k), {"a", "k"}).find("weights of 2 axes in one layout") !=
        std::string::npos);
  CHECK(obstacle(five, {"q", "k", "v", "r"}).empty());
  // What works on none of them has no tile.
  const std::string side = R"(, {"name": "relu", "op": "relu", "inputs": ["x"], "output": "u"})";
  CHECK(obstacle(graph(q + k + side), {"q", "k", "relu"})
            .starts_with("relu does not use the result of linear"));
}

TEST_CASE("an epilogue takes two halves of a linear layer's columns, a gate and its factor") {
  const auto graph = [](const char* ops, const char* more = "", int columns = 512,
                        const char* dtype = "bf16") {
    return graph_of(fmt::format(
        R"({{"dtype": "{}", "tensors": {{"x": {{"shape": [64, 256]}}, "w": {{"shape": [{}, 256]}}}},
    "ops": [{{"name": "product", "op": "linear", "inputs": ["x", "w"], "output": "h"}},
            {}]{}}})",
        dtype, columns, ops, more));
  };
  const char* const gated =
      R"({"op": "split_view", "inputs": ["h"], "outputs": ["a", "b"], "axis": 1},
         {"name": "silu", "op": "silu", "inputs": ["a"], "output": "s"},
         {"name": "mul", "op": "mul", "inputs": ["s", "b"], "output": "y"})";
  CHECK(auto_of(graph(gated)) == "[product silu mul]");
  CHECK(compiler_of(graph(gated)) == "[product] [silu mul]");
  const char* const turned =
      R"({"op": "split_view", "inputs": ["h"], "outputs": ["a", "b"], "axis": 1},
         {"name": "gelu", "op": "gelu", "inputs": ["b"], "output": "s"},
         {"name": "mul", "op": "mul", "inputs": ["a", "s"], "output": "y"})";
  CHECK(auto_of(graph(turned)) == "[product gelu mul]");
  const auto refuses = [](const OpGraph& list, const char* last) {
    return obstacle(list, {"product", "silu", last})
        .starts_with("an epilogue computes each element from one element of the result of linear");
  };
  // The whole result is needed in memory, too.
  CHECK(refuses(graph(gated, R"(, "outputs": ["h", "y"])"), "mul"));
  const char* const reduced =
      R"({"op": "split_view", "inputs": ["h"], "outputs": ["a", "b"], "axis": 1},
         {"name": "silu", "op": "silu", "inputs": ["a"], "output": "s"},
         {"name": "mul", "op": "mul", "inputs": ["s", "b"], "output": "y"},
         {"name": "sum", "op": "sum", "inputs": ["y"], "output": "t", "axis": 1})";
  CHECK(auto_of(graph(reduced, R"(, "outputs": ["y", "t"])")) == "[product silu mul] [sum]");
  const char* const thirds =
      R"({"op": "slice_view", "inputs": ["h"], "output": "a", "axis": 1, "start": 0,
          "end": 128},
         {"op": "slice_view", "inputs": ["h"], "output": "b", "axis": 1, "start": 256,
          "end": 384},
         {"name": "silu", "op": "silu", "inputs": ["a"], "output": "s"},
         {"name": "mul", "op": "mul", "inputs": ["s", "b"], "output": "y"})";
  CHECK(refuses(graph(thirds, "", 384), "mul"));
  // Ops that change both halves run behind each, unless their result is needed, too.
  const char* const biased =
      R"({"name": "bias", "op": "add", "inputs": ["h", "c"], "output": "hc"},
         {"name": "tanh", "op": "tanh", "inputs": ["hc"], "output": "ht"},
         {"op": "split_view", "inputs": ["ht"], "outputs": ["a", "b"], "axis": 1},
         {"name": "silu", "op": "silu", "inputs": ["a"], "output": "s"},
         {"name": "mul", "op": "mul", "inputs": ["s", "b"], "output": "y"})";
  const auto with_bias = [&](const char* rest) {
    return graph_of(fmt::format(R"({{"dtype": "bf16", "tensors": {{"x": {{"shape": [64, 256]}},
        "w": {{"shape": [512, 256]}}, "c": {{"shape": [512]}}}},
    "ops": [{{"name": "product", "op": "linear", "inputs": ["x", "w"], "output": "h"}}, {}{})",
                                biased, rest));
  };
  CHECK(auto_of(with_bias("]}")) == "[product bias tanh silu mul]");
  // x, the weights and the bias once; half of the columns.
  CHECK(kernel_bytes(with_bias("]}")) == Bytes{2 * (64 * 256 + 512 * 256 + 512), 2 * 64 * 256});
  CHECK(auto_of(with_bias(R"(], "outputs": ["ht", "y"]})")) == "[product bias tanh] [silu mul]");
  CHECK(auto_of(with_bias(R"(, {"name": "more", "op": "neg", "inputs": ["hc"], "output": "z"}]})"))
            .find("[product bias tanh silu mul") == std::string::npos);
  // Rows of f32, but not of f64.
  CHECK(auto_of(graph(gated, "", 512, "f32")) == "[product silu mul]");
  CHECK(auto_of(graph(gated, "", 512, "f64")) == "[product] [silu mul]");
}

TEST_CASE("matmuls of rows and matrices of two axes share a kernel as linear layers do") {
  const auto graph = [](const std::string& weights, const std::string& ops) {
    return graph_of(R"({"dtype": "bf16", "tensors": {"x": {"shape": [4, 20, 64]}, )" + weights +
                    R"(}, "ops": [)" + ops + "]}");
  };
  const std::string across = R"("w": {"shape": [64, 256]}, "u": {"shape": [64, 72]})";
  const std::string along = R"("w": {"shape": [256, 64]}, "u": {"shape": [72, 64]})";
  const auto both = [](const char* more) {
    return fmt::format(R"({{"name": "a", "op": "matmul", "inputs": ["x", "w"], "output": "p"{0}}},
        {{"name": "b", "op": "matmul", "inputs": ["x", "u"], "output": "q"{0}}})",
                       more);
  };
  const char* const turned = R"(, "transpose_b": true)";
  CHECK(auto_of(graph(across, both(""))) == "[a b]");
  CHECK(auto_of(graph(along, both(turned))) == "[a b]");
  // x and the weights once: no batch has weights of its own.
  CHECK(kernel_bytes(graph(across, both(""))) ==
        Bytes{2 * (80 * 64 + 64 * (256 + 72)), 2 * 80 * (256 + 72)});
  // A linear layer with weights that lie alike, in memory or by a view.
  CHECK(auto_of(graph(along, R"({"name": "a", "op": "linear", "inputs": ["x", "w"], "output": "p"},
      {"name": "b", "op": "matmul", "inputs": ["x", "u"], "output": "q", "transpose_b": true})")) ==
        "[a b]");
  CHECK(auto_of(graph(across, R"({"op": "permute_view", "inputs": ["w"], "output": "t",
      "perm": [1, 0]}, {"name": "a", "op": "linear", "inputs": ["x", "t"], "output": "p"},
      {"name": "b", "op": "matmul", "inputs": ["x", "u"], "output": "q"})")) == "[a b]");
  // Each half of the columns, of one product or of two.
  const std::string gated =
      R"({"op": "split_view", "inputs": ["h"], "outputs": ["a", "b"], "axis": 2},
      {"name": "silu", "op": "silu", "inputs": ["a"], "output": "s"},
      {"name": "mul", "op": "mul", "inputs": ["s", "b"], "output": "y"})";
  const std::string product =
      R"({"name": "product", "op": "matmul", "inputs": ["x", "w"], "output": "h"}, )";
  CHECK(auto_of(graph(across, product + gated)) == "[product silu mul]");
  const std::string gate = R"({"name": "a", "op": "matmul", "inputs": ["x", "w"], "output": "p"},
      {"name": "b", "op": "matmul", "inputs": ["x", "v"], "output": "q"},
      {"name": "silu", "op": "silu", "inputs": ["p"], "output": "s"},
      {"name": "mul", "op": "mul", "inputs": ["s", "q"], "output": "y"})";
  CHECK(auto_of(graph(R"("w": {"shape": [64, 40]}, "v": {"shape": [64, 40]})", gate)) ==
        "[a b silu mul]");
  // Not where lines of columns begin at no multiples of 16 bytes, nor where a half's do.
  CHECK(auto_of(graph(R"("w": {"shape": [64, 250]}, "u": {"shape": [64, 72]})", both(""))) ==
        "[a] [b]");
  CHECK(auto_of(graph(R"("w": {"shape": [64, 248]})", product + gated)) == "[product] [silu mul]");
  // Each batch has a matrix of its own.
  CHECK(auto_of(graph(R"("w": {"shape": [4, 64, 256]}, "u": {"shape": [4, 64, 72]})", both(""))) ==
        "[a] [b]");
}

TEST_CASE("a second linear needs whole rows of the first") {
  const OpGraph graph =
      graph_of(R"({"tensors": {"x": {"shape": [64, 128]}, "w": {"shape": [256, 128]},
      "u": {"shape": [64, 256]}},
    "ops": [{"name": "up", "op": "linear", "inputs": ["x", "w"], "output": "h"},
            {"name": "down", "op": "linear", "inputs": ["h", "u"], "output": "y"}]})");
  CHECK(auto_of(graph) == "[up] [down]");
  CHECK(obstacle(graph, {"up", "down"})
            .starts_with("the second contraction needs whole rows of the first, "));
}

TEST_CASE("weights are said to be concatenable where one contraction could compute both results") {
  const auto reason = [](const std::string& tensors, const std::string& one,
                         const std::string& other) {
    const OpGraph graph =
        graph_of(R"({"tensors": {"x": {"shape": [2, 8, 16, 16]}, "m": {"shape": [64, 32]}, )" +
                 tensors + R"(}, "ops": [{"name": "a", "output": "p", )" + one +
                 R"(}, {"name": "b", "output": "q", )" + other + "}]}");
    return obstacle(graph, {"a", "b"});
  };
  const std::string bare =
      "two contractions side by side, and a kernel runs one main loop, except for up to four "
      "products of one input (more than 64 rows, weights of 2 axes in one layout)";
  const std::string advice =
      bare + "; one contraction with their weights concatenated would read their common input once";
  const std::string weights = R"("u": {"shape": [128, 32]}, "v": {"shape": [96, 32]})";
  const std::string linear_u = R"("op": "linear", "inputs": ["m", "u"])";
  CHECK(reason(weights, linear_u, R"("op": "linear", "inputs": ["m", "v"])") == advice);
  CHECK(reason(weights, linear_u, R"("op": "matmul", "inputs": ["m", "v"], "transpose_b": true)") ==
        bare);
  const OpGraph stored = graph_of(R"({
    "tensors": {"m": {"shape": [128, 32]}, "u": {"shape": [96, 32]}, "s": {"shape": [32, 96]}},
    "ops": [{"op": "permute_view", "inputs": ["s"], "output": "v", "perm": [1, 0]},
            {"name": "a", "op": "linear", "inputs": ["m", "u"], "output": "p"},
            {"name": "b", "op": "linear", "inputs": ["m", "v"], "output": "q"}]})");
  CHECK(obstacle(stored, {"a", "b"}) ==
        bare + "; here one's weights are stored as [in, out], the other's as [out, in]");
  // They share their weights only.
  CHECK(reason(weights + R"(, "n": {"shape": [64, 32]})", linear_u,
               R"("op": "linear", "inputs": ["n", "u"])") == bare);
  const std::string filters =
      R"("u": {"shape": [16, 8, 1, 1]}, "v": {"shape": [24, 8, 1, 1]}, "w": {"shape": [24, 8, 3, 3]})";
  const std::string conv_u = R"("op": "conv2d", "inputs": ["x", "u"])";
  CHECK(reason(filters, conv_u, R"("op": "conv2d", "inputs": ["x", "v"])") == advice);
  CHECK(reason(filters, conv_u, R"("op": "conv2d", "inputs": ["x", "v"], "stride": 2)") == bare);
  CHECK(reason(filters, conv_u, R"("op": "conv2d", "inputs": ["x", "w"], "padding": 1)") == bare);
}

TEST_CASE("the SPLADE head is one kernel for our runner") {
  const OpGraph graph =
      graph_of(R"({"dtype": "f16", "dims": {"B": 8, "T": 128, "H": 256, "V": 30522},
    "tensors": {"hidden": {"shape": ["B", "T", "H"]}, "embedding": {"shape": ["V", "H"]},
      "bias": {"shape": ["V"]}, "mask": {"shape": ["B", "T", 1]}},
    "ops": [{"name": "logits", "op": "linear", "inputs": ["hidden", "embedding", "bias"], "output": "l"},
            {"name": "relu", "op": "relu", "inputs": ["l"], "output": "r"},
            {"name": "log", "op": "log1p", "inputs": ["r"], "output": "g"},
            {"name": "mask", "op": "mul", "inputs": ["g", "mask"], "output": "m"},
            {"name": "max", "op": "max", "inputs": ["m"], "output": "y", "axis": 1}]})");
  CHECK(auto_of(graph) == "[logits relu log mask max]");
  CHECK(compiler_of(graph) == "[logits] [relu log mask max]");
}

TEST_CASE("layer_norm, linear, gelu: the norm stays before the linear, the gelu ends it") {
  const OpGraph graph = graph_of(R"({"tensors": {"x": {"shape": [64, 128]}, "g": {"shape": [128]},
      "b": {"shape": [128]}, "w": {"shape": [256, 128]}, "c": {"shape": [256]}},
    "ops": [{"name": "layer_norm", "op": "layer_norm", "inputs": ["x", "g", "b"], "output": "h"},
            {"name": "linear", "op": "linear", "inputs": ["h", "w", "c"], "output": "l"},
            {"name": "gelu", "op": "gelu", "inputs": ["l"], "output": "y"}]})");
  CHECK(auto_of(graph) == "[layer_norm] [linear gelu]");
  CHECK(compiler_of(graph) == "[layer_norm] [linear] [gelu]");
}

TEST_CASE("an epilogue reduces rows only if one tile holds them") {
  const auto graph = [](std::uint64_t columns) {
    return graph_of(R"({"dims": {"D": 1}, "dtype": "f16",
      "tensors": {"x": {"shape": [512, 64]}, "w": {"shape": ["D", 64]}},
      "ops": [{"name": "linear", "op": "linear", "inputs": ["x", "w"], "output": "l"},
              {"name": "softmax", "op": "softmax", "inputs": ["l"], "output": "y"}]})",
                    {{"D", columns}});
  };
  // A tile of 64 rows of f32 sums: 227 KiB hold 908 columns.
  CHECK(auto_of(graph(908)) == "[linear softmax]");
  CHECK(auto_of(graph(909)) == "[linear] [softmax]");
  CHECK(obstacle(graph(909), {"linear", "softmax"}) ==
        "softmax needs whole rows of the result of linear, of which a tile holds a part");
}

TEST_CASE("an epilogue performs reductions that can be combined across tiles") {
  const auto graph = [](const std::string& reduction) {
    return graph_of(R"({"dtype": "f16", "tensors": {"x": {"shape": [512, 64]},
        "w": {"shape": [5000, 64]}},
      "ops": [{"name": "linear", "op": "linear", "inputs": ["x", "w"], "output": "l"},
              {"name": "reduce", "op": ")" +
                    reduction + R"(", "inputs": ["l"], "output": "y", "axis": -1}]})");
  };
  for (const std::string folds : {"sum", "mean", "max", "logsumexp"}) {
    CAPTURE(folds);
    CHECK(auto_of(graph(folds)) == "[linear reduce]");
  }
  for (const std::string whole : {"min", "amax_abs", "var", "argmax"}) {
    CAPTURE(whole);
    CHECK(auto_of(graph(whole)) == "[linear] [reduce]");
  }
  CHECK(obstacle(graph("argmax"), {"linear", "reduce"}) ==
        "argmax cannot be combined across the tiles of linear; sum, mean, max and logsumexp can");
}

TEST_CASE("an epilogue performs one reduction, in 32-bit floats") {
  const auto graph = [](const std::string& dtype) {
    return graph_of(R"({"dtype": ")" + dtype + R"(", "tensors": {"x": {"shape": [512, 64]},
        "w": {"shape": [256, 64]}},
      "ops": [{"name": "linear", "op": "linear", "inputs": ["x", "w"], "output": "l"},
              {"name": "norm", "op": "rms_norm", "inputs": ["l"], "output": "n"},
              {"name": "softmax", "op": "softmax", "inputs": ["n"], "output": "y"}]})");
  };
  CHECK(obstacle(graph("f16"), {"linear", "norm", "softmax"}) ==
        "the epilogue of linear can perform only one reduction; softmax would be the second");
  CHECK(obstacle(graph("f32"), {"linear", "norm"}).empty());
  CHECK(obstacle(graph("f64"), {"linear", "norm"}) ==
        "the epilogue of linear accumulates 32-bit floats; rms_norm needs another type");
}

TEST_CASE("a loss after a linear streams over rows of any length") {
  const OpGraph graph = graph_of(R"({"dtype": "f16", "tensors": {"x": {"shape": [512, 64]},
      "w": {"shape": [50000, 64]}, "labels": {"shape": [512], "dtype": "i64"}},
    "ops": [{"name": "linear", "op": "linear", "inputs": ["x", "w"], "output": "l"},
            {"name": "loss", "op": "cross_entropy", "inputs": ["l", "labels"], "output": "y"}]})");
  CHECK(auto_of(graph) == "[linear loss]");
  CHECK(compiler_of(graph) == "[linear] [loss]");
}
