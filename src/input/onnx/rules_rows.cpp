// Reductions and normalisations.

#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <vector>

#include "input/onnx/rules.hpp"
#include "input/onnx/shapes.hpp"

namespace fusecalc {
namespace {

struct Reduction {
  std::string_view onnx;
  std::string_view op;
  std::string_view before;  // of each element first
  std::string_view after;   // of each result last
};
constexpr std::array kReductions = {
    Reduction{"ReduceSum", "sum", "", ""},       Reduction{"ReduceMean", "mean", "", ""},
    Reduction{"ReduceMax", "max", "", ""},       Reduction{"ReduceMin", "min", "", ""},
    Reduction{"ReduceProd", "prod", "", ""},     Reduction{"ReduceL1", "sum", "abs", ""},
    Reduction{"ReduceL2", "l2_norm", "", ""},    Reduction{"ReduceSumSquare", "sum", "square", ""},
    Reduction{"ReduceLogSum", "sum", "", "log"}, Reduction{"ReduceLogSumExp", "logsumexp", "", ""},
};

Shape reduced(const Shape& shape, const std::vector<bool>& flags, bool keep) {
  Shape result;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (!flags[i]) result.push_back(shape[i]);
    if (flags[i] && keep) result.push_back(1);
  }
  return result;
}

bool reduction(OnnxImporter& in, const OnnxNode& node) {
  const auto* row = std::ranges::find(kReductions, node.type, &Reduction::onnx);
  const OnnxKnown* x = in.input(node, 0);
  if (in.input(node, 1) != nullptr && in.constant(node, 1) == nullptr) return false;
  std::vector<std::int64_t> axes =
      integers_of(node, "axes", in.constant(node, 1)).value_or(std::vector<std::int64_t>{});
  if (axes.empty()) {
    if (whole_attribute(node, "noop_with_empty_axes", 0) != 0) {
      in.alias(node, *x);
      return true;
    }
    axes.resize(x->type.shape.size());
    std::iota(axes.begin(), axes.end(), 0);
  }
  std::vector<bool> flags(x->type.shape.size(), false);
  for (const std::int64_t axis : axes) {
    const auto place = axis_of(axis, flags.size());
    if (!place) return false;
    flags[*place] = true;
  }
  const bool keep = whole_attribute(node, "keepdims", 1) != 0;
  const OnnxImporter::Written attributes = {listed("axes", axes), {"keepdim", keep}};
  const DType dtype = x->type.dtype;  // also of sums and means of integers
  std::optional<OnnxKnown> before;
  if (!row->before.empty()) {
    before = in.write_step(row->before, {x});
    if (!before) return false;
    x = &*before;
  }
  if (row->after.empty()) {
    if (in.write_as(node, row->op, {x}, {dtype}, attributes)) return true;
    return in.write_custom(node, OpClass::kReduce, 0,
                           {{reduced(x->type.shape, flags, keep), dtype}});
  }
  const auto total = in.write_step(row->op, {x}, attributes);
  return total && in.write_as(node, row->after, {&*total}, {dtype});
}

bool best_index(OnnxImporter& in, const OnnxNode& node) {
  const OnnxKnown* x = in.input(node, 0);
  const std::int64_t axis = whole_attribute(node, "axis", 0);
  const bool keep = whole_attribute(node, "keepdims", 1) != 0;
  const std::string_view op = node.type == "ArgMax" ? "argmax" : "argmin";
  if (in.write(node, op, {x}, {listed("axes", {axis}), {"keepdim", keep}})) return true;
  const auto place = axis_of(axis, x->type.shape.size());
  if (!place) return false;
  std::vector<bool> flags(x->type.shape.size(), false);
  flags[*place] = true;
  return in.write_custom(node, OpClass::kReduce, 0,
                         {{reduced(x->type.shape, flags, keep), DType::kI64}});
}

bool softmax(OnnxImporter& in, const OnnxNode& node) {
  const std::string_view op = node.type == "Softmax" ? "softmax" : "log_softmax";
  return in.write(node, op, {in.input(node, 0)},
                  {listed("axes", {whole_attribute(node, "axis", -1)})});
}

// The inputs from `first` on that are given, up to the first that is not.
std::vector<OnnxImporter::Operand> given(const OnnxImporter& in, const OnnxNode& node,
                                         std::size_t count) {
  std::vector<OnnxImporter::Operand> result;
  for (std::size_t i = 0; i < count && in.input(node, i) != nullptr; ++i) {
    result.emplace_back(in.input(node, i));
  }
  return result;
}

std::vector<std::int64_t> axes_from(std::int64_t first, std::size_t rank) {
  const auto place = axis_of(first, rank);
  if (!place) return {};
  std::vector<std::int64_t> axes(rank - *place);
  std::iota(axes.begin(), axes.end(), static_cast<std::int64_t>(*place));
  return axes;
}

bool layer_norm(OnnxImporter& in, const OnnxNode& node) {
  const auto axes =
      axes_from(whole_attribute(node, "axis", -1), in.input(node, 0)->type.shape.size());
  // The mean and the deviation are in the type in which ONNX computes them.
  const auto inner =
      dtype_of_onnx(static_cast<std::uint64_t>(whole_attribute(node, "stash_type", 1)));
  std::vector<DType> dtypes(OnnxImporter::output_count(node), inner.value_or(DType::kF32));
  dtypes[0] = in.input(node, 0)->type.dtype;
  return in.write_as(node, "layer_norm", given(in, node, 3), dtypes,
                     {listed("axes", axes), {"eps", real_attribute(node, "epsilon", 1e-5)}});
}

bool rms_norm(OnnxImporter& in, const OnnxNode& node) {
  const auto axes =
      axes_from(whole_attribute(node, "axis", -1), in.input(node, 0)->type.shape.size());
  return in.write(node, "rms_norm", given(in, node, 2),
                  {listed("axes", axes), {"eps", real_attribute(node, "epsilon", 1e-5)}},
                  OnnxImporter::output_count(node));
}

// By the statistics of x, with what the running ones become. ONNX's momentum is what they keep, and
// its running variance is divided by all samples, that of the row by one less.
bool trained_batch_norm(OnnxImporter& in, const OnnxNode& node) {
  constexpr std::size_t kRunning = 3;  // of the row's results
  const std::vector<OnnxImporter::Operand> inputs = given(in, node, 5);
  if (inputs.size() != 5) return false;
  const DType dtype = in.input(node, 0)->type.dtype;
  OnnxImporter::Written attributes = {{"mode", std::string("training")},
                                      {"eps", real_attribute(node, "epsilon", 1e-5)}};
  if (OnnxImporter::output_count(node) == 1) {
    return in.write_as(node, "batch_norm", {inputs[0], inputs[1], inputs[2]}, {dtype}, attributes);
  }
  attributes.push_back({"momentum", 1 - real_attribute(node, "momentum", 0.9)});
  const DType mean = in.input(node, 3)->type.dtype;
  const DType variance = in.input(node, 4)->type.dtype;
  const auto results = in.write_steps_as(
      "batch_norm", inputs, {dtype, DType::kF32, DType::kF32, mean, variance}, attributes);
  if (!results) return false;
  in.alias(node, results->front());
  for (std::size_t i = 1; i < OnnxImporter::output_count(node); ++i) {
    in.alias(node, (*results)[kRunning + i - 1], i);
  }
  return true;
}

bool batch_norm(OnnxImporter& in, const OnnxNode& node) {
  const std::size_t outputs = OnnxImporter::output_count(node);
  if (whole_attribute(node, "training_mode", 0) != 0) {
    return outputs <= 3 && trained_batch_norm(in, node);
  }
  return outputs == 1 && in.write(node, "batch_norm", given(in, node, 5),
                                  {{"eps", real_attribute(node, "epsilon", 1e-5)}});
}

bool group_norm(OnnxImporter& in, const OnnxNode& node) {
  const OnnxKnown* x = in.input(node, 0);
  if (x->type.shape.size() < 2) return false;
  const auto groups = node.type == "InstanceNormalization"
                          ? static_cast<std::int64_t>(x->type.shape[1])
                          : whole_attribute(node, "num_groups", 1);
  return in.write(node, "group_norm", given(in, node, 3),
                  {{"groups", groups}, {"eps", real_attribute(node, "epsilon", 1e-5)}});
}

// com.microsoft: layer_norm or rms_norm of a sum (x, skip, weight, bias of the norm, bias); the
// sum may be an output, too.
bool skip_norm(OnnxImporter& in, const OnnxNode& node) {
  const bool simplified = node.type == "SkipSimplifiedLayerNormalization";
  const OnnxKnown* skip = in.input(node, 1);
  if (skip == nullptr || in.input(node, 2) == nullptr) return false;
  auto total = in.write_step("add", {in.input(node, 0), skip});
  const OnnxKnown* bias = in.input(node, simplified ? 3 : 4);
  if (total && bias != nullptr) total = in.write_step("add", {&*total, bias});
  if (!total) return false;
  std::vector<OnnxImporter::Operand> inputs = {&*total, in.input(node, 2)};
  if (!simplified && in.input(node, 3) != nullptr) inputs.emplace_back(in.input(node, 3));
  if (OnnxImporter::output_count(node) == 4) in.alias(node, *total, 3);
  for (const std::size_t i : {std::size_t{1}, std::size_t{2}}) {
    if (i < node.outputs.size() && !node.outputs[i].empty()) return false;
  }
  return in.write(node, simplified ? "rms_norm" : "layer_norm", inputs,
                  {{"eps", real_attribute(node, "epsilon", 1e-12)}});
}

// Of scores, or of their logarithms; no label is left out. Scores may give their logarithms, too.
bool loss(OnnxImporter& in, const OnnxNode& node) {
  const OnnxKnown* scores = in.input(node, 0);
  const OnnxKnown* labels = in.input(node, 1);
  if (labels == nullptr || in.input(node, 2) != nullptr) return false;
  const OnnxImporter::Written reduction = {
      {"reduction", std::string(text_attribute(node, "reduction", "mean"))}};
  const bool logarithms = OnnxImporter::output_count(node) == 2;
  if (node.type != "SoftmaxCrossEntropyLoss")
    return in.write(node, "nll_loss", {scores, labels}, reduction);
  if (!logarithms) return in.write(node, "cross_entropy", {scores, labels}, reduction);
  const auto all = in.write_step("log_softmax", {scores}, {listed("axes", {1})});
  if (!all || !in.write(node, "nll_loss", {&*all, labels}, reduction)) return false;
  in.alias(node, *all, 1);
  return true;
}

constexpr std::array kOwnRowRules = {
    OnnxRuleRow{"ArgMax", best_index},
    OnnxRuleRow{"ArgMin", best_index},
    OnnxRuleRow{"Softmax", softmax},
    OnnxRuleRow{"LogSoftmax", softmax},
    OnnxRuleRow{"LayerNormalization", layer_norm},
    OnnxRuleRow{"RMSNormalization", rms_norm},
    OnnxRuleRow{"SimplifiedLayerNormalization", rms_norm},
    OnnxRuleRow{"BatchNormalization", batch_norm},
    OnnxRuleRow{"GroupNormalization", group_norm},
    OnnxRuleRow{"InstanceNormalization", group_norm},
    OnnxRuleRow{"SoftmaxCrossEntropyLoss", loss},
    OnnxRuleRow{"NegativeLogLikelihoodLoss", loss},
    OnnxRuleRow{"SkipLayerNormalization", skip_norm, "com.microsoft"},
    OnnxRuleRow{"SkipSimplifiedLayerNormalization", skip_norm, "com.microsoft"},
};

constexpr auto kRowRules = rows_of(kReductions, reduction, kOwnRowRules);

}  // namespace

std::span<const OnnxRuleRow> onnx_row_rules() { return kRowRules; }

}  // namespace fusecalc
