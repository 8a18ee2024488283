#include "codegen/matrix_product.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "core/ceil_div.hpp"
#include "graph/product_parts.hpp"

namespace fusecalc {
namespace {

struct BatchAxis {
  std::uint64_t extent = 1;
  std::uint64_t a = 0;
  std::uint64_t b = 0;
};

// Those that lie one after the other in both operands become one.
std::vector<BatchAxis> merged(const std::vector<BatchAxis>& axes) {
  std::vector<BatchAxis> result;
  for (const BatchAxis& axis : axes) {
    if (axis.extent == 1) continue;
    if (!result.empty() && result.back().a == axis.a * axis.extent &&
        result.back().b == axis.b * axis.extent) {
      result.back() = {result.back().extent * axis.extent, axis.a, axis.b};
    } else {
      result.push_back(axis);
    }
  }
  return result;
}

std::optional<MatrixOperand> operand_of(const OpGraph& graph, const Op& op, std::size_t which,
                                        std::uint64_t lines, std::uint64_t depth, bool packed) {
  const TensorId tensor = op.operands[which].tensor;
  const OperandOrder order = operand_order(graph, op, which);
  const auto line = packed ? order.line : distance(graph, tensor, lines, order.line);
  const auto along = packed ? order.depth : distance(graph, tensor, depth, order.depth);
  if (!line || !along) return std::nullopt;
  const auto offset = packed ? std::optional(std::uint64_t{0}) : offset_of(graph, tensor);
  // What a view repeats has no lines.
  if (!offset || (*line == 0 && lines > 1)) return std::nullopt;
  MatrixOperand operand{.tensor = packed ? kNone : graph.tensors[tensor].value, .offset = *offset};
  if (*along == 1 || depth == 1) {
    operand.line = lines == 1 ? depth : *line;
  } else if (*line == 1 || lines == 1) {
    operand.across = true;
    operand.line = *along;
  } else {
    return std::nullopt;
  }
  return operand;
}

// Matrices that share b and follow each other in a are one.
void join_rows(MatrixProduct& product) {
  const auto joins = [&](std::uint64_t distance_a, std::uint64_t distance_b) {
    return distance_b == 0 && !product.a.across && distance_a == product.m * product.a.line;
  };
  if (joins(product.a.inner, product.b.inner)) {
    product.m *= std::exchange(product.inner, product.outer);
    product.a.inner = std::exchange(product.a.outer, 0);
    product.b.inner = std::exchange(product.b.outer, 0);
    product.outer = 1;
    if (product.inner > 1) join_rows(product);
  }
}

// Matrices of groups, of which none is repeated; their rows lie along k.
bool take_groups(const OpGraph& graph, const Op& op, MatrixProduct& product) {
  product.groups = groups_of(graph, op);
  const std::uint64_t matrix = product.n * product.k;
  const auto apart = distance(graph, op.operands[1].tensor, product.groups, matrix);
  if (!apart || product.a.across) return false;
  product.b.outer = product.groups == 1 ? matrix : *apart;
  return product.b.outer > 0;
}

}  // namespace

std::uint64_t MatrixProduct::row_tiles(std::uint64_t rows) const {
  if (groups == 0) return ceil_div(m, rows);
  return (m + std::min(groups + 1, m) * (rows - 1)) / rows;
}

ProductShape MatrixProduct::shape() const {
  if (groups > 0) return grouped_shape({m, n, k, 1, b.across, a.across}, groups);
  return {m, n, k, batches(), b.across, a.across};
}

std::optional<MatrixProduct> product_of_pieces(const OpGraph& graph, const Op& op,
                                               std::uint64_t unit) {
  const TensorId tensor = op.operands[0].tensor;
  const OperandOrder order = operand_order(graph, op, 0);
  const auto b = operand_of(graph, op, 1, op.matrix.columns, op.matrix.depth, false);
  if (!b || order.depth != 1 || op.matrix.batch > 1 || op.matrix.rows < 2) return std::nullopt;
  const auto depth = digits_of(graph, tensor, op.matrix.depth, 1);
  const auto lines = digits_of(graph, tensor, op.matrix.rows, order.line);
  if (!depth || depth->size() != 2 || !lines || lines->size() > 2) return std::nullopt;
  const auto offset = offset_of(graph, tensor);
  const bool repeats =
      depth->front().stride == 0 || lines->front().stride == 0 || lines->back().stride == 0;
  if (!offset || repeats) return std::nullopt;
  const IndexTransform::Axis& along = depth->back();
  if (along.stride != 1 || along.extent % unit != 0) return std::nullopt;
  MatrixProduct product{.m = lines->back().extent,
                        .n = op.matrix.columns,
                        .k = op.matrix.depth,
                        .a = {.tensor = graph.tensors[tensor].value,
                              .offset = *offset,
                              .line = lines->back().stride,
                              .piece = along.extent,
                              .jump = depth->front().stride},
                        .b = *b};
  if (lines->size() == 2) {
    product.outer = lines->front().extent;
    product.a.outer = lines->front().stride;
  }
  return product;
}

std::optional<MatrixProduct> matrix_product(const OpGraph& graph, const Op& op, std::uint64_t rows,
                                            bool packed) {
  MatrixProduct product{
      .m = op.matrix.rows, .n = op.matrix.columns, .k = op.matrix.depth, .a = {}, .b = {}};
  if (graph.tensors[op.outputs[0]].elements == 0 || product.k == 0) return std::nullopt;
  const std::array operands = {op.operands[0].tensor, op.operands[1].tensor};
  const OperandOrder of_a = operand_order(graph, op, 0);
  const OperandOrder of_b = operand_order(graph, op, 1);
  std::vector<BatchAxis> axes;
  const Shape batch = batch_axes(graph, op);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const auto a = packed ? of_a.batch[i] : distance(graph, operands[0], batch[i], of_a.batch[i]);
    const auto b = distance(graph, operands[1], batch[i], of_b.batch[i]);
    if (!a || !b) return std::nullopt;
    axes.push_back({batch[i], *a, *b});
  }
  const bool divides = rows != 0 && product.m % rows == 0;
  if (op.matrix.batch == 1 && !op.attributes->transpose_a && divides) {
    const std::uint64_t matrices = product.m / rows;
    const std::uint64_t own = rows * of_a.line;
    const auto apart = packed ? own : distance(graph, operands[0], matrices, own);
    if (!apart) return std::nullopt;
    axes.push_back({matrices, *apart, 0});
    product.m = rows;
  }
  axes = merged(axes);
  if (axes.size() > 2) return std::nullopt;
  const auto a = operand_of(graph, op, 0, product.m, product.k, packed);
  const auto b = operand_of(graph, op, 1, product.n, product.k, false);
  if (!a || !b) return std::nullopt;
  product.a = *a;
  product.b = *b;
  if (!axes.empty()) {
    product.inner = axes.back().extent;
    product.a.inner = axes.back().a;
    product.b.inner = axes.back().b;
  }
  if (axes.size() == 2) {
    product.outer = axes.front().extent;
    product.a.outer = axes.front().a;
    product.b.outer = axes.front().b;
  }
  if (groups_of(graph, op) > 0) {
    return take_groups(graph, op, product) ? std::optional(product) : std::nullopt;
  }
  if (rows == 0) join_rows(product);
  return rows == 0 || product.m == rows ? std::optional(product) : std::nullopt;
}

}  // namespace fusecalc
