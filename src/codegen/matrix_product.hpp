#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "codegen/index_map.hpp"
#include "graph/op_graph.hpp"
#include "plan/operand_order.hpp"
#include "plan/tiling.hpp"
#include "plan/view_steps.hpp"

namespace fusecalc {

// An operand of a product as it lies in memory; distances in elements.
struct MatrixOperand {
  TensorId tensor = kNone;   // the value at the end of the views; none: a copy of it in order
  std::uint64_t offset = 0;  // of its first element
  bool across = false;       // its lines run along m (or n), not along k
  std::uint64_t line = 0;    // from one to the next
  std::uint64_t inner = 0;   // from one matrix of the inner batch dimension to the next; 0: shared
  std::uint64_t outer = 0;
  // Where its lines are in pieces along k: elements of one, and the distance to the next.
  std::uint64_t piece = 0;
  std::uint64_t jump = 0;
};

// result[outer][inner][m][n] = sum over k of a[m][k] b[k][n]. The result lies in that order. Rows
// in groups (grouped_matmul) are one matrix, whose groups have matrices of b of their own, b.outer
// apart.
struct MatrixProduct {
  std::uint64_t m = 1;
  std::uint64_t n = 1;
  std::uint64_t k = 1;
  std::uint64_t outer = 1;
  std::uint64_t inner = 1;
  MatrixOperand a;
  MatrixOperand b;
  std::uint64_t groups = 0;  // 0: one matrix of b for all rows

  std::uint64_t batches() const { return outer * inner; }
  // Matrices of b along the outer batch dimension.
  std::uint64_t outer_of_b() const { return std::max(outer, groups); }
  // Tiles above each other, at most: those of groups begin where these do, and rows of no group
  // count as one.
  std::uint64_t row_tiles(std::uint64_t rows) const;
  // With groups, a batch for each as if they had equally many rows.
  ProductShape shape() const;
};

// The product that a matmul or a linear is, where its operands' views leave lines of neighbours:
// nothing otherwise. Where `rows` is not 0, a matrix has that many rows; otherwise as many as
// possible. `packed`: as if a were stored in its own order, ignoring its views (a.tensor is none
// then).
std::optional<MatrixProduct> matrix_product(const OpGraph& graph, const Op& op,
                                            std::uint64_t rows = 0, bool packed = false);

// The same for an a whose lines are in pieces of a multiple of `unit` elements, and b one matrix:
// heads side by side that were apart. All batches are in `outer`.
std::optional<MatrixProduct> product_of_pieces(const OpGraph& graph, const Op& op,
                                               std::uint64_t unit);

}  // namespace fusecalc
