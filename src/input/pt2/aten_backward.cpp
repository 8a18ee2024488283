// ATen's gradients, and losses.

#include <algorithm>
#include <array>
#include <numeric>

#include "input/model_shapes.hpp"
#include "input/pt2/aten.hpp"

namespace fusecalc {
namespace {

using Inputs = std::vector<ModelGraph::Input>;
using Attributes = std::vector<WrittenAttribute>;

// Of the gradient and one more tensor, called as the row says.
bool binary(const AtenCall& call, std::string_view row, std::string_view other,
            Attributes attributes = {}) {
  const auto dy = call.value("grad_output");
  const auto x = call.value(other);
  return dy && x && call.op(row, {call.operand(*dy), call.operand(*x)}, std::move(attributes));
}

// An attribute that the call has under the same name.
void pass_on(const AtenCall& call, const char* name, Attributes& attributes) {
  if (const auto number = call.number(name)) attributes.push_back({.name = name, .value = *number});
}

bool of_input(const AtenCall& call, std::string_view row) { return binary(call, row, "self"); }

bool of_result(const AtenCall& call, std::string_view row) { return binary(call, row, "output"); }

bool threshold(const AtenCall& call, std::string_view row) {
  return call.number("threshold").value_or(0) == 0 && binary(call, row, "self");
}

bool leaky_relu(const AtenCall& call, std::string_view row) {
  Attributes attributes;
  pass_on(call, "negative_slope", attributes);
  return binary(call, row, "self", attributes);
}

bool softplus(const AtenCall& call, std::string_view row) {
  Attributes attributes;
  pass_on(call, "beta", attributes);
  pass_on(call, "threshold", attributes);
  return binary(call, row, "self", attributes);
}

bool gelu(const AtenCall& call, std::string_view row) {
  Attributes attributes;
  const std::string approximate = call.text("approximate");
  if (!approximate.empty()) attributes.push_back({.name = "approximate", .value = approximate});
  return binary(call, row, "self", attributes);
}

bool dropout(const AtenCall& call, std::string_view row) {
  Attributes attributes;
  pass_on(call, "scale", attributes);
  return binary(call, row, "mask", attributes);
}

bool softmax(const AtenCall& call, std::string_view row) {
  return binary(call, row, "output", {listed("axes", {WrittenDim(call.whole("dim", -1))})});
}

// Classes that are to be ignored are known when it runs; all of them are counted.
std::optional<WrittenAttribute> reduction(const AtenCall& call) {
  static constexpr std::array<std::string_view, 3> kWords = {"none", "mean", "sum"};
  const std::int64_t number = call.whole("reduction", 1);
  if (call.given("weight") || number < 0 || number > 2) return std::nullopt;
  return WrittenAttribute{.name = "reduction",
                          .value = std::string(kWords[static_cast<std::size_t>(number)])};
}

// A share of the loss is that of classes that are equally likely: the mean of all logarithms.
bool smoothed_loss(const AtenCall& call, const ModelType& logits, double share,
                   const WrittenAttribute& how) {
  const std::size_t axis = logits.shape().size() < 2 ? 0 : 1;
  const WrittenAttribute classes = listed("axes", {static_cast<std::int64_t>(axis)});
  const AtenCall::Step logarithms =
      call.step("log_softmax", {call.tensor(*call.value("self"))}, {classes});
  const AtenCall::Step chosen =
      call.step("nll_loss", {logarithms, call.tensor(*call.value("target"))}, {how});
  AtenCall::Step all = call.step("sum", {logarithms}, {classes});
  const std::string& reduced = std::get<std::string>(how.value);
  if (reduced != "none") all = call.step(reduced, {all});
  const double each = -share / static_cast<double>(logits.shape()[axis]);
  return call.last_step("fma", {chosen, 1 - share, call.step("mul", {all, each})});
}

// PyTorch has the classes along the second axis, rows along the last one.
std::optional<ModelGraph::TensorId> with_classes_last(const AtenCall& call, ValueId scores) {
  const ModelGraph::TensorId tensor = call.tensor(scores);
  const bool apart = call.graph().type(tensor).shape().size() > 2;
  return apart ? with_last(call.graph(), tensor, {1}) : tensor;
}

bool loss(const AtenCall& call, std::string_view row) {
  const auto self = call.value("self");
  const auto target = call.value("target");
  const auto how = reduction(call);
  if (!self || !target || !how) return false;
  const double smoothing = call.number("label_smoothing").value_or(0);
  if (smoothing != 0) return smoothed_loss(call, call.copy_of(*self).type, smoothing, *how);
  const auto scores = with_classes_last(call, *self);
  if (!scores || !call.op(row, {*scores, call.tensor(*target)}, {*how})) return false;
  if (call.results() < 2) return true;
  // The total weight is the number of samples.
  double samples = 1;
  for (const std::uint64_t extent : call.at(*target).type.shape()) {
    samples *= static_cast<double>(extent);
  }
  call.set_number(1, samples);
  return true;
}

bool loss_backward(const AtenCall& call, std::string_view row) {
  const auto dy = call.value("grad_output");
  const auto self = call.value("self");
  const auto target = call.value("target");
  const auto how = reduction(call);
  if (!dy || !self || !target || !how) return false;
  const auto scores = with_classes_last(call, *self);
  if (!scores) return false;
  const std::size_t rank = call.type().shape().size();
  if (rank < 3) return call.op(row, {call.operand(*dy), *scores, call.tensor(*target)}, {*how});
  const auto dx = call.graph().op(row, {call.operand(*dy), *scores, call.tensor(*target)}, {*how},
                                  ModelType(call.graph().type(*scores)));
  // The classes become the second axis again.
  std::vector<std::size_t> behind(rank - 2);
  std::iota(behind.begin(), behind.end(), std::size_t{1});
  const auto result = dx ? with_last(call.graph(), *dx, behind) : std::nullopt;
  if (result) call.set(0, *result);
  return result.has_value();
}

template <std::size_t n>
std::optional<Inputs> tensors(const AtenCall& call, const std::array<std::string_view, n>& names) {
  Inputs inputs;
  for (const std::string_view name : names) {
    const auto value = call.value(name);
    if (!value) return std::nullopt;
    inputs.emplace_back(call.tensor(*value));
  }
  return inputs;
}

bool norm_of(const AtenCall& call, std::string_view row, std::optional<Inputs> inputs,
             Attributes attributes) {
  if (!inputs) return false;
  if (const auto weight = call.value("weight")) inputs->emplace_back(call.tensor(*weight));
  attributes.push_back(given_gradients(call));
  return call.op(row, *inputs, std::move(attributes), call.results());
}

bool layer_norm(const AtenCall& call, std::string_view row) {
  static constexpr std::array<std::string_view, 4> kNames = {"grad_out", "input", "mean", "rstd"};
  return norm_of(call, row, tensors(call, kNames), {});
}

bool rms_norm(const AtenCall& call, std::string_view row) {
  static constexpr std::array<std::string_view, 3> kNames = {"grad_out", "input", "rstd"};
  return norm_of(call, row, tensors(call, kNames), {});
}

bool group_norm(const AtenCall& call, std::string_view row) {
  static constexpr std::array<std::string_view, 4> kNames = {"grad_out", "input", "mean", "rstd"};
  return norm_of(call, row, tensors(call, kNames),
                 {{.name = "groups", .value = call.whole("group", 1)}});
}

// In training; what it saved then are the mean and 1 / deviation.
bool batch_norm(const AtenCall& call, std::string_view row) {
  const bool native = call.given("grad_out");
  static constexpr std::array<std::string_view, 4> kNames = {"grad_out", "input", "save_mean",
                                                             "save_invstd"};
  static constexpr std::array<std::string_view, 4> kOthers = {"grad_output", "input", "save_mean",
                                                              "save_var"};
  const bool trains = call.truth("train", call.truth("update", true));
  return trains && norm_of(call, row, native ? tensors(call, kNames) : tensors(call, kOthers), {});
}

bool attention(const AtenCall& call, std::string_view row) {
  static constexpr std::array<std::string_view, 5> kNames = {"query", "key", "value", "out",
                                                             "logsumexp"};
  auto inputs = tensors(call, kNames);
  const auto dy = call.given("grad_out") ? call.value("grad_out") : call.value("grad_out_");
  if (!inputs || !dy) return false;
  // On a CPU, a forward pass that was decomposed hands on all weights in place of their sums.
  const std::size_t sums = call.at(*call.value("logsumexp")).type.shape().size();
  const bool has_weights = sums >= call.at(*call.value("query")).type.shape().size();
  if (has_weights || call.number("dropout_p").value_or(0) != 0) {
    const auto flops = attention_flops(call, 6, 4);
    return flops && set_custom(call, {.op_class = OpClass::kContract, .flops = *flops});
  }
  inputs->insert(inputs->begin(), call.tensor(*dy));
  auto mask = call.value("attn_mask");
  if (!mask) mask = call.value("attn_bias");
  if (mask) inputs->emplace_back(call.tensor(*mask));
  Attributes attributes;
  if (call.truth("is_causal", false)) {
    // `causal` aligns the last query and key, PyTorch the first ones.
    const Shape& q = call.at(*call.value("query")).type.shape();
    const Shape& k = call.at(*call.value("key")).type.shape();
    if (q.size() < 3 || k.size() != q.size() || q[q.size() - 2] != k[q.size() - 2]) return false;
    attributes.push_back({.name = "causal", .value = true});
  }
  pass_on(call, "scale", attributes);
  return call.results() == 3 && call.op(row, *inputs, attributes, 3);
}

bool embedding(const AtenCall& call, std::string_view row) {
  const auto dy = call.value("grad_output");
  const auto indices = call.value("indices");
  if (!dy || !indices || call.type().extents.empty()) return false;
  return call.op(row, {call.tensor(*dy), call.tensor(*indices)},
                 {listed("size", {call.type().extents[0]})});
}

// The gradient of a range of an axis, or of one place of it: zeros around it.
bool part(const AtenCall& call, std::string_view) {
  const auto dy = call.value("grad_output");
  const ModelType& type = call.type();
  const auto range = call.range(type);
  if (!dy || !range || range->step != 1) return false;
  ModelType placed = type;
  const std::int64_t length = range->end - range->start;
  placed.type.shape[range->axis] = static_cast<std::uint64_t>(length);
  placed.extents[range->axis] = length;
  std::vector<std::int64_t> before(type.shape().size());
  std::vector<std::int64_t> after(type.shape().size());
  before[range->axis] = range->start;
  after[range->axis] = static_cast<std::int64_t>(type.shape()[range->axis]) - range->end;
  const auto rows = reshaped(call.graph(), call.tensor(*dy), placed);
  return rows && call.op("pad", {*rows}, {listed("before", before), listed("after", after)});
}

using Step = AtenCall::Step;

// Of a and b, the halves of x: dy sigmoid(b), and that times a (1 - sigmoid(b)).
bool glu(const AtenCall& call, std::string_view) {
  const auto dy = call.value("grad_output");
  const auto x = call.value("self");
  const auto axis = axis_of(call.whole("dim", -1), call.type().shape().size());
  if (!dy || !x || !axis) return false;
  const ModelType half = call.at(*dy).type;
  if (half.shape().size() != call.type().shape().size()) return false;
  const auto middle = static_cast<std::int64_t>(half.shape()[*axis]);
  const auto whole = call.tensor(*x);
  const Step a = sliced(call.graph(), whole, {*axis, 0, middle}, half);
  const Step gate =
      call.step("sigmoid", {sliced(call.graph(), whole, {*axis, middle, 2 * middle}, half)});
  const Step da = call.step("mul", {call.operand(*dy), gate});
  const Step slope = call.step("mul", {a, call.step("sub", {1.0, gate})});
  return call.last_step("concat", {da, call.step("mul", {da, slope})},
                        {listed("axes", {static_cast<std::int64_t>(*axis)})});
}

// Of x, and of the weight, for each element of x.
bool prelu(const AtenCall& call, std::string_view) {
  const auto dy = call.value("grad_output");
  const auto x = call.value("self");
  const auto weight = call.value("weight");
  if (!dy || !x || !weight || call.results() != 2) return false;
  const Step above = call.step("gt", {call.operand(*x), 0.0});
  const Step below = call.step("mul", {call.operand(*weight), call.operand(*dy)});
  if (!call.last_step("where", {above, call.operand(*dy), below})) return false;
  const Step product = call.step("mul", {call.operand(*x), call.operand(*dy)});
  const Step of_weight = call.step("where", {above, 0.0, product});
  if (!of_weight) return false;
  call.set(1, std::get<ModelGraph::TensorId>(*of_weight));
  return true;
}

constexpr std::array kBackwardRules = {
    AtenRule{"slice_backward", part},
    AtenRule{"select_backward", part},
    AtenRule{"glu_backward", glu},
    AtenRule{"_prelu_kernel_backward", prelu},
    AtenRule{"threshold_backward", threshold, "relu_backward"},
    AtenRule{"leaky_relu_backward", leaky_relu, "leaky_relu_backward"},
    AtenRule{"sigmoid_backward", of_result, "sigmoid_backward"},
    AtenRule{"tanh_backward", of_result, "tanh_backward"},
    AtenRule{"silu_backward", of_input, "silu_backward"},
    AtenRule{"gelu_backward", gelu, "gelu_backward"},
    AtenRule{"hardsigmoid_backward", of_input, "hardsigmoid_backward"},
    AtenRule{"hardswish_backward", of_input, "hardswish_backward"},
    AtenRule{"softplus_backward", softplus, "softplus_backward"},
    AtenRule{"native_dropout_backward", dropout, "dropout_backward"},
    AtenRule{"_softmax_backward_data", softmax, "softmax_backward"},
    AtenRule{"_log_softmax_backward_data", softmax, "log_softmax_backward"},
    AtenRule{"cross_entropy_loss", loss, "cross_entropy"},
    AtenRule{"nll_loss", loss, "nll_loss"},
    AtenRule{"nll_loss_nd", loss, "nll_loss"},
    AtenRule{"nll_loss_forward", loss, "nll_loss"},
    AtenRule{"nll_loss2d", loss, "nll_loss"},
    AtenRule{"nll_loss2d_forward", loss, "nll_loss"},
    AtenRule{"nll_loss_backward", loss_backward, "nll_loss_backward"},
    AtenRule{"nll_loss2d_backward", loss_backward, "nll_loss_backward"},
    AtenRule{"native_layer_norm_backward", layer_norm, "layer_norm_backward"},
    AtenRule{"_fused_rms_norm_backward", rms_norm, "rms_norm_backward"},
    AtenRule{"native_group_norm_backward", group_norm, "group_norm_backward"},
    AtenRule{"native_batch_norm_backward", batch_norm, "batch_norm_backward"},
    AtenRule{"batch_norm_backward", batch_norm, "batch_norm_backward"},
    AtenRule{"_scaled_dot_product_flash_attention_backward", attention, "attention_backward"},
    AtenRule{"_scaled_dot_product_flash_attention_for_cpu_backward", attention,
             "attention_backward"},
    AtenRule{"_scaled_dot_product_efficient_attention_backward", attention, "attention_backward"},
    AtenRule{"_scaled_dot_product_cudnn_attention_backward", attention, "attention_backward"},
    AtenRule{"embedding_dense_backward", embedding, "embedding_backward"},
};

}  // namespace

std::span<const AtenRule> aten_backward_rules() { return kBackwardRules; }

WrittenAttribute given_gradients(const AtenCall& call) {
  std::vector<std::int64_t> given;
  std::int64_t number = 0;
  for (const ProgramArgument& output : call.node().outputs) {
    if (output.tensors.empty() && !output.list) ++number;
    for (const std::string& name : output.tensors) {
      if (!name.empty()) given.push_back(number);
      ++number;
    }
  }
  return listed("gradients", given);
}

}  // namespace fusecalc
