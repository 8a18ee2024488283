// ATen reductions, normalisations and softmaxes.

#include <algorithm>
#include <array>

#include "input/pt2/aten.hpp"

namespace fusecalc {
namespace {

using Inputs = std::vector<ModelGraph::Input>;
using Attributes = std::vector<WrittenAttribute>;

// The axes that "dim" names, or all.
Attributes reduced_axes(const AtenCall& call) {
  Attributes attributes;
  const std::vector<std::int64_t> axes = call.wholes("dim");
  if (!axes.empty()) attributes.push_back(listed("axes", axes));
  if (call.truth("keepdim", false)) attributes.push_back({.name = "keepdim", .value = true});
  return attributes;
}

bool reduce(const AtenCall& call, std::string_view row) {
  const auto self = call.value("self");
  return self && call.op(row, {call.tensor(*self)}, reduced_axes(call));
}

// The largest or smallest of all elements; of an axis, its index is a second result.
bool extreme(const AtenCall& call, std::string_view row) {
  if (call.given("other"))
    return call.node().inputs.size() == 2 &&
           pointwise_by_name(call, row == "max" ? "maximum" : "minimum");
  if (call.results() != 2 || !call.used(1)) return reduce(call, row);
  const auto self = call.value("self");
  if (!self) return false;
  return call.op(row == "max" ? "max_with_index" : "min_with_index", {call.tensor(*self)},
                 {listed("axes", call.wholes("dim")),
                  {.name = "keepdim", .value = call.truth("keepdim", false)}},
                 2);
}

// The smallest and the largest of all elements, or of each row.
bool both_extremes(const AtenCall& call, std::string_view) {
  const auto self = call.value("self");
  if (!self || call.results() != 2) return false;
  if (!call.op("min", {call.tensor(*self)}, reduced_axes(call))) return false;
  const auto made =
      call.graph().op("max", {call.tensor(*self)}, reduced_axes(call), ModelType(call.type(1)));
  if (made) call.set(1, *made);
  return made.has_value();
}

// Of a sample, where there is a correction, or of the whole population.
bool variance(const AtenCall& call, std::string_view row) {
  const double correction =
      call.number("correction").value_or(call.truth("unbiased", true) ? 1 : 0);
  if (correction == 0) return reduce(call, row);
  const auto self = call.value("self");
  Attributes attributes = reduced_axes(call);
  attributes.push_back({.name = "correction", .value = correction});
  return self && call.op(row, {call.tensor(*self)}, attributes);
}

// The mean is a second result.
bool variance_and_mean(const AtenCall& call, std::string_view row) {
  const auto self = call.value("self");
  if (!self || call.results() != 2 || !variance(call, row)) return false;
  const auto mean =
      call.graph().op("mean", {call.tensor(*self)}, reduced_axes(call), ModelType(call.type(1)));
  if (mean) call.set(1, *mean);
  return mean.has_value();
}

using Step = AtenCall::Step;

// The sum of the products of both, each divided by its norm.
bool cosine_similarity(const AtenCall& call, std::string_view) {
  const Attributes axis = {listed("axes", {WrittenDim(call.whole("dim", 1))})};
  Attributes kept = axis;
  kept.push_back({.name = "keepdim", .value = true});
  const WrittenAttribute least{.name = "min", .value = call.number("eps").value_or(1e-8)};
  std::vector<Step> units;
  std::size_t rank = 0;
  for (const std::string_view name : {"x1", "x2"}) {
    const auto value = call.value(name);
    if (!value) return false;
    const std::size_t own = call.at(*value).type.shape().size();
    if (rank != 0 && own != rank) return false;
    rank = own;
    const Step x = call.tensor(*value);
    units.push_back(
        call.step("div", {x, call.step("clamp", {call.step("l2_norm", {x}, kept)}, {least})}));
  }
  return call.last_step("sum", {call.step("mul", units)}, axis);
}

// v times g over the norm of v, along all axes but one, or (-1) along all.
bool weight_norm(const AtenCall& call, std::string_view) {
  const auto v = call.value("v");
  const auto g = call.value("g");
  if (!v || !g) return false;
  const auto rank = static_cast<std::int64_t>(call.at(*v).type.shape().size());
  const std::int64_t kept = call.whole("dim", 0);
  Attributes attributes;
  if (kept != -1) {
    std::vector<std::int64_t> axes;
    for (std::int64_t axis = 0; axis < rank; ++axis) {
      if (axis != kept) axes.push_back(axis);
    }
    if (axes.empty() || axes.size() == static_cast<std::size_t>(rank)) return false;
    attributes = {listed("axes", axes), {.name = "keepdim", .value = true}};
  }
  const Step norm = call.step("l2_norm", {call.tensor(*v)}, attributes);
  const Step factor = call.step("div", {call.tensor(*g), norm});
  if (!call.last_step("mul", {call.tensor(*v), factor})) return false;
  if (call.results() == 2) call.set(1, std::get<ModelGraph::TensorId>(*norm));
  return true;
}

bool softmax(const AtenCall& call, std::string_view row) {
  const auto self = call.value("self");
  if (!self) return false;
  return call.op(row, {call.tensor(*self)}, {listed("axes", {WrittenDim(call.whole("dim", -1))})});
}

WrittenAttribute epsilon(const AtenCall& call, double otherwise) {
  return {.name = "eps", .value = call.number("eps").value_or(otherwise)};
}

// The inputs that are given, in order; nothing if one is given after one that is not.
std::optional<Inputs> leading_tensors(const AtenCall& call,
                                      std::span<const std::string_view> names) {
  Inputs inputs;
  bool ended = false;
  for (const std::string_view name : names) {
    const auto value = call.value(name);
    if (!value) {
      ended = true;
    } else if (ended) {
      return std::nullopt;
    } else {
      inputs.emplace_back(call.tensor(*value));
    }
  }
  return inputs;
}

// How many of the results are used: all up to the last one that is.
std::size_t used_results(const AtenCall& call) {
  std::size_t count = 1;
  for (std::size_t i = 1; i < call.results(); ++i) {
    if (call.used(i)) count = i + 1;
  }
  return count;
}

bool row_norm(const AtenCall& call, std::string_view row) {
  static constexpr std::array<std::string_view, 3> kNames = {"input", "weight", "bias"};
  const auto inputs = leading_tensors(call, kNames);
  if (!inputs || inputs->empty()) return false;
  Attributes attributes = {epsilon(call, 1e-5)};
  const auto axes = static_cast<std::int64_t>(call.wholes("normalized_shape").size());
  if (axes == 0) return false;
  if (inputs->size() == 1 || axes > 1) {
    std::vector<std::int64_t> last;
    for (std::int64_t i = axes; i > 0; --i) last.push_back(-i);
    attributes.push_back(listed("axes", last));
  }
  return call.op(row, *inputs, attributes, used_results(call));
}

bool group_norm(const AtenCall& call, std::string_view row) {
  static constexpr std::array<std::string_view, 3> kNames = {"input", "weight", "bias"};
  const auto inputs = leading_tensors(call, kNames);
  if (!inputs || inputs->empty()) return false;
  const std::int64_t groups = call.whole("num_groups", call.whole("group", 1));
  return call.op(row, *inputs, {{.name = "groups", .value = groups}, epsilon(call, 1e-5)},
                 used_results(call));
}

// A number for each channel of x.
ModelType of_channels(const ModelType& x, DType dtype) {
  return {.type = {{x.shape()[1]}, dtype}, .extents = {x.extents[1]}};
}

// x, weight and bias; ones and zeros where there is none.
std::optional<Inputs> channel_inputs(const AtenCall& call) {
  const auto x = call.value("input");
  if (!x || call.at(*x).type.shape().size() < 2) return std::nullopt;
  Inputs inputs = {call.tensor(*x)};
  for (const auto& [name, otherwise] : {std::pair{"weight", 1.0}, std::pair{"bias", 0.0}}) {
    const auto value = call.value(name);
    const ModelType type = call.at(*x).type;
    const auto input = value ? call.tensor(*value)
                             : filled(call.graph(), of_channels(type, type.dtype()), otherwise);
    if (!input) return std::nullopt;
    inputs.emplace_back(*input);
  }
  return inputs;
}

using Attribute = WrittenAttribute;
Attribute training() { return {.name = "mode", .value = std::string("training")}; }

Attribute batch_epsilon(const AtenCall& call) {
  return {.name = "eps",
          .value = call.number("epsilon").value_or(call.number("eps").value_or(1e-5))};
}

// With running statistics: y, mean, 1 / deviation, and what the running ones become. These are the
// last two results of a functional op; any other overwrites them.
bool trained_batch_norm(const AtenCall& call, Inputs inputs, ValueId mean, ValueId variance) {
  const std::size_t results = call.results();
  const bool functional = op_of(call.node().target).ends_with("_functional");
  if (functional && results != 5 && results != 6) return false;
  inputs.emplace_back(call.tensor(mean));
  inputs.emplace_back(call.tensor(variance));
  const ModelType saved =
      of_channels(call.type(), call.type().dtype() == DType::kF64 ? DType::kF64 : DType::kF32);
  const std::array<ModelType, 5> types = {call.type(0), results > 2 ? call.type(1) : saved,
                                          results > 2 ? call.type(2) : saved,
                                          call.copy_of(mean).type, call.copy_of(variance).type};
  const double momentum =
      call.number("exponential_average_factor").value_or(call.number("momentum").value_or(0.1));
  const auto made = call.graph().op(
      "batch_norm", std::move(inputs),
      {training(), batch_epsilon(call), {.name = "momentum", .value = momentum}}, types);
  if (!made) return false;
  for (std::size_t i = 0; i < std::min<std::size_t>(results, 3); ++i) call.set(i, (*made)[i]);
  // Between these and the running ones some have a scratch tensor for other libraries.
  if (results == 4 || results == 6) call.set_number(3, 0);
  if (functional) {
    for (std::size_t i = 0; i < 2; ++i) call.set(results - 2 + i, (*made)[3 + i]);
  } else {
    call.overwrite(mean, (*made)[3]);
    call.overwrite(variance, (*made)[4]);
  }
  return true;
}

// Without running statistics: y, mean and, where it is used, 1 / deviation.
bool own_batch_norm(const AtenCall& call, const Inputs& inputs) {
  const Attribute epsilon = batch_epsilon(call);
  if (used_results(call) == 1) return call.op("batch_norm", inputs, {training(), epsilon});
  const std::array<ModelType, 3> types = {call.type(0), call.type(1), call.type(2)};
  const auto made = call.graph().op("batch_norm", inputs, {training(), epsilon}, types);
  if (!made) return false;
  const auto sum =
      call.graph().op("add", {(*made)[2], std::get<double>(epsilon.value)}, {}, call.type(2));
  const auto inverse = sum ? call.graph().op("rsqrt", {*sum}, {}, call.type(2)) : std::nullopt;
  if (!inverse) return false;
  call.set(0, (*made)[0]);
  call.set(1, (*made)[1]);
  call.set(2, *inverse);
  if (call.results() == 4) call.set_number(3, 0);
  return true;
}

// `how` says of an op whether it trains, where no argument does.
bool batch_norm(const AtenCall& call, std::string_view how) {
  const auto inputs = channel_inputs(call);
  const auto mean = call.value("running_mean");
  const auto variance = call.value("running_var");
  if (!inputs || mean.has_value() != variance.has_value()) return false;
  if (call.truth("training", how == "training")) {
    return mean ? trained_batch_norm(call, *inputs, *mean, *variance)
                : own_batch_norm(call, *inputs);
  }
  if (!mean || used_results(call) != 1) return false;
  Inputs all = *inputs;
  all.emplace_back(call.tensor(*mean));
  all.emplace_back(call.tensor(*variance));
  return call.op("batch_norm", all, {batch_epsilon(call)});
}

// Each channel is a group of its own; by running statistics it is a batch norm.
bool instance_norm(const AtenCall& call, std::string_view) {
  if (call.given("running_mean") && !call.truth("use_input_stats", true)) {
    return batch_norm(call, {});
  }
  static constexpr std::array<std::string_view, 3> kNames = {"input", "weight", "bias"};
  const auto inputs = leading_tensors(call, kNames);
  if (!inputs || inputs->empty() || call.given("running_mean") || call.type().shape().size() < 2 ||
      !call.truth("use_input_stats", true)) {
    return false;
  }
  const auto groups = static_cast<std::int64_t>(call.type().shape()[1]);
  return call.op("group_norm", *inputs, {{.name = "groups", .value = groups}, epsilon(call, 1e-5)});
}

constexpr std::array kRowRules = {
    AtenRule{"sum", reduce, "sum"},
    AtenRule{"mean", reduce, "mean"},
    AtenRule{"amax", reduce, "max"},
    AtenRule{"amin", reduce, "min"},
    AtenRule{"max", extreme, "max"},
    AtenRule{"min", extreme, "min"},
    AtenRule{"aminmax", both_extremes},
    AtenRule{"argmax", reduce, "argmax"},
    AtenRule{"argmin", reduce, "argmin"},
    AtenRule{"any", reduce, "any"},
    AtenRule{"all", reduce, "all"},
    AtenRule{"prod", reduce, "prod"},
    AtenRule{"logsumexp", reduce, "logsumexp"},
    AtenRule{"var", variance, "var"},
    AtenRule{"std", variance, "std"},
    AtenRule{"var_mean", variance_and_mean, "var"},
    AtenRule{"std_mean", variance_and_mean, "std"},
    AtenRule{"cosine_similarity", cosine_similarity},
    AtenRule{"_weight_norm", weight_norm},
    AtenRule{"_weight_norm_interface", weight_norm},
    AtenRule{"softmax", softmax, "softmax"},
    AtenRule{"_softmax", softmax, "softmax"},
    AtenRule{"_safe_softmax", softmax, "softmax"},
    AtenRule{"log_softmax", softmax, "log_softmax"},
    AtenRule{"_log_softmax", softmax, "log_softmax"},
    AtenRule{"layer_norm", row_norm, "layer_norm"},
    AtenRule{"native_layer_norm", row_norm, "layer_norm"},
    AtenRule{"rms_norm", row_norm, "rms_norm"},
    AtenRule{"_fused_rms_norm", row_norm, "rms_norm"},
    AtenRule{"group_norm", group_norm, "group_norm"},
    AtenRule{"native_group_norm", group_norm, "group_norm"},
    AtenRule{"instance_norm", instance_norm},
    AtenRule{"batch_norm", batch_norm},
    AtenRule{"native_batch_norm", batch_norm},
    AtenRule{"cudnn_batch_norm", batch_norm},
    AtenRule{"_native_batch_norm_legit", batch_norm},
    AtenRule{"_native_batch_norm_legit_functional", batch_norm},
    AtenRule{"_native_batch_norm_legit_no_training", batch_norm},
    AtenRule{"_batch_norm_no_update", batch_norm},
    AtenRule{"_batch_norm_with_update", batch_norm, "training"},
    AtenRule{"_batch_norm_with_update_functional", batch_norm, "training"},
};

}  // namespace

std::span<const AtenRule> aten_row_rules() { return kRowRules; }

}  // namespace fusecalc
