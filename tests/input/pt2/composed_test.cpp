// ATen ops without a row of their own, as the ops that PyTorch decomposes them to.

#include <doctest/doctest.h>

#include <array>
#include <limits>

#include "graph/op_graph.hpp"
#include "support/models.hpp"
#include "support/pt2_files.hpp"
#include "support/words.hpp"
#include "traffic/graph_bytes.hpp"

using namespace fusecalc;
using namespace fusecalc::testing;

namespace {

using Json = nlohmann::json;
using Arguments = std::vector<std::pair<std::string, Json>>;

// The rows of one call, which reads x and t [4, 8], w [8], v [6, 3, 2] and indices i [4], and
// yields y.
Model model_of(const std::string& op, const Arguments& arguments,
               const std::vector<ProgramText::Size>& result) {
  ProgramText text;
  text.input("x", {4, 8}).input("t", {4, 8}).input("w", {8}).input("v", {6, 3, 2});
  text.input("g", {6, 1, 1})
      .input("i", {4})
      .tensor("i", {4}, {}, 5)
      .tensor("y", result)
      .node(op, arguments, {"y"})
      .output("y");
  return read(text);
}

Words rows(const std::string& op, const Arguments& arguments,
           const std::vector<ProgramText::Size>& result = {4, 8}) {
  return rows_of(model_of(op, arguments, result));
}

}  // namespace

TEST_CASE("pt2: losses are what they are computed by, and a mean, a sum or neither") {
  const Arguments both = {{"self", "x"}, {"target", "t"}};
  const auto with = [&](const Arguments& more) {
    Arguments all = both;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  CHECK(rows("mse_loss", with({{"reduction", 2}}), {}) == Words{"squared_difference", "sum"});
  CHECK(rows("l1_loss", with({{"reduction", 0}})) == Words{"sub", "abs"});
  CHECK(rows("mse_loss", with({{"reduction", 0}})) == Words{"squared_difference"});
  CHECK(rows("smooth_l1_loss", both, {}) == Words{"smooth_l1", "mean"});
  const Model smooth = model_of("smooth_l1_loss", with({{"reduction", 0}, {"beta", 0.5}}), {4, 8});
  CHECK(rows_of(smooth) == Words{"smooth_l1"});
  CHECK(std::get<double>(smooth.graph.ops[0].attributes.at(0).value) == 0.5);
  CHECK(rows("smooth_l1_loss", with({{"beta", 0.0}}), {}) == Words{"sub", "abs", "mean"});
  const Model huber = model_of("huber_loss", with({{"delta", 0.5}}), {});
  CHECK(rows_of(huber) == Words{"huber", "mean"});
  CHECK(std::get<double>(huber.graph.ops[0].attributes.at(0).value) == 0.5);
  CHECK(rows("kl_div", both, {}) == Words{"log", "sub", "mul", "mean", "mean"});
  CHECK(rows("kl_div", with({{"log_target", true}, {"reduction", 2}}), {}) ==
        Words{"exp", "sub", "mul", "sum", "sum"});
  CHECK(rows("kl_div", with({{"reduction", 0}})) == Words{"log", "sub", "mul"});
  CHECK(rows("binary_cross_entropy_with_logits", both, {}) ==
        Words{"softplus", "sub", "mul", "sub", "mean"});
  CHECK(rows("binary_cross_entropy_with_logits",
             with({{"weight", "t"}, {"pos_weight", "w"}, {"reduction", 0}})) ==
        Words{"softplus", "sub", "fma", "mul", "sub", "mul", "sub", "mul"});
  CHECK(rows("binary_cross_entropy", both, {}) == Words{"binary_cross_entropy", "mean"});
  CHECK(rows("binary_cross_entropy", with({{"weight", "w"}, {"reduction", 0}})) ==
        Words{"binary_cross_entropy", "mul"});
  CHECK(rows("soft_margin_loss", both, {}) == Words{"neg", "mul", "exp", "log1p", "mean"});
  CHECK(rows("hinge_embedding_loss", both, {}) ==
        Words{"sub", "relu", "ne", "where", "ne", "where", "add", "mean"});
  CHECK(rows("margin_ranking_loss", {{"input1", "x"}, {"input2", "t"}, {"target", "w"}}, {}) ==
        Words{"sub", "neg", "fma", "relu", "mean"});
  const Arguments three = {{"anchor", "x"}, {"positive", "t"}, {"negative", "w"}};
  CHECK(rows("triplet_margin_loss", three, {}) == Words{"sub", "add", "square", "sum", "sqrt",
                                                        "sub", "add", "square", "sum", "sqrt",
                                                        "sub", "add", "relu", "mean"});
  Arguments swapped = three;
  swapped.emplace_back("swap", true);
  CHECK(rows("triplet_margin_loss", swapped, {}) == Words{"custom"});
  // Operands of several shapes are expanded before a loss.
  CHECK(rows("mse_loss", {{"self", "x"}, {"target", "w"}}, {}) == Words{"custom"});
  // x and t read and d written; d read, and its sum.
  CHECK(unfused(model_of("mse_loss", with({{"reduction", 2}}), {})) == 4 * (96 + 33));
}

TEST_CASE("pt2: the losses of a discriminator have one target for all") {
  const auto rows_with = [](const std::string& loss, const std::string& target) {
    ProgramText text;
    text.input("x", {4, 8}).tensor("t", {4, 8}).tensor("y", {});
    text.node(target, {{"self", "x"}}, {"t"});
    text.node(loss, {{"self", "x"}, {"target", "t"}}, {"y"}).output("y");
    return rows_of(read(text));
  };
  const std::string logits = "binary_cross_entropy_with_logits";
  CHECK(rows_with(logits, "ones_like") == Words{"softplus", "neg", "mean"});
  CHECK(rows_with(logits, "zeros_like") == Words{"softplus", "sub", "mean"});
  CHECK(rows_with("binary_cross_entropy", "zeros_like") == Words{"binary_cross_entropy", "mean"});
}

TEST_CASE("pt2: losses of counts and of angles, and distances of rows") {
  const Arguments counts = {{"input", "x"}, {"target", "t"}};
  CHECK(rows("poisson_nll_loss", counts, {}) == Words{"exp", "mul", "sub", "mean"});
  Arguments full = counts;
  full.insert(full.end(), {{"log_input", false}, {"full", true}, {"reduction", 0}});
  CHECK(rows("poisson_nll_loss", full) ==
        Words{"add", "log", "mul", "log", "mul", "sub", "fma", "gt", "add", "where", "sub", "add"});
  // Each number of both, their exponential and product, the difference, and its mean.
  CHECK(unfused(model_of("poisson_nll_loss", counts, {})) == 4 * (64 + 96 + 96 + 33));
  const Model angle = model_of(
      "cosine_embedding_loss",
      {{"input1", "x"}, {"input2", "t"}, {"target", "i"}, {"margin", 0.5}, {"reduction", 0}}, {4});
  CHECK(rows_of(angle) == Words{"square", "sum", "add", "square", "sum", "add", "mul", "sqrt",
                                "mul", "sum", "div", "sub", "relu", "eq", "sub", "where", "eq",
                                "where", "add"});
  CHECK(std::get<double>(angle.graph.ops[11].inputs[1]) == 0.5);
  const Arguments pair = {{"x1", "x"}, {"x2", "w"}};
  CHECK(rows("pairwise_distance", pair, {4}) == Words{"sub", "add", "square", "sum", "sqrt"});
  Arguments kept = pair;
  kept.emplace_back("keepdim", true);
  CHECK(rows("pairwise_distance", kept, {4, 1}) == Words{"sub", "add", "square", "sum", "sqrt"});
  Arguments other = pair;
  other.emplace_back("p", 3.0);
  CHECK(rows("pairwise_distance", other, {4}) == Words{"custom"});
}

TEST_CASE("pt2: elementwise ops that a row or a few compute") {
  const Arguments x = {{"self", "x"}};
  for (const char* op : {"frac", "log10", "erfc", "logit"}) CHECK(rows(op, x) == Words{op});
  for (const char* op : {"xlogy", "hypot", "logaddexp"}) {
    CHECK(rows(op, {{"self", "x"}, {"other", "w"}}) == Words{op});
  }
  CHECK(rows("special_erfc", x) == Words{"erfc"});
  CHECK(rows("special_xlogy", {{"self", 2.0}, {"other", "t"}}) == Words{"xlogy"});
  CHECK(rows("isfinite", x) == Words{"mul", "eq"});
  CHECK(rows("hardshrink", x) == Words{"abs", "gt", "where"});
  CHECK(rows("softshrink", x) == Words{"clamp", "sub"});
  CHECK(rows("rrelu", x) == Words{"leaky_relu"});
  CHECK(rows("rrelu", {{"self", "x"}, {"training", true}}) == Words{"custom"});
  CHECK(rows("logit", {{"self", "x"}, {"eps", 0.1}}) == Words{"clamp", "logit"});
  CHECK(rows("special_expit", x) == Words{"sigmoid"});
  Arguments slope = {{"grad_output", "x"}, {"alpha", 1.0},       {"scale", 1.0},
                     {"input_scale", 1.0}, {"is_result", false}, {"self_or_result", "t"}};
  CHECK(rows("elu_backward", slope) == Words{"exp", "mul", "le", "where"});
  slope[4].second = true;
  CHECK(rows("elu_backward", slope) == Words{"add", "mul", "le", "where"});
  slope[1].second = 2.0;
  slope[2].second = 3.0;
  const Model scaled = model_of("elu_backward", slope, {4, 8});
  CHECK(rows_of(scaled) == Words{"add", "mul", "le", "mul", "where"});
  CHECK(std::get<double>(scaled.graph.ops[0].inputs[1]) == 6.0);
}

TEST_CASE("pt2: quantized numbers are rounded, moved and bounded") {
  const Arguments range = {{"quant_min", -128}, {"quant_max", 127}};
  const auto rows_with = [&](const std::string& op, Arguments arguments,
                             std::vector<ProgramText::Size> result = {4, 8}) {
    arguments.insert(arguments.end(), range.begin(), range.end());
    return rows(op, arguments, result);
  };
  CHECK(rows_with("fake_quantize_per_tensor_affine",
                  {{"self", "x"}, {"scale", 0.1}, {"zero_point", 0}}) ==
        Words{"div", "round", "clamp", "mul"});
  CHECK(rows_with("fake_quantize_per_tensor_affine",
                  {{"self", "x"}, {"scale", 0.1}, {"zero_point", 3}}) ==
        Words{"div", "round", "add", "clamp", "sub", "mul"});
  // A scale for each row of x: i has four.
  CHECK(rows_with("fake_quantize_per_channel_affine",
                  {{"self", "x"}, {"scale", "i"}, {"zero_point", "i"}, {"axis", 0}}) ==
        Words{"reshape", "reshape", "div", "round", "add", "clamp", "sub", "mul"});
  CHECK(rows_with("quantize_per_tensor", {{"input", "x"}, {"scale", 0.1}, {"zero_point", 0}}) ==
        Words{"div", "round", "clamp", "cast"});
  CHECK(rows_with("dequantize_per_channel",
                  {{"input", "x"}, {"scales", "w"}, {"zero_points", "w"}, {"axis", 1}}) ==
        Words{"cast", "sub", "mul"});
}

TEST_CASE("pt2: cross entropy of images has the classes along their second axis") {
  const auto loss = [](const char* op, std::vector<std::string> results) {
    ProgramText text;
    text.input("x", {2, 5, 3, 7})
        .input("t", {2, 3, 7})
        .tensor("t", {2, 3, 7}, {}, 5)
        .tensor("y", {})
        .tensor("w", {});
    text.node(op, {{"self", "x"}, {"target", "t"}}, results);
    return calls_of(read(text.output("y")));
  };
  CHECK(loss("cross_entropy_loss", {"y"}) ==
        Words{"permute_view(x)", "cross_entropy(cross_entropy_loss.permute_view, t)"});
  CHECK(loss("nll_loss2d_forward", {"y", "w"}) ==
        Words{"permute_view(x)", "nll_loss(nll_loss2d_forward.permute_view, t)"});
  ProgramText text;
  text.input("x", {2, 5, 3, 7})
      .input("t", {2, 3, 7})
      .tensor("t", {2, 3, 7}, {}, 5)
      .input("dy", {})
      .tensor("y", {2, 5, 3, 7});
  text.node("nll_loss2d_backward", {{"grad_output", "dy"}, {"self", "x"}, {"target", "t"}}, {"y"});
  CHECK(calls_of(read(text.output("y"))) ==
        Words{"permute_view(x)", "nll_loss_backward(dy, nll_loss2d_backward.permute_view, t)",
              "permute_view(nll_loss2d_backward.nll_loss_backward)"});
}

TEST_CASE("pt2: cross entropy of smoothed labels has a share of all classes") {
  const auto smoothed = [](int reduction) {
    return model_of(
        "cross_entropy_loss",
        {{"self", "x"}, {"target", "i"}, {"reduction", reduction}, {"label_smoothing", 0.1}},
        reduction == 0 ? std::vector<ProgramText::Size>{4} : std::vector<ProgramText::Size>{});
  };
  CHECK(rows_of(smoothed(0)) == Words{"log_softmax", "nll_loss", "sum", "mul", "fma"});
  const Model mean = smoothed(1);
  CHECK(rows_of(mean) == Words{"log_softmax", "nll_loss", "sum", "mean", "mul", "fma"});
  // The logarithms; one of each row, the indices and a number; all, and four; these and a number;
  // two numbers; three.
  CHECK(unfused(mean) == 4 * (64 + (4 + 1) + (32 + 4) + (4 + 1) + 2 + 3) + 8 * 4);
  CHECK(std::get<double>(mean.graph.ops[4].inputs[1]) == doctest::Approx(-0.1 / 8));
  CHECK(std::get<double>(mean.graph.ops[5].inputs[1]) == doctest::Approx(0.9));
}

TEST_CASE("pt2: the logarithm of a sigmoid is a softplus of the other sign") {
  const Model model = model_of("log_sigmoid", {{"self", "x"}}, {4, 8});
  REQUIRE(rows_of(model) == Words{"softplus"});
  REQUIRE(model.graph.ops[0].attributes.size() == 1);
  CHECK(model.graph.ops[0].attributes[0].name == "beta");
  CHECK(std::get<double>(model.graph.ops[0].attributes[0].value) == -1);
}

TEST_CASE("pt2: activations and bounds that no row has are several") {
  CHECK(rows("celu", {{"self", "x"}}) == Words{"elu"});
  CHECK(rows("celu", {{"self", "x"}, {"alpha", 2}}) == Words{"mul", "elu", "mul"});
  CHECK(rows("elu", {{"self", "x"}, {"alpha", 2}, {"scale", 1}, {"input_scale", 0.5}}) ==
        Words{"mul", "elu", "mul"});
  CHECK(rows("elu", {{"self", "x"}, {"alpha", 2}}) == Words{"elu"});
  CHECK(rows("elu", {{"self", "x"}, {"alpha", 2}, {"input_scale", 3}}) == Words{"custom"});
  CHECK(rows("threshold", {{"self", "x"}, {"threshold", 0.1}, {"value", 20}}) ==
        Words{"gt", "where"});
  CHECK(rows("clamp", {{"self", "x"}, {"min", "w"}, {"max", "t"}}) == Words{"clamp"});
  CHECK(rows("clamp", {{"self", "x"}, {"min", "w"}}) == Words{"maximum"});
  CHECK(rows("clamp_max", {{"self", "x"}, {"max", "w"}}) == Words{"minimum"});
  CHECK(rows("clamp", {{"self", "x"}, {"min", 0}, {"max", 1}}) == Words{"clamp"});
  CHECK(unfused(model_of("clamp", {{"self", "x"}, {"min", "w"}, {"max", "t"}}, {4, 8})) ==
        4 * (32 + 8 + 32 + 32));
}

TEST_CASE("pt2: what is no number becomes one that the call names, or the ends of the type") {
  const auto with = [](const Arguments& more) {
    Arguments all = {{"self", "x"}};
    all.insert(all.end(), more.begin(), more.end());
    const Model model = model_of("nan_to_num", all, {4, 8});
    REQUIRE(rows_of(model) == Words{"nan_to_num"});
    const OpGraph graph = build_graph(model.graph, {});
    const Attributes& at = *graph.ops[0].attributes;
    return std::array{at.value, *at.min, *at.max};
  };
  const double most = std::numeric_limits<float>::max();
  CHECK(with({{"nan", nullptr}}) == std::array{0.0, -most, most});
  CHECK(with({{"nan", 1.0}, {"posinf", 8.0}}) == std::array{1.0, -most, 8.0});
  CHECK(with({{"neginf", -2.0}}) == std::array{0.0, -2.0, most});
}

TEST_CASE("pt2: norms of weights and of what a cosine compares are one op") {
  CHECK(rows("cosine_similarity", {{"x1", "x"}, {"x2", "t"}, {"dim", 1}}, {4}) ==
        Words{"l2_norm", "clamp", "div", "l2_norm", "clamp", "div", "mul", "sum"});
  const Model model = model_of("_weight_norm", {{"v", "v"}, {"g", "g"}, {"dim", 0}}, {6, 3, 2});
  CHECK(rows_of(model) == Words{"l2_norm", "div", "mul"});
  CHECK(unfused(model) == 4 * (42 + 18 + 78));
}

TEST_CASE("pt2: tensors that are tiled, filled, stacked alone or measured are their ops") {
  ProgramText text;
  text.input("x", {4, 6}).input("one", {}).tensor("t", {2, 4, 18}).tensor("f", {4, 6});
  text.tensor("s", {1, 4, 6}).tensor("n", {4}).tensor("m", {}).tensor("g", {4, 6});
  text.node("tile", {{"self", "x"}, {"dims", Json{2, 1, 3}}}, {"t"});
  text.node("fill", {{"self", "x"}, {"value", "one"}}, {"f"});
  text.node("stack", {{"tensors", Json{"x"}}, {"dim", 0}}, {"s"});
  text.node("linalg_norm", {{"self", "x"}, {"ord", nullptr}, {"dim", Json{1}}}, {"n"});
  text.node("linalg_norm", {{"self", "x"}, {"ord", 2}, {"dim", nullptr}}, {"m"});
  text.node("sgn", {{"self", "x"}}, {"g"});
  for (const char* name : {"t", "f", "s", "n", "m", "g"}) text.output(name);
  const Model model = read(text);
  // That of order 2 without an axis is the largest singular value: a custom op.
  CHECK(rows_of(model) == Words{"reshape", "broadcast_to", "reshape", "broadcast_to", "reshape",
                                "copy", "l2_norm", "custom", "sign"});
  // x seven times, and what each of them writes; 1 to fill; squares and their sums, read again.
  CHECK(unfused(model) == 4 * (24 + 144 + 1 + 24 + 2 * 24 + (24 + 4) + 24 + 1 + 2 * 24));
}

TEST_CASE("pt2: memory that is looked at in another shape in place is not overwritten") {
  ProgramText text;
  text.input("x", {4, 6}).tensor("r", {4, 6}).tensor("u", {1, 4, 6}).tensor("q", {4, 6});
  text.tensor("t", {6, 4}, {1, 6}).tensor("d", {6, 4}, {1, 6}).tensor("y", {6, 4}, {1, 6});
  text.node("relu", {{"self", "x"}}, {"r"});
  text.node("unsqueeze_", {{"self", "r"}, {"dim", 0}}, {"u"});
  text.node("torch.ops.aten.squeeze_.dim", {{"self", "u"}, {"dim", 0}}, {"q"});
  text.node("t_", {{"self", "q"}}, {"t"});
  text.node("detach_", {{"self", "t"}}, {"d"});
  text.node("exp", {{"self", "d"}}, {"y"}).output("y");
  const Model model = read(text);
  CHECK(model.origin.opaque == 0);
  CHECK(unfused(model) == 4 * 4 * 24);
}

TEST_CASE("pt2: a variance and its mean are two reductions, of which one may not be needed") {
  const auto rows_with = [](bool both) {
    ProgramText text;
    text.input("x", {4, 8}).tensor("s", {4}).tensor("m", {4});
    text.node("var_mean", {{"self", "x"}, {"dim", Json{1}}, {"correction", 1}}, {"s", "m"});
    text.output("s");
    if (both) text.output("m");
    return rows_of(read(text));
  };
  CHECK(rows_with(true) == Words{"var", "mean"});
  CHECK(rows_with(false) == Words{"var"});
}

TEST_CASE("pt2: the smallest and the largest of rows are two reductions") {
  ProgramText text;
  text.input("x", {4, 8}).tensor("s", {4}).tensor("l", {4});
  text.node("aminmax", {{"self", "x"}, {"dim", 1}}, {"s", "l"}).output("s").output("l");
  const Model model = read(text);
  CHECK(rows_of(model) == Words{"min", "max"});
  CHECK(unfused(model) == 4 * 2 * (32 + 4));
}

TEST_CASE("pt2: the sum of what a softmax made is that of each row first, in its kernel") {
  const auto rows_with = [](const std::string& op, const std::string& reduction, int dtype) {
    ProgramText text;
    text.input("x", {4, 8}).tensor("x", {4, 8}, {}, dtype).tensor("p", {4, 8}, {}, dtype);
    text.tensor("m", {4, 8}, {}, dtype).tensor("y", {}, {}, dtype);
    text.node(op, {{"self", "x"}, {"dim", 1}}, {"p"});
    text.node("mul", {{"self", "p"}, {"other", "x"}}, {"m"});
    text.node(reduction, {{"self", "m"}}, {"y"}).output("y");
    return rows_of(read(text));
  };
  CHECK(rows_with("softmax", "sum", 7) == Words{"softmax", "mul", "sum", "sum"});
  CHECK(rows_with("log_softmax", "mean", 7) == Words{"log_softmax", "mul", "mean", "mean"});
  // Sums of rows would be rounded to 16 bits.
  CHECK(rows_with("softmax", "sum", 13) == Words{"softmax", "mul", "sum"});
  // What is no row's stays one sum.
  CHECK(rows_with("cumsum", "sum", 7) == Words{"cumsum", "mul", "sum"});
}
