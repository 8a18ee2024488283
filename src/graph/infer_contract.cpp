// Shapes and types of contractions.

#include <fmt/format.h>

#include <algorithm>

#include "core/checked.hpp"
#include "graph/infer_shared.hpp"

namespace fusecalc {
namespace {

MatrixShape matrix_of(std::uint64_t batch, std::uint64_t rows, std::uint64_t columns,
                      std::uint64_t depth) {
  return {.batch = batch, .rows = rows, .columns = columns, .depth = depth};
}

Shape leading(const Shape& shape) { return {shape.begin(), shape.end() - 2}; }

// The shape of a matrix that a product may take transposed, as it is multiplied.
Shape factor_shape(const Inference& op, std::size_t i, bool transposed) {
  Shape shape = op.shape(i);
  if (transposed) std::swap(shape[shape.size() - 2], shape[shape.size() - 1]);
  return shape;
}

void require_depth(const Inference& op, std::uint64_t a, std::uint64_t b) {
  if (a == b) return;
  op.fail_input(1, fmt::format("{} does not match {}: the inner dimensions are {} and {}",
                               op.describe(1), op.describe(0), b, a));
}

// One scale, or one for each of the equal blocks that a matrix is cut into.
void require_scales(const Inference& op, std::size_t i, const Shape& matrix) {
  if (op.elements(i) == 1) return;
  const Shape& scales = op.shape(i);
  bool fits = scales.size() == 2;
  for (std::size_t axis = 0; fits && axis < 2; ++axis) {
    fits = scales[axis] > 0 && matrix[axis] % scales[axis] == 0;
  }
  if (fits) return;
  op.fail_input(i, fmt::format("{} must have 1 element, or 2 axes that divide those of the matrix "
                               "{} which it scales",
                               op.describe(i), to_string(matrix)));
}

}  // namespace

void infer_matmul(Inference& op) {
  op.require_tensors();
  Shape a = op.shape(0);
  Shape b = op.shape(1);
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
    if (op.shape(i).empty()) op.fail_input(i, op.describe(i) + " needs at least 1 axis");
  }
  // As in NumPy, a vector is a single row on the left and a single column on the right.
  const bool row_vector = a.size() == 1;
  const bool column_vector = b.size() == 1;
  if (row_vector) a.insert(a.begin(), 1);
  if (column_vector) b.push_back(1);
  if (op.attributes().transpose_a && !row_vector) std::swap(a[a.size() - 2], a[a.size() - 1]);
  if (op.attributes().transpose_b && !column_vector) std::swap(b[b.size() - 2], b[b.size() - 1]);
  const std::uint64_t rows = a[a.size() - 2];
  const std::uint64_t depth = a.back();
  const std::uint64_t columns = b.back();
  require_depth(op, depth, b[b.size() - 2]);
  const std::optional<Shape> batch = broadcast(leading(a), leading(b));
  if (!batch) {
    op.fail_input(1, fmt::format("the batch axes of {} do not broadcast with those of {}",
                                 op.describe(1), op.describe(0)));
  }
  Shape shape = *batch;
  const std::optional<std::uint64_t> batches = checked_elements(shape);
  if (!batches) op.fail("the result is too large");
  if (!row_vector) shape.push_back(rows);
  if (!column_vector) shape.push_back(columns);
  // All batches of rows that one matrix multiplies are rows of one product, as those of linear.
  const bool shares_matrix = b.size() == 2 && !op.attributes().transpose_a;
  std::uint64_t all_rows = rows;
  if (shares_matrix && !checked_multiply(all_rows, *batches)) op.fail("the result is too large");
  op.matrix = matrix_of(shares_matrix ? 1 : *batches, all_rows, columns, depth);
  op.outputs.push_back({shape, product_type(op.dtype(0), op.dtype(1))});
}

void infer_linear(Inference& op) {
  op.require_tensors();
  Shape shape = op.shape(0);
  const Shape& weight = op.shape(1);
  if (shape.empty()) op.fail_input(0, op.describe(0) + " needs at least 1 axis");
  if (weight.size() != 2) op.fail_input(1, op.describe(1) + " must be a matrix [out, in]");
  if (weight[1] != shape.back()) {
    op.fail_input(1, fmt::format("{} is [out, in], and in = {} does not match the last axis of {}",
                                 op.describe(1), weight[1], op.describe(0)));
  }
  if (op.input_count() == 3 && op.shape(2) != Shape{weight[0]}) {
    op.fail_input(2, fmt::format("{} must have the shape [{}]", op.describe(2), weight[0]));
  }
  const std::uint64_t depth = shape.back();
  shape.back() = weight[0];
  op.matrix = matrix_of(1, elements_between(shape, 0, shape.size() - 1), weight[0], depth);
  op.outputs.push_back({shape, product_type(op.dtype(0), op.dtype(1))});
}

void infer_grouped_matmul(Inference& op) {
  op.require_tensors();
  const bool transposed = op.attributes().transpose_b;
  const Shape& a = op.shape(0);
  if (a.size() != 2) op.fail_input(0, op.describe(0) + " must be a matrix [rows, k]");
  if (op.shape(1).size() != 3) {
    op.fail_input(
        1, fmt::format("{} must be [groups, {}]", op.describe(1), transposed ? "n, k" : "k, n"));
  }
  const Shape b = factor_shape(op, 1, transposed);
  require_depth(op, a[1], b[1]);
  op.require_indices(2, "offsets");
  require_shape(op, 2, {b[0]}, "with an offset for each group");
  // The matrices of groups without rows are not read: each row needs one, at most.
  const std::uint64_t matrices = std::min(a[0], b[0]);
  op.reads[1] = matrices * elements_between(b, 1, 3);
  op.matrix = matrix_of(1, a[0], b[2], a[1]);
  op.outputs.push_back({{a[0], b[2]}, product_type(op.dtype(0), op.dtype(1))});
}

void infer_scaled_matmul(Inference& op) {
  op.require_tensors();
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
    if (op.shape(i).size() != 2) op.fail_input(i, op.describe(i) + " must be a matrix");
  }
  const Shape& a = op.shape(0);
  const Shape b = factor_shape(op, 1, op.attributes().transpose_b);
  require_depth(op, a[1], b[0]);
  require_scales(op, 2, a);
  require_scales(op, 3, b);
  require_shape(op, 4, {b[1]}, "with a number for each column");
  op.matrix = matrix_of(1, a[0], b[1], a[1]);
  op.outputs.push_back({{a[0], b[1]}, product_type(op.dtype(0), op.dtype(1))});
}

// Of a window, only the keys that some query sees are read; a mask of them, too.
void count_visible_keys(Inference& op, std::uint64_t queries, std::uint64_t keys) {
  if (!op.attributes().window) return;
  if (!op.attributes().causal) op.fail_attribute(Attribute::kWindow, "needs \"causal\": true");
  if (*op.attributes().window < 1) op.fail_attribute(Attribute::kWindow, "must be 1 or more");
  const auto window = static_cast<std::uint64_t>(*op.attributes().window);
  if (queries == 0 || window >= keys || keys - window < queries) return;
  const std::uint64_t visible = window + queries - 1;
  for (std::size_t i = 1; i < op.input_count(); ++i) {
    const bool along_keys = i < 3 || op.shape(i).back() == keys;
    if (along_keys) op.reads[i] = op.elements(i) / keys * visible;
  }
}

void infer_attention(Inference& op) {
  op.require_tensors();
  const Shape& q = op.shape(0);
  const Shape& k = op.shape(1);
  const Shape& v = op.shape(2);
  const std::size_t rank = q.size();
  if (rank < 3) op.fail_input(0, op.describe(0) + " must be [..., heads, queries, head size]");
  for (const std::size_t i : {std::size_t{1}, std::size_t{2}}) {
    const Shape& other = op.shape(i);
    const bool same_batch =
        other.size() == rank && std::equal(q.begin(), q.end() - 3, other.begin());
    if (!same_batch) {
      op.fail_input(
          i, fmt::format("{} must have the batch axes of {}", op.describe(i), op.describe(0)));
    }
  }
  const std::uint64_t heads = q[rank - 3];
  const std::uint64_t kv_heads = k[rank - 3];
  if (kv_heads == 0 || heads % kv_heads != 0) {
    op.fail_input(
        1, fmt::format("{} query heads are not a multiple of {} key heads", heads, kv_heads));
  }
  if (k[rank - 1] != q[rank - 1]) {
    op.fail_input(1, fmt::format("{} must have the head size {} of the queries", op.describe(1),
                                 q[rank - 1]));
  }
  if (v[rank - 3] != kv_heads || v[rank - 2] != k[rank - 2]) {
    op.fail_input(2, fmt::format("{} must have the heads and the length of {}", op.describe(2),
                                 op.describe(1)));
  }
  Shape scores = q;
  scores.back() = k[rank - 2];
  if (op.input_count() == 4 && broadcast(op.shape(3), scores) != scores) {
    op.fail_input(3, fmt::format("the mask {} does not broadcast to the scores {}", op.describe(3),
                                 to_string(scores)));
  }
  count_visible_keys(op, q[rank - 2], k[rank - 2]);
  Shape shape = q;
  shape.back() = v[rank - 1];
  const std::optional<std::uint64_t> batches = checked_elements({q.begin(), q.end() - 2});
  std::uint64_t depth = q[rank - 1];
  // Scores and weighted values: both products run over the keys.
  if (!batches || !checked_add(depth, v[rank - 1])) op.fail("the result is too large");
  op.matrix = matrix_of(*batches, q[rank - 2], k[rank - 2], depth);
  // Weights of integer scores are fractions.
  op.outputs.push_back({shape, op.float_of(product_type(op.dtype(0), op.dtype(2)))});
  if (op.output_count() == 2) {
    op.outputs.push_back({{q.begin(), q.end() - 1}, statistics_type(op, 0)});
  }
}

}  // namespace fusecalc
