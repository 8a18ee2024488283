// Pointwise ATen ops that are not called like their rows, or have arguments of their own.

#include <algorithm>
#include <array>
#include <cmath>

#include "input/arithmetic.hpp"
#include "input/pt2/aten.hpp"

namespace fusecalc {
namespace {

using Inputs = std::vector<ModelGraph::Input>;
using Step = AtenCall::Step;

// What the op reads, in the order of its arguments; nothing if an argument is neither a tensor nor
// a number.
std::optional<Inputs> operands(const AtenCall& call, std::span<const std::string_view> names) {
  Inputs inputs;
  for (const std::string_view name : names) {
    if (const auto value = call.value(name)) {
      inputs.push_back(call.operand(*value));
    } else if (const auto number = call.number(name)) {
      inputs.emplace_back(*number);
    } else {
      return std::nullopt;
    }
  }
  return inputs;
}

// Of numbers alone, the result is a number.
bool is_number(const AtenCall& call, std::string_view row, const Inputs& inputs) {
  std::vector<double> numbers;
  for (const ModelGraph::Input& input : inputs) {
    const double* number = std::get_if<double>(&input);
    if (number == nullptr) return false;
    numbers.push_back(*number);
  }
  const double result = computed(*op_named(row), numbers, call.type().dtype());
  if (std::isnan(result)) return false;
  call.set_number(0, result);
  call.graph().fold_node();
  return true;
}

// Adds the row; first as the op reads best, then with every tensor in full, where a result has a
// shape that none of the operands shows. Numbers stay numbers.
bool add(const AtenCall& call, std::string_view row, Inputs inputs,
         std::span<const std::string_view> names, std::vector<WrittenAttribute> attributes = {}) {
  if (attributes.empty() && is_number(call, row, inputs)) return true;
  if (call.op(row, inputs, attributes)) return true;
  bool numbers = false;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto value = call.value(names[i]);
    if (!value) continue;
    numbers = numbers || call.at(*value).number;
    if (!call.at(*value).number) inputs[i] = call.tensor(*value);
  }
  if (!numbers) return call.op(row, std::move(inputs), std::move(attributes));
  if (call.op(row, inputs, attributes)) return true;
  // Only a number has the whole shape: the first tensor is spread to it.
  for (ModelGraph::Input& input : inputs) {
    const auto* tensor = std::get_if<ModelGraph::TensorId>(&input);
    if (tensor == nullptr) continue;
    ModelType whole = call.type();
    whole.type.dtype = call.graph().type(*tensor).dtype();
    const std::vector<WrittenAttribute> shape = {listed("shape", whole.extents)};
    auto spread = call.graph().op("expand_view", {*tensor}, shape, whole);
    if (!spread) spread = call.graph().op("broadcast_to", {*tensor}, shape, whole);
    if (!spread) return false;
    input = *spread;
    return call.op(row, std::move(inputs), std::move(attributes));
  }
  return false;
}

bool unary(const AtenCall& call, std::string_view row) {
  static constexpr std::array<std::string_view, 1> kNames = {"self"};
  const auto inputs = operands(call, kNames);
  return inputs && add(call, row, *inputs, kNames);
}

bool binary(const AtenCall& call, std::string_view row) {
  static constexpr std::array<std::string_view, 2> kNames = {"self", "other"};
  const auto inputs = operands(call, kNames);
  return inputs && add(call, row, *inputs, kNames);
}

// add, sub and rsub may scale their second operand.
bool sum(const AtenCall& call, std::string_view row) {
  static constexpr std::array<std::string_view, 2> kNames = {"self", "other"};
  const auto inputs = operands(call, kNames);
  if (!inputs) return false;
  const double alpha = call.number("alpha").value_or(1);
  if (alpha == 1) return add(call, row, *inputs, kNames);
  const double scale = row == "sub" ? -alpha : alpha;
  return call.op("fma", {(*inputs)[1], scale, (*inputs)[0]});
}

bool rsub(const AtenCall& call, std::string_view) {
  static constexpr std::array<std::string_view, 2> kNames = {"other", "self"};
  const auto inputs = operands(call, kNames);
  return inputs && call.number("alpha").value_or(1) == 1 && add(call, "sub", *inputs, kNames);
}

bool div(const AtenCall& call, std::string_view) {
  const std::string rounding = call.text("rounding_mode");
  if (rounding == "floor") return binary(call, "floor_divide");
  return rounding.empty() && binary(call, "div");
}

// Attributes that the call gives under the same names.
template <std::size_t n>
std::vector<WrittenAttribute> given(const AtenCall& call,
                                    const std::array<std::string_view, n>& names) {
  std::vector<WrittenAttribute> attributes;
  for (const std::string_view name : names) {
    const auto value = call.number(name);
    if (value) attributes.push_back({.name = std::string(name), .value = *value});
  }
  return attributes;
}

// Activations with a parameter.
bool activation(const AtenCall& call, std::string_view row) {
  static constexpr std::array<std::string_view, 4> kParameters = {"alpha", "beta", "threshold",
                                                                  "negative_slope"};
  const auto self = call.value("self");
  if (!self || call.number("scale").value_or(1) != 1) return false;
  return call.op(row, {call.tensor(*self)}, given(call, kParameters));
}

// alpha elu(x / alpha), which is what elu by its input's scale is, too.
bool celu(const AtenCall& call) {
  const auto self = call.value("self");
  const double alpha = call.number("alpha").value_or(1);
  if (!self || alpha <= 0) return false;
  if (alpha == 1) return call.op("elu", {call.tensor(*self)});
  const Step scaled = call.step("mul", {call.tensor(*self), 1 / alpha});
  return call.last_step("mul", {call.step("elu", {scaled}), alpha});
}

bool elu(const AtenCall& call, std::string_view row) {
  const double of_input = call.number("input_scale").value_or(1);
  if (row == "elu" && of_input == 1) return activation(call, row);
  const double alpha = call.number("alpha").value_or(1);
  const bool inverse = std::abs(of_input * alpha - 1) < 1e-6;
  return (row == "celu" || inverse) && call.number("scale").value_or(1) == 1 && celu(call);
}

// The buffer that some devices want is empty.
bool log_sigmoid(const AtenCall& call, std::string_view) {
  const auto self = call.value("self");
  if (!self || (call.results() == 2 && call.used(1))) return false;
  if (!call.op("softplus", {call.tensor(*self)}, log_sigmoid_attributes())) return false;
  if (call.results() == 2) call.set_number(1, 0);
  return true;
}

// x where it exceeds a number, else another number.
bool threshold(const AtenCall& call, std::string_view) {
  const auto self = call.value("self");
  const auto least = call.number("threshold");
  const auto value = call.number("value");
  if (!self || !least || !value) return false;
  const Step x = call.tensor(*self);
  return call.last_step("where", {call.step("gt", {x, *least}), x, *value});
}

// Numbers in place of NaN and of the infinities.
bool nan_to_num(const AtenCall& call, std::string_view) {
  const auto self = call.value("self");
  if (!self) return false;
  std::vector<WrittenAttribute> attributes;
  for (const auto& [argument, attribute] :
       {std::pair{"nan", "value"}, std::pair{"neginf", "min"}, std::pair{"posinf", "max"}}) {
    const auto number = call.number(argument);
    if (number) attributes.push_back({.name = attribute, .value = *number});
  }
  return call.op("nan_to_num", {call.tensor(*self)}, attributes);
}

// Slopes of a vector belong to the second axis of self.
bool prelu(const AtenCall& call, std::string_view) {
  static constexpr std::array<std::string_view, 2> kNames = {"self", "weight"};
  auto inputs = operands(call, kNames);
  const auto weight = call.value("weight");
  if (!inputs || !weight) return false;
  const ProgramValue slopes = call.copy_of(*weight);
  const std::size_t rank = call.type().shape().size();
  if (!slopes.number && slopes.type.shape().size() == 1 && rank > 2) {
    ModelType columns = slopes.type;
    columns.type.shape.resize(rank - 1, 1);
    columns.extents.resize(rank - 1, std::int64_t{1});
    const auto shown = reshaped(call.graph(), call.tensor(*weight), columns);
    if (!shown) return false;
    (*inputs)[1] = *shown;
  }
  return call.op("prelu", std::move(*inputs));
}

bool power(const AtenCall& call, std::string_view) {
  static constexpr std::array<std::string_view, 2> kNames = {"self", "exponent"};
  const auto inputs = operands(call, kNames);
  if (!inputs) return false;
  const auto exponent = call.number("exponent");
  if (exponent == 2 && add(call, "square", {(*inputs)[0]}, {kNames.data(), 1})) return true;
  return add(call, "pow", *inputs, kNames);
}

// A known condition selects one of the two, which may have to become as large as the result.
bool chosen(const AtenCall& call, std::string_view name) {
  const auto value = call.value(name);
  const auto number = value ? call.at(*value).number : call.number(name);
  if (number) return call.set_number(0, *number), true;
  if (!value || call.at(*value).type.dtype() != call.type().dtype()) return false;
  if (call.at(*value).type.shape() == call.type().shape()) return call.equal(0, *value), true;
  return call.op("broadcast_to", {call.operand(*value)}, {listed("shape", call.type().extents)});
}

bool where(const AtenCall& call, std::string_view) {
  const auto condition = call.value("condition");
  if (condition && call.at(*condition).number) {
    return chosen(call, *call.at(*condition).number != 0 ? "self" : "other");
  }
  static constexpr std::array<std::string_view, 3> kNames = {"condition", "self", "other"};
  const auto inputs = operands(call, kNames);
  return inputs && add(call, "where", *inputs, kNames);
}

bool masked_fill(const AtenCall& call, std::string_view) {
  const auto mask = call.value("mask");
  if (mask && call.at(*mask).number) {
    return chosen(call, *call.at(*mask).number != 0 ? "value" : "self");
  }
  static constexpr std::array<std::string_view, 3> kNames = {"mask", "value", "self"};
  const auto inputs = operands(call, kNames);
  return inputs && add(call, "where", *inputs, kNames);
}

bool gelu(const AtenCall& call, std::string_view) {
  const auto self = call.value("self");
  if (!self) return false;
  std::vector<WrittenAttribute> attributes;
  const std::string approximate = call.text("approximate");
  if (!approximate.empty()) attributes.push_back({.name = "approximate", .value = approximate});
  return call.op("gelu", {call.tensor(*self)}, attributes);
}

bool clamp_between(const AtenCall& call, std::optional<double> min, std::optional<double> max) {
  const auto self = call.value("self");
  if (!self || (!min && !max)) return false;
  std::vector<WrittenAttribute> attributes;
  if (min) attributes.push_back({.name = "min", .value = *min});
  if (max) attributes.push_back({.name = "max", .value = *max});
  return call.op("clamp", {call.tensor(*self)}, attributes);
}

// Bounds are numbers, or tensors.
bool clamp(const AtenCall& call, std::string_view) {
  static constexpr std::array<std::string_view, 3> kNames = {"self", "min", "max"};
  const bool lower = call.given("min");
  const bool upper = call.given("max");
  if (call.value("min") || call.value("max")) {
    const std::array<std::string_view, 2> names = {"self", lower ? "min" : "max"};
    const auto inputs = lower && upper ? operands(call, kNames) : operands(call, names);
    if (!inputs) return false;
    if (lower && upper) return add(call, "clamp", *inputs, kNames);
    return add(call, lower ? "maximum" : "minimum", *inputs, names);
  }
  return clamp_between(call, call.number("min"), call.number("max"));
}

bool hardtanh(const AtenCall& call, std::string_view) {
  return clamp_between(call, call.number("min_val").value_or(-1),
                       call.number("max_val").value_or(1));
}

bool relu6(const AtenCall& call, std::string_view) { return clamp_between(call, 0, 6); }

// self + value * a * b, or a / b
bool scaled_sum(const AtenCall& call, std::string_view row) {
  static constexpr std::array<std::string_view, 3> kNames = {"self", "tensor1", "tensor2"};
  auto inputs = operands(call, kNames);
  if (!inputs) return false;
  inputs->emplace_back(call.number("value").value_or(1));
  return add(call, row, *inputs, kNames);
}

bool lerp(const AtenCall& call, std::string_view) {
  static constexpr std::array<std::string_view, 3> kNames = {"self", "end", "weight"};
  const auto inputs = operands(call, kNames);
  return inputs && add(call, "lerp", *inputs, kNames);
}

// The source in the target's shape and type.
bool copy_from(const AtenCall& call, std::string_view) {
  const auto source = call.value("src");
  if (!source) return false;
  const ProgramValue value = call.copy_of(*source);
  if (value.number) return call.set_number(0, *value.number), true;
  const ModelType& type = call.type();
  if (value.type.shape() != type.shape()) {
    return value.type.dtype() == type.dtype() &&
           call.op("broadcast_to", {call.operand(*source)}, {listed("shape", type.extents)});
  }
  if (value.type.dtype() == type.dtype()) return call.equal(0, *source), true;
  return call.op("cast", {call.tensor(*source)},
                 {{.name = "to", .value = std::string(name_of(type.dtype()))}});
}

constexpr std::array kPointwiseRules = {
    AtenRule{"add", sum, "add"},
    AtenRule{"__add__", sum, "add"},
    AtenRule{"sub", sum, "sub"},
    AtenRule{"subtract", sum, "sub"},
    AtenRule{"rsub", rsub},
    AtenRule{"multiply", binary, "mul"},
    AtenRule{"div", div},
    AtenRule{"divide", div},
    AtenRule{"true_divide", binary, "div"},
    AtenRule{"pow", power},
    AtenRule{"square", unary, "square"},
    AtenRule{"less", binary, "lt"},
    AtenRule{"greater", binary, "gt"},
    AtenRule{"__and__", binary, "bitwise_and"},
    AtenRule{"__or__", binary, "bitwise_or"},
    AtenRule{"__xor__", binary, "bitwise_xor"},
    AtenRule{"__lshift__", binary, "bitwise_left_shift"},
    AtenRule{"__rshift__", binary, "bitwise_right_shift"},
    AtenRule{"softplus", activation, "softplus"},
    AtenRule{"leaky_relu", activation, "leaky_relu"},
    AtenRule{"elu", elu, "elu"},
    AtenRule{"celu", elu, "celu"},
    AtenRule{"log_sigmoid", log_sigmoid},
    AtenRule{"log_sigmoid_forward", log_sigmoid},
    AtenRule{"threshold", threshold},
    AtenRule{"special_xlogy", binary, "xlogy"},
    AtenRule{"nan_to_num", nan_to_num},
    AtenRule{"prelu", prelu},
    AtenRule{"_prelu_kernel", prelu},
    AtenRule{"where", where},
    AtenRule{"masked_fill", masked_fill},
    AtenRule{"gelu", gelu},
    AtenRule{"clamp", clamp},
    AtenRule{"clip", clamp},
    AtenRule{"clamp_min", clamp},
    AtenRule{"clamp_max", clamp},
    AtenRule{"hardtanh", hardtanh},
    AtenRule{"relu6", relu6},
    AtenRule{"addcmul", scaled_sum, "addcmul"},
    AtenRule{"addcdiv", scaled_sum, "addcdiv"},
    AtenRule{"lerp", lerp},
    AtenRule{"copy", copy_from},
};

}  // namespace

std::span<const AtenRule> aten_pointwise_rules() { return kPointwiseRules; }

bool pointwise_by_name(const AtenCall& call, std::string_view op) {
  const OpRow* row = op_named(op);
  if (row == nullptr || row->op_class != OpClass::kPointwise || row->attributes != 0) return false;
  if (row->max_inputs == 1) return unary(call, op);
  return row->max_inputs == 2 && binary(call, op);
}

std::vector<WrittenAttribute> log_sigmoid_attributes() { return {{.name = "beta", .value = -1.0}}; }

}  // namespace fusecalc
