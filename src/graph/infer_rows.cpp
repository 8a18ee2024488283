// Shapes and types of reductions, normalisations and losses.

#include <fmt/format.h>

#include <algorithm>

#include "core/checked.hpp"
#include "graph/infer_shared.hpp"

namespace fusecalc {
namespace {

// The shape after reducing the flagged axes.
Shape reduced_shape(const Shape& shape, const std::vector<bool>& reduced, bool keepdim) {
  Shape result;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (!reduced[i]) result.push_back(shape[i]);
    if (reduced[i] && keepdim) result.push_back(1);
  }
  return result;
}

void require_rank(const Inference& op, std::size_t i, std::size_t rank) {
  if (op.shape(i).size() >= rank) return;
  op.fail_input(
      i, fmt::format("{} needs at least {} ax{}", op.describe(i), rank, rank == 1 ? "is" : "es"));
}

}  // namespace

void infer_reduce(Inference& op) {
  op.require_tensors();
  const std::vector<bool> reduced = op.axes(op.shape(0).size());
  DType dtype = op.dtype(0);
  if (op.row().type_rule == TypeRule::kFloat) dtype = op.float_of(dtype);
  if (op.row().type_rule == TypeRule::kAccumulate && !is_float(dtype)) dtype = DType::kI64;
  if (op.row().type_rule == TypeRule::kIndex) dtype = DType::kI64;
  if (op.row().type_rule == TypeRule::kBool) dtype = DType::kBool;
  if (!(op.attributes().correction >= 0)) {
    op.fail_attribute(Attribute::kCorrection, "must not be negative");
  }
  op.work = op.elements(0);
  op.rows = row_layout(op.shape(0), reduced);
  op.outputs.push_back({reduced_shape(op.shape(0), reduced, op.attributes().keepdim), dtype});
  if (op.output_count() == 2) op.outputs.push_back({op.outputs[0].shape, DType::kI64});
}

void infer_softmax(Inference& op) {
  op.require_tensors();
  require_rank(op, 0, 1);
  std::vector<bool> reduced(op.shape(0).size(), false);
  reduced[op.axis(op.shape(0).size(), -1)] = true;
  op.rows = row_layout(op.shape(0), reduced);
  op.outputs.push_back({op.shape(0), op.float_of(op.dtype(0))});
}

void infer_row_norm(Inference& op) {
  op.require_tensors();
  const Shape& shape = op.shape(0);
  require_rank(op, 0, 1);
  const std::size_t rank = shape.size();
  std::size_t first = rank - 1;
  if (op.attributes().axes) {
    const std::vector<bool> named = op.axes(rank);
    first = static_cast<std::size_t>(std::ranges::find(named, true) - named.begin());
    if (std::ranges::find(named.begin() + static_cast<std::ptrdiff_t>(first), named.end(), false) !=
        named.end()) {
      op.fail_attribute(Attribute::kAxes, "must be the last axes");
    }
  } else if (op.input_count() > 1) {
    const std::size_t weight_rank = op.shape(1).size();
    first = weight_rank == 0 || weight_rank > rank ? rank - 1 : rank - weight_rank;
  }
  const Shape normalised(shape.begin() + static_cast<std::ptrdiff_t>(first), shape.end());
  for (std::size_t i = 1; i < op.input_count(); ++i) {
    require_shape(op, i, normalised, "of the normalised axes");
  }
  std::vector<bool> reduced(rank, false);
  std::fill(reduced.begin() + static_cast<std::ptrdiff_t>(first), reduced.end(), true);
  op.rows = row_layout(shape, reduced);
  op.outputs.push_back({shape, op.float_of(op.dtype(0))});
  Shape of_rows = shape;
  std::fill(of_rows.begin() + static_cast<std::ptrdiff_t>(first), of_rows.end(), 1);
  for (std::size_t i = 1; i < op.output_count(); ++i) {
    op.outputs.push_back({of_rows, statistics_type(op, 0)});
  }
}

void infer_batch_norm(Inference& op) {
  op.require_tensors();
  require_rank(op, 0, 2);
  const Shape& shape = op.shape(0);
  for (std::size_t i = 1; i < op.input_count(); ++i) {
    require_shape(op, i, {shape[1]}, "of the channels (axis 1)");
  }
  op.outputs.push_back({shape, op.float_of(op.dtype(0))});
  if (op.attributes().mode == BatchNormMode::kInference) {
    if (op.input_count() != 5)
      op.fail("batch_norm takes x, weight, bias, mean and variance in inference mode");
    if (op.output_count() != 1) op.fail("batch_norm has one output in inference mode");
    op.op_class = OpClass::kPointwise;
    op.passes = 1;
    return;
  }
  const bool running = op.input_count() == 5 && op.output_count() == 5;
  if (op.input_count() != 3 && !running) {
    op.fail(
        "batch_norm takes x, weight and bias in training mode; with the running mean and "
        "variance it has five outputs");
  }
  const bool fits = running || op.output_count() == 1 || op.output_count() == 3;
  if (!fits) op.fail("batch_norm writes either y alone or y, mean and variance");
  std::vector<bool> reduced(shape.size(), true);
  reduced[1] = false;
  op.rows = row_layout(shape, reduced);
  for (std::size_t i = 1; i < op.output_count(); ++i) {
    op.outputs.push_back({{shape[1]}, statistics_type(op, 0)});
  }
}

void infer_group_norm(Inference& op) {
  op.require_tensors();
  require_rank(op, 0, 2);
  const Shape& shape = op.shape(0);
  const std::int64_t groups = op.attributes().groups;
  if (groups < 1 || shape[1] % static_cast<std::uint64_t>(groups) != 0) {
    op.fail_attribute(Attribute::kGroups,
                      fmt::format("{} groups do not divide {} channels", groups, shape[1]));
  }
  for (std::size_t i = 1; i < op.input_count(); ++i) {
    require_shape(op, i, {shape[1]}, "of the channels (axis 1)");
  }
  const auto count = static_cast<std::uint64_t>(groups);
  op.rows.append(shape[0] * count, false);
  op.rows.append(op.elements(0) == 0 ? 0 : op.elements(0) / (shape[0] * count), true);
  op.outputs.push_back({shape, op.float_of(op.dtype(0))});
  for (std::size_t i = 1; i < op.output_count(); ++i) {
    op.outputs.push_back({{shape[0], count}, statistics_type(op, 0)});
  }
}

void infer_loss(Inference& op) {
  op.require_tensors();
  require_rank(op, 0, 1);
  const Shape& scores = op.shape(0);
  const Shape samples(scores.begin(), scores.end() - 1);
  require_shape(op, 1, samples, "of the scores without their last axis (the classes)");
  if (is_float(op.dtype(1))) {
    op.fail_input(1, "class indices must be integers, but " + op.describe(1) + " is " +
                         std::string(name_of(op.dtype(1))));
  }
  const bool whole_rows = op.row().access == Access::kSame;
  std::vector<bool> reduced(scores.size(), false);
  reduced.back() = true;
  op.collapses = op.attributes().reduction != LossReduction::kNone;
  if (whole_rows) {
    op.work = op.elements(0);
    op.rows = row_layout(scores, reduced);
  } else {
    // One score of each row is read.
    op.work = op.elements(1);
    op.reads[0] = std::min(op.elements(0), op.elements(1));
    if (op.collapses) op.rows = row_layout(samples, std::vector<bool>(samples.size(), true));
  }
  op.outputs.push_back({op.collapses ? Shape{} : samples, op.float_of(op.dtype(0))});
  if (op.output_count() == 2) op.outputs.push_back({samples, statistics_type(op, 0)});
}

}  // namespace fusecalc
