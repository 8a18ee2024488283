// Activations, and other operators whose results have the shape of their input.

#include <algorithm>
#include <array>

#include "input/onnx/rules.hpp"
#include "input/onnx/shapes.hpp"

namespace fusecalc {
namespace {

// With numbers as attributes: {ONNX's attribute, its default, ours}.
struct Parameter {
  std::string_view onnx;
  double fallback;
  std::string_view ours;
};

bool with_parameters(OnnxImporter& in, const OnnxNode& node, std::string_view op,
                     std::initializer_list<Parameter> parameters) {
  OnnxImporter::Written attributes;
  for (const Parameter& parameter : parameters) {
    attributes.push_back(
        {std::string(parameter.ours), real_attribute(node, parameter.onnx, parameter.fallback)});
  }
  if (in.write(node, op, {in.input(node, 0)}, attributes)) return true;
  return in.write_custom(node, OpClass::kPointwise, 0, {in.input(node, 0)->type});
}

bool leaky_relu(OnnxImporter& in, const OnnxNode& node) {
  return with_parameters(in, node, "leaky_relu", {{"alpha", 0.01, "negative_slope"}});
}

bool elu(OnnxImporter& in, const OnnxNode& node) {
  return with_parameters(in, node, "elu", {{"alpha", 1.0, "alpha"}});
}

bool hard_sigmoid(OnnxImporter& in, const OnnxNode& node) {
  // x * alpha + beta, within 0 and 1.
  const auto scaled = in.write_step("fma", {in.input(node, 0), real_attribute(node, "alpha", 0.2),
                                            real_attribute(node, "beta", 0.5)});
  return scaled && in.write(node, "clamp", {&*scaled}, {{"min", 0.0}, {"max", 1.0}});
}

bool gelu(OnnxImporter& in, const OnnxNode& node) {
  const OnnxAttribute* approximate = node.find("approximate");
  const bool tanh = approximate != nullptr && approximate->text == "tanh";
  return in.write(node, "gelu", {in.input(node, 0)},
                  {{"approximate", std::string(tanh ? "tanh" : "none")}});
}

// alpha elu(x / alpha).
bool celu(OnnxImporter& in, const OnnxNode& node) {
  const double alpha = real_attribute(node, "alpha", 1);
  if (alpha == 1) return in.write(node, "elu", {in.input(node, 0)});
  const auto scaled = in.write_step("mul", {in.input(node, 0), 1 / alpha});
  const auto made = scaled ? in.write_step("elu", {&*scaled}) : std::nullopt;
  return made && in.write(node, "mul", {&*made, alpha});
}

// x / (1 + |x|)
bool softsign(OnnxImporter& in, const OnnxNode& node) {
  const auto size = in.write_step("abs", {in.input(node, 0)});
  const auto divisor = size ? in.write_step("add", {&*size, 1.0}) : std::nullopt;
  return divisor && in.write(node, "div", {in.input(node, 0), &*divisor});
}

// x where it exceeds alpha, else 0.
bool thresholded_relu(OnnxImporter& in, const OnnxNode& node) {
  const OnnxKnown* x = in.input(node, 0);
  const auto counts = in.write_step("gt", {x, real_attribute(node, "alpha", 1)});
  return counts && in.write(node, "where", {&*counts, x, 0.0});
}

// x, by the bias nearer to 0, where it is farther from 0 than lambd, else 0.
bool shrink(OnnxImporter& in, const OnnxNode& node) {
  const OnnxKnown* x = in.input(node, 0);
  const double bias = real_attribute(node, "bias", 0);
  const auto size = in.write_step("abs", {x});
  const auto counts =
      size ? in.write_step("gt", {&*size, real_attribute(node, "lambd", 0.5)}) : std::nullopt;
  if (!counts) return false;
  if (bias == 0) return in.write(node, "where", {&*counts, x, 0.0});
  const auto sign = in.write_step("sign", {x});
  const auto nearer = sign ? in.write_step("fma", {&*sign, -bias, x}) : std::nullopt;
  return nearer && in.write(node, "where", {&*counts, &*nearer, 0.0});
}

// x over the root of the sum of its squares, or over the sum of its magnitudes.
bool lp_norm(OnnxImporter& in, const OnnxNode& node) {
  const OnnxKnown* x = in.input(node, 0);
  const bool squares = whole_attribute(node, "p", 2) == 2;
  const auto each = in.write_step(squares ? "square" : "abs", {x});
  auto norm =
      each ? in.write_step("sum", {&*each},
                           {listed("axes", {whole_attribute(node, "axis", -1)}), {"keepdim", true}})
           : std::nullopt;
  if (norm && squares) norm = in.write_step("sqrt", {&*norm});
  return norm && in.write(node, "div", {x, &*norm});
}

// Row i has its 1 in column i + k.
bool eye(OnnxImporter& in, const OnnxNode& node) {
  const TensorType& like = in.input(node, 0)->type;
  if (like.shape.size() != 2) return false;
  const std::int64_t stated = whole_attribute(node, "dtype", 0);
  const auto dtype =
      stated == 0 ? std::optional(like.dtype) : dtype_of_onnx(static_cast<std::uint64_t>(stated));
  const auto rows = in.write_step("iota", {},
                                  {listed("shape", {static_cast<std::int64_t>(like.shape[0])}),
                                   {"first", static_cast<double>(whole_attribute(node, "k", 0))},
                                   {"to", std::string(name_of(DType::kI64))}});
  return rows && dtype &&
         in.write(node, "one_hot", {&*rows},
                  {{"classes", static_cast<std::int64_t>(like.shape[1])},
                   {"to", std::string(name_of(*dtype))}});
}

// What has no row: a custom op with the type of its input, or that which an attribute states.
struct SameType {
  std::string_view onnx;
  OpClass op_class;
  bool only_shape = false;  // it reads nothing of its input
};
constexpr std::array kSameTypes = {
    SameType{"Bernoulli", OpClass::kPointwise},
    SameType{"Hardmax", OpClass::kReduce},
    SameType{"LRN", OpClass::kReduce},
    SameType{"MeanVarianceNormalization", OpClass::kReduce},
    SameType{"RandomNormalLike", OpClass::kPointwise, true},
    SameType{"RandomUniformLike", OpClass::kPointwise, true},
    SameType{"ReverseSequence", OpClass::kMovement},
};

bool same_type(OnnxImporter& in, const OnnxNode& node) {
  const auto* row = std::ranges::find(kSameTypes, node.type, &SameType::onnx);
  TensorType type = in.input(node, 0)->type;
  if (const std::int64_t stated = whole_attribute(node, "dtype", 0); stated != 0) {
    const auto dtype = dtype_of_onnx(static_cast<std::uint64_t>(stated));
    if (!dtype) return false;
    type.dtype = *dtype;
  }
  return in.write_custom(node, row->op_class, 0, {type},
                         row->only_shape ? std::optional<std::uint64_t>(0) : std::nullopt);
}

// By the range of all elements: with the scale and the zero point, an op of its own.
bool quantize_by_range(OnnxImporter& in, const OnnxNode& node) {
  const TensorType& x = in.input(node, 0)->type;
  return in.write_custom(node, OpClass::kReduce, 0,
                         {{x.shape, DType::kU8}, {{}, x.dtype}, {{}, DType::kU8}});
}

constexpr std::array kExactRules = {
    OnnxRuleRow{"LeakyRelu", leaky_relu},
    OnnxRuleRow{"Elu", elu},
    OnnxRuleRow{"HardSigmoid", hard_sigmoid},
    OnnxRuleRow{"Gelu", gelu},
    OnnxRuleRow{"Gelu", gelu, "com.microsoft"},
    OnnxRuleRow{"Celu", celu},
    OnnxRuleRow{"Softsign", softsign},
    OnnxRuleRow{"ThresholdedRelu", thresholded_relu},
    OnnxRuleRow{"Shrink", shrink},
    OnnxRuleRow{"LpNormalization", lp_norm},
    OnnxRuleRow{"DynamicQuantizeLinear", quantize_by_range},
    OnnxRuleRow{"EyeLike", eye},
};

constexpr auto kSameTypeRules = rows_of(kSameTypes, same_type, kExactRules);

}  // namespace

std::span<const OnnxRuleRow> onnx_same_type_rules() { return kSameTypeRules; }

}  // namespace fusecalc
