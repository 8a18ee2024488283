// ATen ops that multiply matrices: products, convolutions, attention.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "core/checked.hpp"
#include "graph/infer_shared.hpp"
#include "input/causal_mask.hpp"
#include "input/einsum.hpp"
#include "input/pt2/aten.hpp"
#include "input/written_heads.hpp"

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
  std::optional<ValueId> b;
  for (const char* name : {"mat2", "other", "vec", "tensor"}) {
    if (!b) b = call.value(name);
  }
  if (!a || !b) return false;
  const Factor left = factor(call, *a);
  const Factor right = factor(call, *b);
  return call.op("matmul", {left.tensor, right.tensor}, transposed(left, right));
}

// Each element of one vector times each of the other.
bool outer(const AtenCall& call, std::string_view) {
  const auto a = call.value("self");
  const auto b = call.value("vec2");
  if (!a || !b) return false;
  ModelType column = call.at(*a).type;
  column.type.shape.push_back(1);
  column.extents.emplace_back(std::int64_t{1});
  const auto rows = reshaped(call.graph(), call.tensor(*a), column);
  return rows && call.op("mul", {*rows, call.tensor(*b)});
}

// Rows of a matrix, each times the matrix of its group. There is no row of the table for groups of
// the columns of `b`, or of what is summed.
bool grouped_matmul(const AtenCall& call, std::string_view) {
  const auto a = call.given("self") ? call.value("self") : call.value("input");
  const auto b = call.given("mat2") ? call.value("mat2") : call.value("weight");
  const auto ends = call.value("offs");
  if (!a || !b || call.given("bias")) return false;
  if (!ends) return matmul(call, "");
  const Factor matrices = factor(call, *b);
  return call.op("grouped_matmul", {call.tensor(*a), matrices.tensor, call.tensor(*ends)},
                 transposed({}, matrices));
}

// A result that is scaled, too, is not in the table.
bool scaled_matmul(const AtenCall& call, std::string_view) {
  const auto a = call.value("self");
  const auto b = call.value("mat2");
  const auto scale_a = call.value("scale_a");
  const auto scale_b = call.value("scale_b");
  const auto bias = call.value("bias");
  if (!a || !b || !scale_a || !scale_b || call.given("scale_result")) return false;
  const Factor right = factor(call, *b);
  Inputs inputs = {call.tensor(*a), right.tensor, call.tensor(*scale_a), call.tensor(*scale_b)};
  if (bias) inputs.emplace_back(call.tensor(*bias));
  return call.op("scaled_matmul", inputs, transposed({}, right));
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

// alpha * product + beta * self, of factors that no row has: ops of their own.
bool add_scaled(const AtenCall& call, TensorId product, ValueId self) {
  const double alpha = call.number("alpha").value_or(1);
  const double beta = call.number("beta").value_or(1);
  std::optional<TensorId> scaled = product;
  if (alpha != 1) scaled = call.graph().op("mul", {product, alpha}, {}, call.type());
  if (!scaled) return false;
  if (beta == 0) return call.set(0, *scaled), true;
  ModelGraph::Input term = call.operand(self);
  if (beta != 1) {
    const auto* tensor = std::get_if<TensorId>(&term);
    if (tensor == nullptr) return call.op("add", {*scaled, std::get<double>(term) * beta});
    const auto times =
        call.graph().op("mul", {term, beta}, {}, ModelType(call.graph().type(*tensor)));
    if (!times) return false;
    term = *times;
  }
  return call.op("add", {*scaled, term});
}

// beta * self + alpha * a @ b, where b is [in, out]: a linear of a view of b.
bool addmm(const AtenCall& call, std::string_view) {
  const auto self = call.value("self");
  const auto a = call.value("mat1");
  const auto b = call.value("mat2");
  if (!self || !a || !b) return false;
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
  const bool plain = call.number("alpha").value_or(1) == 1 && call.number("beta").value_or(1) == 1;
  if (plain && call.op("linear", {call.tensor(*a), weight.tensor, call.tensor(*self)})) return true;
  // What is no row of the result, or is scaled, is added on its own.
  const auto product = call.graph().op("linear", {call.tensor(*a), weight.tensor}, {}, call.type());
  return product && add_scaled(call, *product, *self);
}

bool baddbmm(const AtenCall& call, std::string_view) {
  const auto self = call.value("self");
  const auto a = call.value("batch1");
  const auto b = call.value("batch2");
  if (!self || !a || !b) return false;
  const Factor left = factor(call, *a);
  const Factor right = factor(call, *b);
  const auto product =
      call.graph().op("matmul", {left.tensor, right.tensor}, transposed(left, right), call.type());
  return product && add_scaled(call, *product, *self);
}

// A single operand without a sum is a view of it.
bool einsum(const AtenCall& call, std::string_view) {
  const std::vector<ValueId> values = call.values("tensors");
  std::vector<StridedTensor> operands;
  for (const ValueId id : values) operands.push_back({call.tensor(id), call.at(id).strides});
  const auto result = write_einsum(call.graph(), call.text("equation"), std::move(operands));
  if (!result || call.graph().type(result->tensor).shape() != call.type().shape()) return false;
  if (values.size() == 1 && call.at(values[0]).type.shape().size() == call.type().shape().size()) {
    call.share(0, values[0], result->tensor);
  } else {
    call.set(0, result->tensor);
  }
  return true;
}

// Sums along pairs of axes; the others are the result's, in order. As in PyTorch, what is summed
// comes last in `self`, in the order of the pairs, so that the same operand is copied where axes
// that become one do not lie side by side.
bool tensordot(const AtenCall& call, std::string_view) {
  const auto a = call.value("self");
  const auto b = call.value("other");
  if (!a || !b) return false;
  const std::size_t rank = call.at(*a).type.shape().size();
  const std::size_t other_rank = call.at(*b).type.shape().size();
  const std::vector<std::int64_t> axes = call.wholes("dims_self");
  const std::vector<std::int64_t> other_axes = call.wholes("dims_other");
  constexpr std::size_t kLetters = 26;
  if (std::max(rank, other_rank) > kLetters || axes.size() != other_axes.size()) return false;
  std::string rows;
  std::string other;
  for (std::size_t i = 0; i < rank; ++i) rows += static_cast<char>('a' + i);
  for (std::size_t i = 0; i < other_rank; ++i) other += static_cast<char>('A' + i);
  std::string columns = other;
  std::string inner;
  std::vector<std::size_t> last;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto axis = axis_of(axes[i], rank);
    const auto other_axis = axis_of(other_axes[i], other_rank);
    if (!axis || !other_axis) return false;
    const auto letter = static_cast<char>('a' + *axis);
    std::erase(rows, letter);
    std::erase(columns, other[*other_axis]);
    other[*other_axis] = letter;
    inner += letter;
    last.push_back(*axis);
  }
  const TensorId right = call.tensor(*b);
  const auto left = with_last(call.graph(), call.tensor(*a), last);
  if (!left) return false;
  std::vector<std::int64_t> strides;
  for (const char letter : rows + inner) {
    strides.push_back(call.at(*a).strides[static_cast<std::size_t>(letter - 'a')]);
  }
  const auto product =
      write_einsum(call.graph(), fmt::format("{0}{1},{2}->{0}{3}", rows, inner, other, columns),
                   {{*left, std::move(strides)}, {right, call.at(*b).strides}});
  if (product) call.set(0, product->tensor);
  return product.has_value();
}

// The first query sees the first key alone, also where there are fewer queries than keys: a mask,
// as `causal` aligns the last ones.
std::optional<TensorId> first_aligned(const AtenCall& call, std::uint64_t queries,
                                      std::uint64_t keys) {
  const ModelType type = model_type({queries, keys}, DType::kBool);
  const auto holds = filled(call.graph(), type, 1);
  return holds ? call.graph().op("tril", {*holds}, {}, type) : std::nullopt;
}

// Adds the mask or `causal`; false if there are both and they cannot be one.
// Of a mask that is one number for all scores: whether it hides them. Else it changes no weight.
bool hides_scores(const AtenCall& call, ValueId mask) {
  const double number = call.at(mask).number.value_or(0);
  return call.at(mask).type.dtype() == DType::kBool ? number == 0 : !std::isfinite(number);
}

bool add_mask(const AtenCall& call, const Shape& queries, std::uint64_t keys, Inputs& inputs,
              Attributes& attributes) {
  auto mask = call.value("attn_mask");
  if (!mask) mask = call.value("attn_bias");
  auto causal = call.truth("is_causal", false) ? std::optional(CausalMask{}) : std::nullopt;
  const std::uint64_t rows = queries[queries.size() - 2];
  if (causal && rows != keys) {
    const auto made = mask ? std::nullopt : first_aligned(call, rows, keys);
    if (made) inputs.emplace_back(*made);
    return made.has_value();
  }
  if (mask) {
    const ModelGraph::Input operand = call.operand(*mask);
    const auto* tensor = std::get_if<TensorId>(&operand);
    const auto made = tensor != nullptr ? causal_mask(call.graph(), *tensor, false) : std::nullopt;
    if (made) {
      causal = made;
    } else if (tensor != nullptr) {
      inputs.push_back(operand);
    } else if (hides_scores(call, *mask)) {
      return false;
    }
  }
  if (causal) attributes = causal->attributes();
  return true;
}

bool attention(const AtenCall& call, std::string_view) {
  const auto query = call.value("query");
  const auto key = call.value("key");
  const auto value = call.value("value");
  if (!query || !key || !value) return false;
  if (call.number("dropout_p").value_or(0) != 0) {
    // No row drops weights, but what that computes is known.
    const auto flops = attention_flops(call, 2, 2);
    return flops && set_custom(call, {.op_class = OpClass::kContract, .flops = *flops});
  }
  const Shape& queries = call.at(*query).type.shape();
  if (queries.size() < 3) return false;
  const std::uint64_t heads = queries[queries.size() - 3];
  Inputs inputs = {call.tensor(*query), unrepeated(call.graph(), call.tensor(*key), heads),
                   unrepeated(call.graph(), call.tensor(*value), heads)};
  Attributes attributes;
  const Shape& keys = call.at(*key).type.shape();
  if (keys.size() < 2 || !add_mask(call, queries, keys[keys.size() - 2], inputs, attributes)) {
    return false;
  }
  const auto scale = call.number("scale");
  if (scale) attributes.push_back({.name = "scale", .value = *scale});
  const std::size_t outputs = call.results() > 1 && call.used(1) ? 2 : 1;
  if (!call.op("attention", inputs, attributes, outputs)) return false;
  // Without dropout the state of the random generator counts for nothing.
  for (std::size_t i = 2; i < call.results(); ++i) call.set_number(i, 0);
  return true;
}

constexpr std::array kProductRules = {
    AtenRule{"mm", matmul},
    AtenRule{"bmm", matmul},
    AtenRule{"matmul", matmul},
    AtenRule{"mv", matmul},
    AtenRule{"dot", matmul},
    AtenRule{"vdot", matmul},
    AtenRule{"outer", outer},
    AtenRule{"ger", outer},
    AtenRule{"_grouped_mm", grouped_matmul},
    AtenRule{"grouped_mm_fallback", grouped_matmul},
    AtenRule{"_scaled_mm", scaled_matmul},
    AtenRule{"linear", linear},
    AtenRule{"addmm", addmm},
    AtenRule{"baddbmm", baddbmm},
    AtenRule{"einsum", einsum},
    AtenRule{"tensordot", tensordot},
    AtenRule{"scaled_dot_product_attention", attention},
    AtenRule{"_scaled_dot_product_flash_attention", attention},
    AtenRule{"_scaled_dot_product_flash_attention_for_cpu", attention},
    AtenRule{"_scaled_dot_product_efficient_attention", attention},
    AtenRule{"_scaled_dot_product_cudnn_attention", attention},
};

}  // namespace

std::optional<std::uint64_t> attention_flops(const AtenCall& call, std::uint64_t of_head,
                                             std::uint64_t of_value) {
  const Shape& query = call.at(*call.value("query")).type.shape();
  const Shape& key = call.at(*call.value("key")).type.shape();
  const Shape& value = call.at(*call.value("value")).type.shape();
  if (std::min({query.size(), key.size(), value.size()}) < 2) return std::nullopt;
  const std::uint64_t queries = query[query.size() - 2];
  const std::uint64_t keys = key[key.size() - 2];
  std::uint64_t flops = elements_between(query, 0, query.size() - 2);
  std::uint64_t pairs = queries;
  const bool fit = checked_multiply(pairs, keys) && checked_multiply(of_head, query.back()) &&
                   checked_multiply(of_value, value.back()) && checked_add(of_head, of_value);
  if (!fit) return std::nullopt;
  if (call.truth("is_causal", false)) pairs = visible_pairs(queries, keys, {});
  return checked_multiply(flops, pairs) && checked_multiply(flops, of_head) ? std::optional(flops)
                                                                            : std::nullopt;
}

std::span<const AtenRule> aten_product_rules() { return kProductRules; }

}  // namespace fusecalc
