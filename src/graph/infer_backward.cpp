// Shapes and types of gradients; those of convolutions are in infer_convolution.cpp.

#include <fmt/format.h>

#include <algorithm>

#include "core/checked.hpp"
#include "graph/infer_shared.hpp"
#include "graph/windows.hpp"

namespace fusecalc {
namespace {

// An input that counts by its shape alone.
void shape_only(Inference& op, std::size_t i) { op.reads[i] = 0; }

}  // namespace

void infer_softmax_backward(Inference& op) {
  op.require_tensors();
  const Shape& shape = op.shape(1);
  if (shape.empty()) op.fail_input(1, op.describe(1) + " needs at least 1 axis");
  require_shape(op, 0, shape, "of the result");
  std::vector<bool> reduced(shape.size(), false);
  reduced[op.axis(shape.size(), -1)] = true;
  op.rows = row_layout(shape, reduced);
  op.outputs.push_back({shape, op.float_of(promote(op.dtype(0), op.dtype(1)))});
}

void infer_loss_backward(Inference& op) {
  for (const std::size_t i : {std::size_t{1}, std::size_t{2}}) {
    if (op.is_number(i)) op.fail_input(i, "must be a tensor, not a number");
  }
  const Shape& scores = op.shape(1);
  if (scores.empty()) op.fail_input(1, op.describe(1) + " needs at least 1 axis");
  const Shape samples(scores.begin(), scores.end() - 1);
  require_shape(op, 2, samples, "of the scores without their last axis (the classes)");
  if (is_float(op.dtype(2))) {
    op.fail_input(2, fmt::format("class indices must be integers, but {} is {}", op.describe(2),
                                 name_of(op.dtype(2))));
  }
  const bool each = op.attributes().reduction == LossReduction::kNone;
  if (!op.is_number(0)) require_shape(op, 0, each ? samples : Shape{}, "of the loss");
  shape_only(op, 1);
  op.outputs.push_back({scores, op.float_of(op.dtype(1))});
}

void infer_norm_backward(Inference& op) {
  op.require_tensors();
  const bool has_mean = op.row().accumulator == Accumulator::kMoments;
  const std::size_t statistics = has_mean ? 2 : 1;
  const std::size_t weight = 2 + statistics;
  const Shape& x = op.shape(1);
  if (x.size() < (op.row().per_channel ? 2 : 1)) {
    op.fail_input(1, op.describe(1) + " has too few axes");
  }
  require_shape(op, 0, x, "of the result");
  Shape of_rows;
  Shape of_weight;
  if (!op.row().per_channel) {
    // The statistics have extents of 1 where the rows lie, which are the last axes.
    of_rows = op.shape(2);
    std::size_t first = x.size() - 1;
    if (op.input_count() > weight) {
      first = x.size() - std::min(x.size(), op.shape(weight).size());
    } else if (of_rows.size() == x.size()) {
      while (first > 0 && of_rows[first - 1] == 1 && x[first - 1] != 1) --first;
    }
    of_weight = {x.begin() + static_cast<std::ptrdiff_t>(first), x.end()};
    of_rows = x;
    std::fill(of_rows.begin() + static_cast<std::ptrdiff_t>(first), of_rows.end(), 1);
  } else {
    of_weight = {x[1]};
    of_rows = {x[1]};
    if ((op.row().attributes & only(Attribute::kGroups)) != 0) {
      const std::int64_t groups = op.attributes().groups;
      if (groups < 1 || x[1] % static_cast<std::uint64_t>(groups) != 0) {
        op.fail_attribute(Attribute::kGroups,
                          fmt::format("{} groups do not divide {} channels", groups, x[1]));
      }
      of_rows = {x[0], static_cast<std::uint64_t>(groups)};
    }
  }
  for (std::size_t i = 2; i < weight; ++i) require_shape(op, i, of_rows, "of the statistics");
  require_shape(op, weight, of_weight, "of the weight");
  // Normalised x, two sums over rows, their share of each element, and the sums over columns.
  op.total_flops = counted_flops(op, {14, op.elements(1)});
  const DType of_parameters = op.input_count() > weight ? op.dtype(weight) : op.dtype(1);
  for (const std::size_t which : gradients_of(op, has_mean ? 3 : 2)) {
    op.outputs.push_back(which == 0 ? TensorType{x, op.float_of(op.dtype(1))}
                                    : TensorType{of_weight, op.float_of(of_parameters)});
  }
}

void infer_attention_backward(Inference& op) {
  op.require_tensors();
  const Shape& q = op.shape(1);
  const Shape& k = op.shape(2);
  const Shape& v = op.shape(3);
  const std::size_t rank = q.size();
  if (rank < 3) op.fail_input(1, op.describe(1) + " must be [..., heads, queries, head size]");
  if (k.size() != rank || k[rank - 1] != q[rank - 1]) {
    op.fail_input(2, fmt::format("{} does not match {}", op.describe(2), op.describe(1)));
  }
  if (v.size() != rank || v[rank - 2] != k[rank - 2]) {
    op.fail_input(3, fmt::format("{} does not match {}", op.describe(3), op.describe(2)));
  }
  Shape result = q;
  result.back() = v.back();
  require_shape(op, 0, result, "of the result");
  require_shape(op, 4, result, "of the result");
  require_shape(op, 5, {q.begin(), q.end() - 1}, "of the queries without their last axis");
  Shape scores = q;
  scores.back() = k[rank - 2];
  if (op.input_count() == 7 && broadcast(op.shape(6), scores) != scores) {
    op.fail_input(6, fmt::format("the mask {} does not broadcast to the scores {}", op.describe(6),
                                 to_string(scores)));
  }
  // Five products: the scores, and the gradients of the weights, of v, of q and of k.
  const std::uint64_t depth = counted_flops(op, {3, q.back()}) + counted_flops(op, {2, v.back()});
  const std::optional<std::uint64_t> elements = checked_elements(scores);
  if (!elements) op.fail("the scores are too large");
  std::uint64_t pairs = *elements;
  const std::uint64_t rows = q[rank - 2];
  if (op.attributes().causal && rows > 0 && k[rank - 2] > 0) {
    pairs = pairs / (rows * k[rank - 2]) * visible_pairs(rows, k[rank - 2], {});
  }
  op.total_flops = counted_flops(op, {2, pairs, depth});
  for (std::size_t i = 1; i <= 3; ++i)
    op.outputs.push_back({op.shape(i), op.float_of(op.dtype(i))});
}

void infer_embedding_backward(Inference& op) {
  op.require_tensors();
  const std::vector<std::int64_t>& size = op.attributes().size;
  if (size.size() != 1 || size[0] < 0) {
    op.fail_attribute(Attribute::kSize, "must be the number of rows of the table");
  }
  if (is_float(op.dtype(1))) {
    op.fail_input(1, "indices must be integers, but " + op.describe(1) + " is " +
                         std::string(name_of(op.dtype(1))));
  }
  const Shape& rows = op.shape(0);
  if (rows.empty()) op.fail_input(0, op.describe(0) + " needs at least 1 axis");
  if (Shape(rows.begin(), rows.end() - 1) != op.shape(1)) {
    op.fail_input(1, fmt::format("{} must have the shape of {} without its last axis",
                                 op.describe(1), op.describe(0)));
  }
  op.total_flops = op.elements(0);
  op.outputs.push_back(
      {{static_cast<std::uint64_t>(size[0]), rows.back()}, op.float_of(op.dtype(0))});
}

void infer_pool_backward(Inference& op) {
  op.require_tensors();
  const Shape& dy = op.shape(0);
  Shape x = dy;
  if (op.input_count() > 1) {
    x = op.shape(1);
    require_shape(op, 2, dy, "of the result");
    shape_only(op, 1);
  } else {
    const std::vector<std::int64_t>& size = op.attributes().size;
    const std::size_t count = spatial_axes(op.attributes(), dy.size());
    const bool fits = !size.empty() && count < dy.size() &&
                      std::ranges::none_of(size, [](std::int64_t n) { return n < 0; });
    if (!fits) op.fail_attribute(Attribute::kSize, "must be the extents of the spatial axes of x");
    for (std::size_t i = 0; i < count; ++i) {
      x[dy.size() - count + i] = static_cast<std::uint64_t>(along(size, i, 0));
    }
  }
  if (x.empty() || dy.size() != x.size()) {
    op.fail_input(0,
                  fmt::format("{} must have as many axes as {}", op.describe(0), op.describe(1)));
  }
  std::uint64_t taps = 1;
  for (std::size_t i = 0; i < spatial_axes(op.attributes(), x.size()); ++i) {
    const auto extent = static_cast<std::uint64_t>(along(op.attributes().kernel, i, 1));
    taps = counted_flops(op, {taps, extent});
  }
  const std::optional<std::uint64_t> elements = checked_elements(x);
  if (!elements) op.fail("the result is too large");
  op.total_flops = counted_flops(op, {op.row().flops, std::max(op.elements(0), *elements), taps});
  op.outputs.push_back({x, op.float_of(op.dtype(0))});
}

}  // namespace fusecalc
