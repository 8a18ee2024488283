#include "graph/inference.hpp"

#include <fmt/format.h>

#include <utility>

#include "core/text.hpp"

namespace fusecalc {

Inference::Inference(const OpRow& op, const Attributes& attributes, std::vector<Input> inputs,
                     std::size_t output_count, DType default_dtype,
                     std::function<void(RefusedPart, std::string)> fail)
    : op_class(op.op_class),
      passes(op.passes),
      flops(op.flops),
      row_(op),
      attributes_(attributes),
      inputs_(std::move(inputs)),
      output_count_(output_count),
      default_dtype_(default_dtype),
      fail_(std::move(fail)) {
  for (const Input& input : inputs_) reads.push_back(input.type == nullptr ? 0 : input.elements);
}

void Inference::require_tensors() const {
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    if (is_number(i)) fail_input(i, "must be a tensor, not a number");
  }
}

void Inference::require_indices(std::size_t i, std::string_view what) const {
  if (is_float(dtype(i)) || dtype(i) == DType::kBool) {
    fail_input(
        i, fmt::format("{} must be integers, but {} is {}", what, describe(i), name_of(dtype(i))));
  }
}

DType Inference::float_of(DType dtype) const {
  if (is_float(dtype)) return dtype;
  return is_float(default_dtype_) ? default_dtype_ : DType::kF32;
}

std::size_t Inference::normalised_axis(std::int64_t axis, std::size_t rank) const {
  const auto extent = static_cast<std::int64_t>(rank);
  if (axis < -extent || axis >= extent) {
    fail_attribute(Attribute::kAxes,
                   fmt::format("axis {} is out of range for a shape with {} axes", axis, rank));
  }
  return static_cast<std::size_t>(axis < 0 ? axis + extent : axis);
}

std::size_t Inference::axis(std::size_t rank, std::int64_t fallback) const {
  if (!attributes_.axes) return normalised_axis(fallback, rank);
  if (attributes_.axes->size() != 1) fail_attribute(Attribute::kAxes, "must be a single axis");
  return normalised_axis(attributes_.axes->front(), rank);
}

std::vector<bool> Inference::axes(std::size_t rank) const {
  std::vector<bool> chosen(rank, !attributes_.axes.has_value());
  if (!attributes_.axes) return chosen;
  for (const std::int64_t axis : *attributes_.axes) {
    const std::size_t i = normalised_axis(axis, rank);
    if (chosen[i]) fail_attribute(Attribute::kAxes, fmt::format("axis {} is named twice", axis));
    chosen[i] = true;
  }
  return chosen;
}

void Inference::fail_input(std::size_t i, const std::string& message) const { fail_at(i, message); }

void Inference::fail_attribute(Attribute attribute, const std::string& message) const {
  fail_at(attribute, message);
}

void Inference::fail_at(RefusedPart part, const std::string& message) const {
  fail_(part, message);
  __builtin_unreachable();
}

std::string Inference::describe(std::size_t i) const {
  return is_number(i)
             ? "a number"
             : fmt::format("{} of shape {}", in_quotes(inputs_[i].name), to_string(shape(i)));
}

void infer_results(Inference& op) {
  switch (op.row().family) {
    case OpFamily::kPointwise: return infer_pointwise(op);
    case OpFamily::kWhere: return infer_where(op);
    case OpFamily::kCast: return infer_cast(op);
    case OpFamily::kDropout: return infer_dropout(op);
    case OpFamily::kReduce: return infer_reduce(op);
    case OpFamily::kSoftmax: return infer_softmax(op);
    case OpFamily::kRowNorm: return infer_row_norm(op);
    case OpFamily::kBatchNorm: return infer_batch_norm(op);
    case OpFamily::kGroupNorm: return infer_group_norm(op);
    case OpFamily::kLoss: return infer_loss(op);
    case OpFamily::kTranspose: return infer_transpose(op);
    case OpFamily::kConcat: return infer_concat(op);
    case OpFamily::kSlice: return infer_slice(op);
    case OpFamily::kSplit: return infer_split(op);
    case OpFamily::kGather: return infer_gather(op);
    case OpFamily::kEmbedding: return infer_embedding(op);
    case OpFamily::kScatter: return infer_scatter(op);
    case OpFamily::kBroadcastTo: return infer_broadcast_to(op);
    case OpFamily::kReshape: return infer_reshape(op);
    case OpFamily::kPad: return infer_pad(op);
    case OpFamily::kRoll: return infer_roll(op);
    case OpFamily::kFlip: return infer_flip(op);
    case OpFamily::kRepeat: return infer_repeat(op);
    case OpFamily::kRotary: return infer_rotary(op);
    case OpFamily::kTriangle: return infer_triangle(op);
    case OpFamily::kOneHot: return infer_one_hot(op);
    case OpFamily::kIota: return infer_iota(op);
    case OpFamily::kFull: return infer_full(op);
    case OpFamily::kGatherElements: return infer_gather_elements(op);
    case OpFamily::kScatterElements: return infer_scatter_elements(op);
    case OpFamily::kScan: return infer_scan(op);
    case OpFamily::kSort: return infer_sort(op);
    case OpFamily::kMatmul: return infer_matmul(op);
    case OpFamily::kLinear: return infer_linear(op);
    case OpFamily::kGroupedMatmul: return infer_grouped_matmul(op);
    case OpFamily::kScaledMatmul: return infer_scaled_matmul(op);
    case OpFamily::kConvolution: return infer_convolution(op);
    case OpFamily::kTransposedConvolution: return infer_transposed_convolution(op);
    case OpFamily::kAttention: return infer_attention(op);
    case OpFamily::kPool: return infer_pool(op);
    case OpFamily::kAdaptivePool: return infer_adaptive_pool(op);
    case OpFamily::kUpsample: return infer_upsample(op);
    case OpFamily::kSoftmaxBackward: return infer_softmax_backward(op);
    case OpFamily::kLossBackward: return infer_loss_backward(op);
    case OpFamily::kConvolutionBackward:
    case OpFamily::kTransposedConvolutionBackward: return infer_convolution_backward(op);
    case OpFamily::kRowNormBackward:
    case OpFamily::kNormBackward: return infer_norm_backward(op);
    case OpFamily::kAttentionBackward: return infer_attention_backward(op);
    case OpFamily::kEmbeddingBackward: return infer_embedding_backward(op);
    case OpFamily::kPoolBackward: return infer_pool_backward(op);
    case OpFamily::kCustom: return;
  }
}

}  // namespace fusecalc
