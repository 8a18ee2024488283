#include "reference/steps.hpp"

#include <algorithm>
#include <array>

#include "core/error.hpp"
#include "core/text.hpp"

namespace fusecalc {
namespace {

struct Row {
  void (*infer)(Inference&);
  StepMaker make;
};

// Ops whose shapes follow the same rule are evaluated in the same way; what differs among them is
// their reference column.
constexpr std::array kRows = {
    Row{infer_pointwise, pointwise_step}, Row{infer_where, pointwise_step},
    Row{infer_cast, pointwise_step},      Row{infer_broadcast_to, pointwise_step},
    Row{infer_dropout, dropout_step},     Row{infer_transpose, transpose_step},
    Row{infer_slice, slice_step},         Row{infer_concat, concat_step},
    Row{infer_gather, gather_step},       Row{infer_embedding, gather_step},
    Row{infer_scatter, scatter_step},     Row{infer_reduce, reduce_step},
    Row{infer_softmax, norm_step},        Row{infer_row_norm, norm_step},
    Row{infer_batch_norm, norm_step},     Row{infer_group_norm, norm_step},
    Row{infer_loss, loss_step},           Row{infer_matmul, matmul_step},
    Row{infer_linear, matmul_step},       Row{infer_conv2d, conv2d_step},
    Row{infer_attention, attention_step},
};

}  // namespace

std::unique_ptr<EvaluationStep> make_step(Evaluation& evaluation, const Op& op) {
  const auto* row = std::ranges::find(kRows, op.row->infer, &Row::infer);
  if (row == kRows.end()) {
    throw Error(Fault::kUnavailable,
                in_quotes(op.name) + " is a custom op: nothing says what it computes");
  }
  return row->make(evaluation, op);
}

}  // namespace fusecalc
