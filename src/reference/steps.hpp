#pragma once

#include <memory>

#include "reference/evaluation.hpp"

namespace fusecalc {

// One factory function per op family.
using StepMaker = std::unique_ptr<EvaluationStep> (*)(Evaluation& evaluation, const Op& op);

std::unique_ptr<EvaluationStep> pointwise_step(Evaluation& evaluation, const Op& op);
std::unique_ptr<EvaluationStep> dropout_step(Evaluation& evaluation, const Op& op);
std::unique_ptr<EvaluationStep> concat_step(Evaluation& evaluation, const Op& op);
std::unique_ptr<EvaluationStep> gather_step(Evaluation& evaluation, const Op& op);
std::unique_ptr<EvaluationStep> scatter_step(Evaluation& evaluation, const Op& op);
std::unique_ptr<EvaluationStep> relocation_step(Evaluation& evaluation, const Op& op);
std::unique_ptr<EvaluationStep> rotary_step(Evaluation& evaluation, const Op& op);
std::unique_ptr<EvaluationStep> gather_elements_step(Evaluation& evaluation, const Op& op);
std::unique_ptr<EvaluationStep> placed_step(Evaluation& evaluation, const Op& op);
std::unique_ptr<EvaluationStep> scan_step(Evaluation& evaluation, const Op& op);
std::unique_ptr<EvaluationStep> sort_step(Evaluation& evaluation, const Op& op);
std::unique_ptr<EvaluationStep> reduce_step(Evaluation& evaluation, const Op& op);
std::unique_ptr<EvaluationStep> norm_step(Evaluation& evaluation, const Op& op);
std::unique_ptr<EvaluationStep> loss_step(Evaluation& evaluation, const Op& op);
std::unique_ptr<EvaluationStep> matmul_step(Evaluation& evaluation, const Op& op);
std::unique_ptr<EvaluationStep> grouped_matmul_step(Evaluation& evaluation, const Op& op);
std::unique_ptr<EvaluationStep> scaled_matmul_step(Evaluation& evaluation, const Op& op);
std::unique_ptr<EvaluationStep> convolution_step(Evaluation& evaluation, const Op& op);
std::unique_ptr<EvaluationStep> window_step(Evaluation& evaluation, const Op& op);
std::unique_ptr<EvaluationStep> softmax_backward_step(Evaluation& evaluation, const Op& op);
std::unique_ptr<EvaluationStep> loss_backward_step(Evaluation& evaluation, const Op& op);
std::unique_ptr<EvaluationStep> norm_backward_step(Evaluation& evaluation, const Op& op);
std::unique_ptr<EvaluationStep> attention_step(Evaluation& evaluation, const Op& op);

}  // namespace fusecalc
