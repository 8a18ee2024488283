// Operators of com.microsoft that ONNX Runtime writes when it optimises a model.

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "input/onnx/rules.hpp"
#include "input/onnx/shapes.hpp"

namespace fusecalc {
namespace {

using Operand = OnnxImporter::Operand;

// alpha * a @ b, of matrices that may be stored the other way round.
bool fused_matmul(OnnxImporter& in, const OnnxNode& node) {
  const OnnxKnown* a = in.input(node, 0);
  const OnnxKnown* b = in.input(node, 1);
  const auto is_set = [&node](std::string_view name) {
    return whole_attribute(node, name, 0) != 0;
  };
  if (b == nullptr || is_set("transBatchA") || is_set("transBatchB")) return false;
  OnnxImporter::Written attributes;
  if (is_set("transA")) attributes.push_back({"transpose_a", true});
  if (is_set("transB")) attributes.push_back({"transpose_b", true});
  const double alpha = real_attribute(node, "alpha", 1);
  if (alpha == 1) return in.write(node, "matmul", {a, b}, attributes);
  const auto product = in.write_step("matmul", {a, b}, attributes);
  return product && in.write(node, "mul", {&*product, alpha});
}

// A product of matrices, a bias and an activation are one kernel.
bool fused_gemm(OnnxImporter& in, const OnnxNode& node) {
  const OnnxKnown* b = in.input(node, 1);
  const TensorType& a = in.input(node, 0)->type;
  if (b == nullptr || a.shape.size() != 2 || b->type.shape.size() != 2) return false;
  const std::size_t rows = whole_attribute(node, "transA", 0) != 0 ? 1 : 0;
  const std::size_t columns = whole_attribute(node, "transB", 0) != 0 ? 0 : 1;
  const Shape shape = {a.shape[rows], b->type.shape[columns]};
  const auto elements = checked_elements(shape);
  if (!elements || a.shape[1 - rows] != b->type.shape[1 - columns]) return false;
  return in.write_custom(node, OpClass::kContract, product_flops(*elements, a.shape[1 - rows]),
                         {{shape, a.dtype}});
}

// gelu of x, or of the sum of x and a bias; FastGelu is the one by tanh.
bool biased_gelu(OnnxImporter& in, const OnnxNode& node) {
  const OnnxKnown* x = in.input(node, 0);
  const OnnxKnown* bias = in.input(node, 1);
  const auto sum = bias != nullptr ? in.write_step("add", {x, bias}) : std::nullopt;
  if (bias != nullptr && !sum) return false;
  OnnxImporter::Written attributes;
  if (node.type == "FastGelu") attributes.push_back({"approximate", std::string("tanh")});
  return in.write(node, "gelu", {sum ? &*sum : x}, attributes);
}

// x sigmoid(alpha x)
bool quick_gelu(OnnxImporter& in, const OnnxNode& node) {
  const OnnxKnown* x = in.input(node, 0);
  const double alpha = real_attribute(node, "alpha", 1.702);
  if (alpha == 1) return in.write(node, "silu", {x});
  const auto scaled = in.write_step("mul", {x, alpha});
  const auto gate = scaled ? in.write_step("sigmoid", {&*scaled}) : std::nullopt;
  return gate && in.write(node, "mul", {x, &*gate});
}

// Queries, keys and values of [B, T, heads * size], and what is added to the scores. A bias of the
// three, a mask of keys and caches are not read.
bool multi_head_attention(OnnxImporter& in, const OnnxNode& node) {
  constexpr std::size_t kBias = 3;
  constexpr std::size_t kAdded = 5;
  for (std::size_t i = kBias; i < node.inputs.size(); ++i) {
    if (i != kAdded && in.input(node, i) != nullptr) return false;
  }
  if (in.input(node, 1) == nullptr || in.input(node, 2) == nullptr) return false;
  if (OnnxImporter::output_count(node) > 1) return false;
  const std::int64_t heads = whole_attribute(node, "num_heads", 0);
  const auto q = split_heads(in, *in.input(node, 0), heads);
  const auto k = split_heads(in, *in.input(node, 1), heads);
  const auto v = split_heads(in, *in.input(node, 2), heads);
  if (!q || !k || !v) return false;
  std::vector<Operand> inputs = {&*q, &*k, &*v};
  if (in.input(node, kAdded) != nullptr) inputs.emplace_back(in.input(node, kAdded));
  OnnxImporter::Written attributes;
  if (whole_attribute(node, "unidirectional", 0) != 0) attributes.push_back({"causal", true});
  // 0 stands for the usual one.
  const double scale = real_attribute(node, "scale", 0);
  if (scale != 0) attributes.push_back({"scale", scale});
  return write_joined_attention(in, node, inputs, attributes);
}

// Ops of quantized numbers, each with its scale and zero point, are one kernel each.
bool quantized_pair(OnnxImporter& in, const OnnxNode& node) {
  const OnnxKnown* a = in.input(node, 0);
  const OnnxKnown* b = in.input(node, 3);
  const auto shape = b != nullptr ? broadcast(a->type.shape, b->type.shape) : std::nullopt;
  return shape && in.write_custom(node, OpClass::kPointwise, 0, {{*shape, a->type.dtype}});
}

bool quantized(OnnxImporter& in, const OnnxNode& node) {
  return in.write_custom(node, OpClass::kPointwise, 0, {in.input(node, 0)->type});
}

// The mean of the axes after the first two.
bool quantized_mean(OnnxImporter& in, const OnnxNode& node) {
  TensorType type = in.input(node, 0)->type;
  if (type.shape.size() < 3 || whole_attribute(node, "channels_last", 0) != 0) return false;
  std::fill(type.shape.begin() + 2, type.shape.end(), 1);
  return in.write_custom(node, OpClass::kReduce, 0, {type});
}

constexpr std::string_view kDomain = "com.microsoft";

constexpr std::array kOnnxruntimeRules = {
    OnnxRuleRow{"FusedMatMul", fused_matmul, kDomain},
    OnnxRuleRow{"TransposeMatMul", fused_matmul, kDomain},
    OnnxRuleRow{"FusedGemm", fused_gemm, kDomain},
    OnnxRuleRow{"BiasGelu", biased_gelu, kDomain},
    OnnxRuleRow{"FastGelu", biased_gelu, kDomain},
    OnnxRuleRow{"QuickGelu", quick_gelu, kDomain},
    OnnxRuleRow{"MultiHeadAttention", multi_head_attention, kDomain},
    OnnxRuleRow{"QLinearAdd", quantized_pair, kDomain},
    OnnxRuleRow{"QLinearMul", quantized_pair, kDomain},
    OnnxRuleRow{"QLinearSigmoid", quantized, kDomain},
    OnnxRuleRow{"QLinearLeakyRelu", quantized, kDomain},
    OnnxRuleRow{"QLinearGlobalAveragePool", quantized_mean, kDomain},
};

}  // namespace

std::span<const OnnxRuleRow> onnx_onnxruntime_rules() { return kOnnxruntimeRules; }

}  // namespace fusecalc
