// ATen ops that multiply matrices: products, convolutions, attention.

#include <algorithm>
#include <array>

#include "input/pt2/aten.hpp"

namespace fusecalc {
namespace {

using Inputs = std::vector<ModelGraph::Input>;
using Attributes = std::vector<WrittenAttribute>;
using TensorId = ModelGraph::TensorId;

// A matrix, without the view that swaps its last two axes.
struct Factor {
  TensorId tensor = 0;
  bool transposed = false;
};

Factor factor(const AtenCall& call, ValueId id) {
  const TensorId tensor = call.tensor(id);
  const auto origin = call.graph().written_by(tensor, "permute_view");
  if (!origin) return {tensor, false};
  const auto& perm = std::get<std::vector<WrittenDim>>(origin->attributes[0].value);
  const auto rank = static_cast<std::int64_t>(perm.size());
  for (std::int64_t i = 0; i < rank; ++i) {
    const std::int64_t swapped = i < rank - 2 ? i : 2 * rank - 3 - i;
    if (std::get<std::int64_t>(perm[static_cast<std::size_t>(i)]) != swapped) {
      return {tensor, false};
    }
  }
  return {std::get<TensorId>(origin->inputs[0]), rank >= 2};
}

Attributes transposed(const Factor& a, const Factor& b) {
  Attributes attributes;
  if (a.transposed) attributes.push_back({.name = "transpose_a", .value = true});
  if (b.transposed) attributes.push_back({.name = "transpose_b", .value = true});
  return attributes;
}

bool matmul(const AtenCall& call, std::string_view) {
  const auto a = call.value("self");
  const auto b = call.given("mat2") ? call.value("mat2") : call.value("other");
  if (!a || !b) return false;
  const Factor left = factor(call, *a);
  const Factor right = factor(call, *b);
  return call.op("matmul", {left.tensor, right.tensor}, transposed(left, right));
}

bool linear(const AtenCall& call, std::string_view) {
  const auto input = call.value("input");
  const auto weight = call.value("weight");
  const auto bias = call.value("bias");
  if (!input || !weight) return false;
  Inputs inputs = {call.tensor(*input), call.tensor(*weight)};
  if (bias) inputs.emplace_back(call.tensor(*bias));
  return call.op("linear", inputs);
}

// bias + a @ b, where b is [in, out]: a linear of a view of b.
bool addmm(const AtenCall& call, std::string_view) {
  const auto bias = call.value("self");
  const auto a = call.value("mat1");
  const auto b = call.value("mat2");
  if (!bias || !a || !b) return false;
  if (call.number("alpha").value_or(1) != 1 || call.number("beta").value_or(1) != 1) return false;
  Factor weight = factor(call, *b);
  if (!weight.transposed) {
    ModelType type = call.graph().type(weight.tensor);
    std::swap(type.type.shape[0], type.type.shape[1]);
    std::swap(type.extents[0], type.extents[1]);
    const auto view = call.graph().op("permute_view", {weight.tensor},
                                      {listed("perm", std::vector<std::int64_t>{1, 0})}, type);
    if (!view) return false;
    weight.tensor = *view;
  }
  if (call.op("linear", {call.tensor(*a), weight.tensor, call.tensor(*bias)})) return true;
  // A bias that is no row of the result is added on its own.
  const auto product = call.graph().op("linear", {call.tensor(*a), weight.tensor}, {}, call.type());
  return product && call.op("add", {*product, call.operand(*bias)});
}

bool baddbmm(const AtenCall& call, std::string_view) {
  const auto self = call.value("self");
  const auto a = call.value("batch1");
  const auto b = call.value("batch2");
  if (!self || !a || !b) return false;
  if (call.number("alpha").value_or(1) != 1) return false;
  const double beta = call.number("beta").value_or(1);
  const Factor left = factor(call, *a);
  const Factor right = factor(call, *b);
  const auto product =
      call.graph().op("matmul", {left.tensor, right.tensor}, transposed(left, right), call.type());
  if (!product) return false;
  if (beta == 0) return call.set(0, *product), true;
  return beta == 1 && call.op("add", {*product, call.operand(*self)});
}

// One number for each spatial axis.
std::optional<std::vector<std::int64_t>> spatial(const AtenCall& call, std::string_view name,
                                                 std::size_t axes, std::int64_t otherwise) {
  std::vector<std::int64_t> values = call.wholes(name);
  if (values.empty()) values.push_back(otherwise);
  if (values.size() == 1) values.resize(axes, values[0]);
  return values.size() == axes ? std::optional(values) : std::nullopt;
}

// x with an axis of one element before the last.
std::optional<TensorId> with_height(const AtenCall& call, TensorId tensor) {
  ModelType type = call.graph().type(tensor);
  type.type.shape.insert(type.type.shape.end() - 1, 1);
  type.extents.insert(type.extents.end() - 1, WrittenDim(std::int64_t{1}));
  return call.graph().op("reshape", {tensor}, {listed("shape", type.extents)}, type);
}

// A convolution of rows is one of images of height 1.
bool convolution_1d(const AtenCall& call, Inputs inputs, Attributes attributes) {
  for (std::size_t i = 0; i < 2; ++i) {
    const auto raised = with_height(call, std::get<TensorId>(inputs[i]));
    if (!raised) return false;
    inputs[i] = *raised;
  }
  for (WrittenAttribute& attribute : attributes) {
    auto* list = std::get_if<std::vector<WrittenDim>>(&attribute.value);
    if (list == nullptr) continue;
    list->insert(list->begin(), std::int64_t{attribute.name == "padding" ? 0 : 1});
  }
  ModelType type = call.type();
  type.type.shape.insert(type.type.shape.end() - 1, 1);
  type.extents.insert(type.extents.end() - 1, WrittenDim(std::int64_t{1}));
  const auto image = call.graph().op("conv2d", inputs, attributes, type);
  return image && call.op("reshape", {*image}, {listed("shape", call.type().extents)});
}

bool convolution(const AtenCall& call, std::string_view) {
  const auto input = call.value("input");
  const auto weight = call.value("weight");
  const auto bias = call.value("bias");
  if (!input || !weight || call.truth("transposed", false)) return false;
  const std::size_t rank = call.at(*input).type.shape().size();
  if (rank < 3) return false;
  const std::size_t axes = rank - 2;
  const auto stride = spatial(call, "stride", axes, 1);
  auto padding = spatial(call, "padding", axes, 0);
  const auto dilation = spatial(call, "dilation", axes, 1);
  if (!stride || !padding || !dilation) return false;
  if (call.text("padding") == "same") {
    const Shape& window = call.at(*weight).type.shape();
    for (std::size_t i = 0; i < axes && i + 2 < window.size(); ++i) {
      (*padding)[i] = (*dilation)[i] * (static_cast<std::int64_t>(window[i + 2]) - 1) / 2;
    }
  }
  Inputs inputs = {call.tensor(*input), call.tensor(*weight)};
  if (bias) inputs.emplace_back(call.tensor(*bias));
  Attributes attributes = {listed("stride", *stride),
                           listed("padding", *padding),
                           listed("dilation", *dilation),
                           {.name = "groups", .value = call.whole("groups", 1)}};
  switch (axes) {
    case 1:
      return call.op("conv1d", inputs, attributes) || convolution_1d(call, inputs, attributes);
    case 2: return call.op("conv2d", inputs, attributes);
    case 3: return call.op("conv3d", inputs, attributes);
    default: return false;
  }
}

// The keys before their heads were repeated for the queries' heads:
// [.., heads, 1, T, D] -> [.., heads, n, T, D] -> [.., heads * n, T, D].
TensorId unrepeated(const AtenCall& call, ValueId id, std::uint64_t query_heads) {
  const TensorId tensor = call.tensor(id);
  ModelGraph& graph = call.graph();
  const Shape shape = graph.type(tensor).shape();
  const auto merged = graph.written_by(tensor, "reshape");
  if (shape.size() < 3 || shape[shape.size() - 3] != query_heads || !merged) return tensor;
  TensorId spread = std::get<TensorId>(merged->inputs[0]);
  if (const auto copy = graph.written_by(spread, "copy")) {
    spread = std::get<TensorId>(copy->inputs[0]);
  }
  auto repeated = graph.written_by(spread, "broadcast_to");
  if (!repeated) repeated = graph.written_by(spread, "expand_view");
  if (!repeated) return tensor;
  const auto single = std::get<TensorId>(repeated->inputs[0]);
  ModelType keys = graph.type(single);
  const std::size_t rank = shape.size() + 1;
  if (keys.shape().size() != rank || keys.shape()[rank - 3] != 1) return tensor;
  Shape copies = keys.shape();
  copies[rank - 3] = graph.type(spread).shape()[rank - 3];
  if (graph.type(spread).shape() != copies) return tensor;
  keys.type.shape.erase(keys.type.shape.end() - 3);
  keys.extents.erase(keys.extents.end() - 3);
  return reshaped(call, single, keys).value_or(tensor);
}

bool attention(const AtenCall& call, std::string_view) {
  const auto query = call.value("query");
  const auto key = call.value("key");
  const auto value = call.value("value");
  if (!query || !key || !value || call.number("dropout_p").value_or(0) != 0) return false;
  for (std::size_t i = 1; i < call.results(); ++i) {
    if (call.used(i)) return false;
  }
  const Shape& queries = call.at(*query).type.shape();
  if (queries.size() < 3) return false;
  const std::uint64_t heads = queries[queries.size() - 3];
  Inputs inputs = {call.tensor(*query), unrepeated(call, *key, heads),
                   unrepeated(call, *value, heads)};
  auto mask = call.value("attn_mask");
  if (!mask) mask = call.value("attn_bias");
  if (mask) inputs.push_back(call.operand(*mask));
  Attributes attributes;
  if (call.truth("is_causal", false)) attributes.push_back({.name = "causal", .value = true});
  const auto scale = call.number("scale");
  if (scale) attributes.push_back({.name = "scale", .value = *scale});
  return call.op("attention", inputs, attributes);
}

constexpr std::array kRules = {
    AtenRule{"mm", matmul},
    AtenRule{"bmm", matmul},
    AtenRule{"matmul", matmul},
    AtenRule{"mv", matmul},
    AtenRule{"dot", matmul},
    AtenRule{"linear", linear},
    AtenRule{"addmm", addmm},
    AtenRule{"baddbmm", baddbmm},
    AtenRule{"convolution", convolution},
    AtenRule{"conv1d", convolution},
    AtenRule{"conv2d", convolution},
    AtenRule{"conv3d", convolution},
    AtenRule{"scaled_dot_product_attention", attention},
    AtenRule{"_scaled_dot_product_flash_attention", attention},
    AtenRule{"_scaled_dot_product_flash_attention_for_cpu", attention},
    AtenRule{"_scaled_dot_product_efficient_attention", attention},
    AtenRule{"_scaled_dot_product_cudnn_attention", attention},
};

}  // namespace

std::span<const AtenRule> aten_product_rules() { return kRules; }

}  // namespace fusecalc
