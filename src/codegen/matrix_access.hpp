#pragma once

#include "codegen/scope.hpp"

namespace fusecalc {

// Indices, loads and stores in a loop over a matrix (loop.hpp's MatrixLoop): eight neighbours of a
// row at a time, some of which may lie beyond its last column.

// The index of the matrix's own elements: the loop's, unless that numbers them in another order.
const Index& place_in_matrix(const Scope& scope);
// Rows and columns apart: only rows are ever divided, once for all eight.
Index map_in_matrix(const Scope& scope, const Index& from, const IndexTransform& map);
Value load_in_matrix(const Scope& scope, TensorId tensor, const Index& at);
void store_in_matrix(const Scope& scope, TensorId tensor, const Index& at, const Value& value);

}  // namespace fusecalc
