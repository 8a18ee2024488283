#pragma once

#include <memory>

#include "measure/evaluation.hpp"

namespace fusecalc {

// The families of ops, one maker each.
using StepMaker = std::unique_ptr<Step> (*)(Evaluation& evaluation, const Op& op);

std::unique_ptr<Step> pointwise_step(Evaluation& evaluation, const Op& op);
std::unique_ptr<Step> dropout_step(Evaluation& evaluation, const Op& op);
std::unique_ptr<Step> transpose_step(Evaluation& evaluation, const Op& op);
std::unique_ptr<Step> slice_step(Evaluation& evaluation, const Op& op);
std::unique_ptr<Step> concat_step(Evaluation& evaluation, const Op& op);
std::unique_ptr<Step> gather_step(Evaluation& evaluation, const Op& op);
std::unique_ptr<Step> scatter_step(Evaluation& evaluation, const Op& op);
std::unique_ptr<Step> reduce_step(Evaluation& evaluation, const Op& op);
std::unique_ptr<Step> norm_step(Evaluation& evaluation, const Op& op);
std::unique_ptr<Step> loss_step(Evaluation& evaluation, const Op& op);
std::unique_ptr<Step> matmul_step(Evaluation& evaluation, const Op& op);
std::unique_ptr<Step> conv2d_step(Evaluation& evaluation, const Op& op);
std::unique_ptr<Step> attention_step(Evaluation& evaluation, const Op& op);

}  // namespace fusecalc
