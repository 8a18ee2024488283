// Products and attention.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "core/checked.hpp"
#include "input/onnx/rules.hpp"
#include "input/onnx/shapes.hpp"

namespace fusecalc {
namespace {

using Operand = OnnxImporter::Operand;

bool swaps_last_two(const OnnxKnown& value) {
  const std::size_t rank = value.perm.size();
  if (!value.permuted || rank < 2) return false;
  for (std::size_t i = 0; i + 2 < rank; ++i) {
    if (value.perm[i] != i) return false;
  }
  return value.perm[rank - 2] == rank - 1 && value.perm[rank - 1] == rank - 2;
}

// A matrix, transposed: a view, or what it is a transposed view of.
std::optional<OnnxKnown> transposed_matrix(OnnxImporter& in, const OnnxKnown& matrix) {
  return swaps_last_two(matrix) ? *matrix.permuted : in.permute(matrix, {1, 0});
}

// Refuses factors of which the rows of one are longer than the columns of the other, or whose
// batches differ.
void require_factors(const OnnxImporter& in, const OnnxNode& node, const Shape& a, const Shape& b) {
  const auto batch = [](const Shape& shape) {
    return Shape(shape.begin(), shape.end() - (shape.size() < 2 ? 1 : 2));
  };
  const bool fit = !a.empty() && !b.empty() &&
                   a.back() == (b.size() == 1 ? b[0] : b[b.size() - 2]) &&
                   broadcast(batch(a), batch(b));
  if (fit) return;
  in.fail(node, fmt::format("its inputs of shapes {} and {} cannot be multiplied", to_string(a),
                            to_string(b)));
}

// A matrix that was transposed before is read as it lies. A transposed weight makes a linear.
bool matmul(OnnxImporter& in, const OnnxNode& node) {
  const OnnxKnown* a = in.input(node, 0);
  const OnnxKnown* b = in.input(node, 1);
  if (b == nullptr) return false;
  require_factors(in, node, a->type.shape, b->type.shape);
  const DType dtype = a->type.dtype;  // also of integers of 64 bits
  if (swaps_last_two(*b)) {
    if (b->type.shape.size() == 2 && a->type.shape.size() >= 2) {
      return in.write_as(node, "linear", {a, b->permuted.get()}, {dtype});
    }
    return in.write_as(node, "matmul", {a, b->permuted.get()}, {dtype}, {{"transpose_b", true}});
  }
  return in.write_as(node, "matmul", {a, b}, {dtype});
}

// Products of integers: (a - zero point of a) * (b - zero point of b).
bool whole_matmul(OnnxImporter& in, const OnnxNode& node) {
  const Shape& a = in.input(node, 0)->type.shape;
  const std::size_t second = node.type == "QLinearMatMul" ? 3 : 1;
  const OnnxKnown* b = in.input(node, second);
  if (b == nullptr || a.size() < 2 || b->type.shape.size() < 2) return false;
  const Shape& other = b->type.shape;
  require_factors(in, node, a, other);
  Shape shape = *broadcast({a.begin(), a.end() - 2}, {other.begin(), other.end() - 2});
  shape.push_back(a[a.size() - 2]);
  shape.push_back(other.back());
  const auto elements = checked_elements(shape);
  if (!elements) return false;
  const DType dtype = node.type == "QLinearMatMul" && in.input(node, 7) != nullptr
                          ? in.input(node, 7)->type.dtype
                          : DType::kI32;
  return in.write_custom(node, OpClass::kContract, product_flops(*elements, a.back()),
                         {{shape, dtype}});
}

// The bias of a linear with so many columns: a vector, in a view of it where it is written as a row
// or as one element. Nothing where it differs from row to row.
std::optional<OnnxKnown> column_bias(OnnxImporter& in, const OnnxKnown& c, std::uint64_t columns) {
  const Shape& shape = c.type.shape;
  if (shape.size() == 2 && shape[0] != 1) return std::nullopt;
  const auto row = in.reshape(c, {elements_between(shape, 0, shape.size())});
  if (!row || row->type.shape[0] == columns) return row;
  return in.write_step("expand_view", {&*row},
                       {listed("shape", {static_cast<std::int64_t>(columns)})});
}

// Refuses factors that do not fit, and a bias that does not broadcast to their product.
void require_gemm(const OnnxImporter& in, const OnnxNode& node) {
  Shape a = in.input(node, 0)->type.shape;
  Shape b = in.input(node, 1)->type.shape;
  if (a.size() != 2 || b.size() != 2) {
    in.fail(node, fmt::format("its inputs of shapes {} and {} are no matrices", to_string(a),
                              to_string(b)));
  }
  if (whole_attribute(node, "transA", 0) != 0) std::swap(a[0], a[1]);
  if (whole_attribute(node, "transB", 0) != 0) std::swap(b[0], b[1]);
  require_factors(in, node, a, b);
  const OnnxKnown* c = in.input(node, 2);
  const Shape product = {a[0], b[1]};
  if (c == nullptr || broadcast(c->type.shape, product) == product) return;
  in.fail(node, fmt::format("its bias of shape {} does not broadcast to its product of shape {}",
                            to_string(c->type.shape), to_string(product)));
}

// alpha * a @ b + beta * c: one linear, of views of what is stored the other way round. A row of
// the table has no factors, and no bias that differs from row to row: they are ops of their own.
bool gemm(OnnxImporter& in, const OnnxNode& node) {
  const OnnxKnown* a = in.input(node, 0);
  const OnnxKnown* b = in.input(node, 1);
  const OnnxKnown* c = in.input(node, 2);
  const double alpha = real_attribute(node, "alpha", 1);
  const double beta = c == nullptr ? 0 : real_attribute(node, "beta", 1);
  if (b == nullptr) return false;
  require_gemm(in, node);
  const DType dtype = a->type.dtype;
  std::optional<OnnxKnown> x = *a;
  std::optional<OnnxKnown> weight = *b;
  if (whole_attribute(node, "transA", 0) != 0) x = transposed_matrix(in, *x);
  if (whole_attribute(node, "transB", 0) == 0) weight = transposed_matrix(in, *weight);
  if (!x || !weight) return false;
  std::vector<Operand> inputs = {&*x, &*weight};
  std::optional<OnnxKnown> term;
  if (beta != 0) {
    term = beta == 1 ? *c : in.write_step("mul", {c, beta});
    if (!term) return false;
    const auto bias = alpha == 1 ? column_bias(in, *term, weight->type.shape[0]) : std::nullopt;
    if (bias) return in.write_as(node, "linear", {&*x, &*weight, &*bias}, {dtype});
  }
  if (beta == 0 && alpha == 1) return in.write_as(node, "linear", inputs, {dtype});
  const auto product = in.write_step_as("linear", inputs, dtype);
  if (!product) return false;
  if (beta == 0) return in.write_as(node, "mul", {&*product, alpha}, {dtype});
  if (alpha == 1) return in.write_as(node, "add", {&*product, &*term}, {dtype});
  return in.write_as(node, "fma", {&*product, alpha, &*term}, {dtype});
}

bool einsum(OnnxImporter& in, const OnnxNode& node) {
  const OnnxAttribute* equation = node.find("equation");
  std::vector<const OnnxKnown*> operands;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (in.input(node, i) == nullptr) return false;
    operands.push_back(in.input(node, i));
  }
  if (equation == nullptr || !equation->text) return false;
  const auto result = in.einsum(std::string(*equation->text), operands);
  if (result) in.alias(node, *result);
  return result.has_value();
}

// RNN, GRU and LSTM are one custom op each: of their steps only the products count as arithmetic.
bool recurrent(OnnxImporter& in, const OnnxNode& node) {
  const OnnxKnown* weights = in.input(node, 1);
  const OnnxKnown* recurrence = in.input(node, 2);
  if (weights == nullptr || recurrence == nullptr) return false;
  const TensorType& x = in.input(node, 0)->type;
  const Shape& w = weights->type.shape;     // [directions, gates * hidden, input]
  const Shape& r = recurrence->type.shape;  // [directions, gates * hidden, hidden]
  if (x.shape.size() != 3 || w.size() != 3 || r.size() != 3) return false;
  if (w[0] != r[0] || w[1] != r[1] || w[2] != x.shape[2]) return false;
  const bool batch_first = whole_attribute(node, "layout", 0) != 0;
  const std::uint64_t steps = x.shape[batch_first ? 1 : 0];
  const std::uint64_t batch = x.shape[batch_first ? 0 : 1];
  const std::uint64_t hidden = r[2];
  const Shape every =
      batch_first ? Shape{batch, steps, w[0], hidden} : Shape{steps, w[0], batch, hidden};
  const Shape last = batch_first ? Shape{batch, w[0], hidden} : Shape{w[0], batch, hidden};
  const auto gates = checked_elements({steps, batch, w[0], w[1]});
  std::uint64_t depth = w[2];
  if (!gates || !checked_add(depth, hidden)) return false;
  return in.write_custom(node, OpClass::kOpaque, product_flops(*gates, depth),
                         {{every, x.dtype}, {last, x.dtype}, {last, x.dtype}});
}

constexpr std::array kProductRules = {
    OnnxRuleRow{"MatMul", matmul},
    OnnxRuleRow{"MatMulInteger", whole_matmul},
    OnnxRuleRow{"QLinearMatMul", whole_matmul},
    OnnxRuleRow{"Gemm", gemm},
    OnnxRuleRow{"Einsum", einsum},
    OnnxRuleRow{"RNN", recurrent},
    OnnxRuleRow{"GRU", recurrent},
    OnnxRuleRow{"LSTM", recurrent},
};

}  // namespace

std::span<const OnnxRuleRow> onnx_product_rules() { return kProductRules; }

}  // namespace fusecalc
