// Operators whose results are computed element by element.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <utility>

#include "input/onnx/rules.hpp"
#include "input/onnx/shapes.hpp"

namespace fusecalc {
namespace {

using Operand = OnnxImporter::Operand;

struct SameOp {
  std::string_view onnx;
  std::string_view op;
  bool has_type_of_first = false;  // the result, where the row has floats, or the wider type
};
// Operators that one op computes from the same inputs.
constexpr std::array kSameOps = {
    SameOp{"Sub", "sub"},
    SameOp{"Mul", "mul"},
    SameOp{"Pow", "pow", true},
    SameOp{"Neg", "neg"},
    SameOp{"Abs", "abs"},
    SameOp{"Exp", "exp"},
    SameOp{"Log", "log"},
    SameOp{"Sqrt", "sqrt"},
    SameOp{"Reciprocal", "reciprocal"},
    SameOp{"Sin", "sin"},
    SameOp{"Cos", "cos"},
    SameOp{"Tan", "tan"},
    SameOp{"Asin", "asin"},
    SameOp{"Acos", "acos"},
    SameOp{"Atan", "atan"},
    SameOp{"Sinh", "sinh"},
    SameOp{"Cosh", "cosh"},
    SameOp{"Asinh", "asinh"},
    SameOp{"Acosh", "acosh"},
    SameOp{"Atanh", "atanh"},
    SameOp{"Tanh", "tanh"},
    SameOp{"Sigmoid", "sigmoid"},
    SameOp{"Relu", "relu"},
    SameOp{"Erf", "erf", true},
    SameOp{"Floor", "floor"},
    SameOp{"Ceil", "ceil"},
    SameOp{"Round", "round"},
    SameOp{"Sign", "sign"},
    SameOp{"IsNaN", "isnan"},
    SameOp{"IsInf", "isinf"},
    SameOp{"Not", "logical_not"},
    SameOp{"And", "logical_and"},
    SameOp{"Or", "logical_or"},
    SameOp{"Xor", "logical_xor"},
    SameOp{"BitwiseAnd", "bitwise_and"},
    SameOp{"BitwiseOr", "bitwise_or"},
    SameOp{"BitwiseXor", "bitwise_xor"},
    SameOp{"BitwiseNot", "bitwise_not"},
    SameOp{"Equal", "eq"},
    SameOp{"Less", "lt"},
    SameOp{"LessOrEqual", "le"},
    SameOp{"Greater", "gt"},
    SameOp{"GreaterOrEqual", "ge"},
    SameOp{"Where", "where"},
    SameOp{"PRelu", "prelu", true},
    SameOp{"Selu", "selu"},
    SameOp{"HardSwish", "hardswish"},
    SameOp{"Mish", "mish"},
    SameOp{"Softplus", "softplus"},
    SameOp{"Swish", "silu"},
};

// A known number is written inline, unless only its own axes give the result its rank. One that is
// infinite is as good as the largest where it is chosen, as by masks, but not in arithmetic.
Operand operand(const OnnxImporter& in, const OnnxNode& node, std::size_t i) {
  const OnnxKnown* value = in.input(node, i);
  const Constant* constant = value->constant.get();
  if (constant == nullptr || constant->elements.size() != 1) return value;
  const double number = constant->elements[0];
  if (!std::isfinite(number) && (node.type != "Where" || std::isnan(number))) return value;
  for (std::size_t other = 0; other < node.inputs.size(); ++other) {
    const OnnxKnown* with = in.input(node, other);
    if (with != nullptr && !with->constant &&
        with->type.shape.size() >= constant->type.shape.size()) {
      return number;
    }
  }
  return value;
}

std::vector<Operand> operands(const OnnxImporter& in, const OnnxNode& node) {
  std::vector<Operand> result;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (in.input(node, i) == nullptr) return {};
    result.push_back(operand(in, node, i));
  }
  return result;
}

// The shape that the inputs broadcast to; refuses those that do not.
Shape broadcast_shape(const OnnxImporter& in, const OnnxNode& node) {
  Shape shape = in.input(node, 0)->type.shape;
  for (std::size_t i = 1; i < node.inputs.size(); ++i) {
    const OnnxKnown* value = in.input(node, i);
    if (value == nullptr) continue;
    const auto both = broadcast(shape, value->type.shape);
    if (!both) {
      in.fail(node, fmt::format("its inputs of shapes {} and {} do not broadcast", to_string(shape),
                                to_string(value->type.shape)));
    }
    shape = *both;
  }
  return shape;
}

// The result's type where no row computes the operator yet.
std::vector<TensorType> broadcast_type(const OnnxImporter& in, const OnnxNode& node) {
  const Shape shape = broadcast_shape(in, node);
  if (const auto stated = in.stated(node, 0)) return {*stated};
  return {{shape, in.input(node, 0)->type.dtype}};
}

// A bias after a product with a matrix makes both one linear.
bool biased_linear(OnnxImporter& in, const OnnxNode& node) {
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
    const OnnxKnown* product = in.input(node, i);
    const OnnxKnown* bias = in.input(node, 1 - i);
    if (product == nullptr || bias == nullptr || bias->type.shape.size() != 1) continue;
    if (in.write_biased(node, *product, *bias)) return true;
  }
  return false;
}

bool element_by_element(OnnxImporter& in, const OnnxNode& node, std::string_view op) {
  if (in.write(node, op, operands(in, node))) return true;
  return in.write_custom(node, OpClass::kPointwise, 0, broadcast_type(in, node));
}

bool same_op(OnnxImporter& in, const OnnxNode& node) {
  const auto* found = std::ranges::find(kSameOps, node.type, &SameOp::onnx);
  const std::vector<Operand> inputs = operands(in, node);
  // Numbers have no type of their own.
  const bool of_numbers = node.type == "Where" && inputs.size() == 3 &&
                          std::holds_alternative<double>(inputs[1]) &&
                          std::holds_alternative<double>(inputs[2]);
  if (of_numbers && in.write_as(node, found->op, inputs, {in.input(node, 1)->type.dtype})) {
    return true;
  }
  if (found->has_type_of_first &&
      in.write_as(node, found->op, inputs, {in.input(node, 0)->type.dtype})) {
    return true;
  }
  return element_by_element(in, node, found->op);
}

bool add(OnnxImporter& in, const OnnxNode& node) {
  return biased_linear(in, node) || element_by_element(in, node, "add");
}

// Quotients of whole numbers are whole. ONNX rounds those below 0 up, for which there is no row.
bool divide(OnnxImporter& in, const OnnxNode& node) {
  const OnnxKnown* x = in.input(node, 0);
  return element_by_element(in, node,
                            x == nullptr || is_float(x->type.dtype) ? "div" : "floor_divide");
}

bool clip(OnnxImporter& in, const OnnxNode& node) {
  OnnxImporter::Written attributes;
  for (const std::size_t i : {std::size_t{1}, std::size_t{2}}) {
    if (in.input(node, i) == nullptr) continue;
    const Constant* bound = in.constant(node, i);
    if (bound == nullptr || bound->elements.size() != 1) return false;
    if (!std::isfinite(bound->elements[0])) continue;
    attributes.push_back({i == 1 ? "min" : "max", bound->elements[0]});
  }
  return in.write(node, "clamp", {in.input(node, 0)}, attributes);
}

bool cast_to(OnnxImporter& in, const OnnxNode& node, DType dtype) {
  const OnnxKnown* x = in.input(node, 0);
  if (x->type.dtype == dtype) {
    in.alias(node, *x);
    return true;
  }
  return in.write(node, "cast", {x}, {{"to", std::string(name_of(dtype))}});
}

bool cast(OnnxImporter& in, const OnnxNode& node) {
  const auto dtype = dtype_of_onnx(static_cast<std::uint64_t>(whole_attribute(node, "to", 0)));
  return dtype && cast_to(in, node, *dtype);
}

bool cast_like(OnnxImporter& in, const OnnxNode& node) {
  return in.input(node, 1) != nullptr && cast_to(in, node, in.input(node, 1)->type.dtype);
}

// Inputs, two at a time; nothing where the op refuses them, or there is one alone.
std::optional<OnnxKnown> combined(OnnxImporter& in, std::string_view op,
                                  std::span<const Operand> inputs) {
  std::optional<OnnxKnown> partial;
  for (std::size_t i = 1; i < inputs.size(); ++i) {
    auto next = in.write_step(op, {partial ? Operand{&*partial} : inputs[0], inputs[i]});
    if (!next) return std::nullopt;
    partial = std::move(next);
  }
  return partial;
}

// Any number of inputs.
bool folded_pairwise(OnnxImporter& in, const OnnxNode& node, std::string_view op) {
  const std::vector<Operand> inputs = operands(in, node);
  if (inputs.empty()) return false;
  (void)broadcast_shape(in, node);
  if (inputs.size() == 1) {
    in.alias(node, *in.input(node, 0));
    return true;
  }
  if (inputs.size() == 2) return in.write(node, op, inputs);
  const auto partial = combined(in, op, std::span(inputs).first(inputs.size() - 1));
  return partial && in.write(node, op, {&*partial, inputs.back()});
}

bool mean(OnnxImporter& in, const OnnxNode& node) {
  const std::vector<Operand> inputs = operands(in, node);
  if (inputs.size() < 2) return folded_pairwise(in, node, "add");
  (void)broadcast_shape(in, node);
  const auto total = combined(in, "add", inputs);
  return total && in.write(node, "div", {&*total, static_cast<double>(inputs.size())});
}

bool largest(OnnxImporter& in, const OnnxNode& node) {
  return folded_pairwise(in, node, "maximum");
}
bool smallest(OnnxImporter& in, const OnnxNode& node) {
  return folded_pairwise(in, node, "minimum");
}
bool sum(OnnxImporter& in, const OnnxNode& node) { return folded_pairwise(in, node, "add"); }

bool modulo(OnnxImporter& in, const OnnxNode& node) {
  const bool truncated = whole_attribute(node, "fmod", 0) != 0;
  if (in.write(node, truncated ? "fmod" : "remainder", operands(in, node))) return true;
  return in.write_custom(node, OpClass::kPointwise, 0, broadcast_type(in, node));
}

bool shift(OnnxImporter& in, const OnnxNode& node) {
  const OnnxAttribute* direction = node.find("direction");
  if (direction == nullptr) return false;
  const bool right = direction->text == "RIGHT";
  return element_by_element(in, node, right ? "bitwise_right_shift" : "bitwise_left_shift");
}

// Without training, a dropout passes its input on; a mask that is asked for is opaque.
bool dropout(OnnxImporter& in, const OnnxNode& node) {
  const TensorType& type = in.input(node, 0)->type;
  const Constant* training = in.constant(node, 2);
  const std::size_t outputs = OnnxImporter::output_count(node);
  if (training != nullptr && training->elements.size() == 1 && training->elements[0] != 0) {
    const Constant* ratio = in.constant(node, 1);
    const double p = ratio != nullptr && !ratio->elements.empty() ? ratio->elements[0] : 0.5;
    return in.write(node, "dropout", {in.input(node, 0)}, {{"p", p}, {"save_mask", outputs > 1}},
                    outputs);
  }
  if (outputs > 1) {
    return in.write_custom(node, OpClass::kOpaque, 0, {type, {type.shape, DType::kBool}});
  }
  in.alias(node, *in.input(node, 0));
  return true;
}

bool identity(OnnxImporter& in, const OnnxNode& node) {
  in.alias(node, *in.input(node, 0));
  return true;
}

constexpr std::array kOwnRules = {
    OnnxRuleRow{"Add", add},
    OnnxRuleRow{"Div", divide},
    OnnxRuleRow{"Clip", clip},
    OnnxRuleRow{"Cast", cast},
    OnnxRuleRow{"CastLike", cast_like},
    OnnxRuleRow{"Max", largest},
    OnnxRuleRow{"Min", smallest},
    OnnxRuleRow{"Sum", sum},
    OnnxRuleRow{"Mean", mean},
    OnnxRuleRow{"Mod", modulo},
    OnnxRuleRow{"BitShift", shift},
    OnnxRuleRow{"Dropout", dropout},
    OnnxRuleRow{"Identity", identity},
};

constexpr auto kPointwiseRules = rows_of(kSameOps, same_op, kOwnRules);

}  // namespace

std::span<const OnnxRuleRow> onnx_pointwise_rules() { return kPointwiseRules; }

}  // namespace fusecalc
