#include "reference/steps.hpp"

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
    Row{OpFamily::kPointwise, pointwise_step}, Row{OpFamily::kWhere, pointwise_step},
    Row{OpFamily::kCast, pointwise_step},      Row{OpFamily::kBroadcastTo, pointwise_step},
    Row{OpFamily::kDropout, dropout_step},     Row{OpFamily::kTranspose, transpose_step},
    Row{OpFamily::kSlice, slice_step},         Row{OpFamily::kConcat, concat_step},
    Row{OpFamily::kGather, gather_step},       Row{OpFamily::kEmbedding, gather_step},
    Row{OpFamily::kScatter, scatter_step},     Row{OpFamily::kReduce, reduce_step},
    Row{OpFamily::kSoftmax, norm_step},        Row{OpFamily::kRowNorm, norm_step},
    Row{OpFamily::kBatchNorm, norm_step},      Row{OpFamily::kGroupNorm, norm_step},
    Row{OpFamily::kLoss, loss_step},           Row{OpFamily::kMatmul, matmul_step},
    Row{OpFamily::kLinear, matmul_step},       Row{OpFamily::kConv2d, conv2d_step},
    Row{OpFamily::kAttention, attention_step},
};

}  // namespace

std::unique_ptr<EvaluationStep> make_step(Evaluation& evaluation, const Op& op) {
  const auto* row = std::ranges::find(kRows, op.row->family, &Row::family);
  if (row == kRows.end()) {
    throw Error(Fault::kUnavailable,
                in_quotes(op.name) + " is a custom op: its computation is unknown");
  }
  return row->make(evaluation, op);
}

}  // namespace fusecalc
