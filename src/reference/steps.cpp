#include "reference/steps.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/error.hpp"
#include "core/text.hpp"

namespace fusecalc {
namespace {

struct Row {
  OpFamily family;
  StepMaker make;
};

// Ops with the same shape rule share an evaluation step; they differ in their reference column.
constexpr std::array kRows = {
    Row{OpFamily::kPointwise, pointwise_step},
    Row{OpFamily::kWhere, pointwise_step},
    Row{OpFamily::kCast, pointwise_step},
    Row{OpFamily::kBroadcastTo, pointwise_step},
    Row{OpFamily::kDropout, dropout_step},
    Row{OpFamily::kTranspose, pointwise_step},
    Row{OpFamily::kSlice, pointwise_step},
    Row{OpFamily::kConcat, concat_step},
    Row{OpFamily::kGather, gather_step},
    Row{OpFamily::kEmbedding, gather_step},
    Row{OpFamily::kScatter, scatter_step},
    Row{OpFamily::kReduce, reduce_step},
    Row{OpFamily::kSoftmax, norm_step},
    Row{OpFamily::kRowNorm, norm_step},
    Row{OpFamily::kBatchNorm, norm_step},
    Row{OpFamily::kGroupNorm, norm_step},
    Row{OpFamily::kLoss, loss_step},
    Row{OpFamily::kMatmul, matmul_step},
    Row{OpFamily::kLinear, matmul_step},
    Row{OpFamily::kGroupedMatmul, grouped_matmul_step},
    Row{OpFamily::kScaledMatmul, scaled_matmul_step},
    Row{OpFamily::kConvolution, convolution_step},
    Row{OpFamily::kPool, window_step},
    Row{OpFamily::kAdaptivePool, window_step},
    Row{OpFamily::kUpsample, window_step},
    Row{OpFamily::kLossBackward, loss_backward_step},
    Row{OpFamily::kSoftmaxBackward, softmax_backward_step},
    Row{OpFamily::kRowNormBackward, norm_backward_step},
    Row{OpFamily::kTransposedConvolution, convolution_step},
    Row{OpFamily::kAttention, attention_step},
    Row{OpFamily::kRoll, relocation_step},
    Row{OpFamily::kFlip, relocation_step},
    Row{OpFamily::kRepeat, relocation_step},
    Row{OpFamily::kRotary, rotary_step},
    Row{OpFamily::kGatherElements, gather_elements_step},
    Row{OpFamily::kScatterElements, scatter_step},
    Row{OpFamily::kPad, placed_step},
    Row{OpFamily::kTriangle, placed_step},
    Row{OpFamily::kOneHot, placed_step},
    Row{OpFamily::kIota, placed_step},
    Row{OpFamily::kFull, placed_step},
    Row{OpFamily::kScan, scan_step},
    Row{OpFamily::kSort, sort_step},
};

}  // namespace

std::unique_ptr<EvaluationStep> make_step(Evaluation& evaluation, const Op& op) {
  const auto* row = std::ranges::find(kRows, op.row->family, &Row::family);
  if (row == kRows.end()) {
    throw Error(
        Fault::kUnavailable,
        op.row->family == OpFamily::kCustom
            ? in_quotes(op.name) + " is a custom op: its computation is unknown"
            : fmt::format("{} ({}) has no fp64 reference", in_quotes(op.name), op.row->name));
  }
  return row->make(evaluation, op);
}

}  // namespace fusecalc
