#pragma once

#include <cstddef>
#include <cstdint>

#include "graph/op_graph.hpp"

namespace fusecalc {

// What a product takes beside its two operands.

// What it adds to its result, or kNone.
TensorId bias_of(const Op& product);

// Into how many groups it divides its rows, each with a matrix of its own; 0: it does not.
std::uint64_t groups_of(const OpGraph& graph, const Op& product);

// What an operand is scaled by: one number for each block of the matrix.
struct Scales {
  TensorId tensor = kNone;  // kNone: nothing scales it
  std::uint64_t lines = 1;  // blocks along m (or n)
  std::uint64_t depth = 1;  // along k
};
Scales scales_of(const OpGraph& graph, const Op& product, std::size_t which);

// Whether sums of products can be scaled in place of operands: no scale changes along k, and each
// is for all or for a single row or column. True where nothing is scaled.
bool scales_sums(const OpGraph& graph, const Op& product);

// How many neighbouring columns of the second operand have one scale; 0 where sums can be scaled.
std::uint64_t scaled_columns(const OpGraph& graph, const Op& product);

// Whether it scales products whose sum becomes an integer.
bool scales_integers(const OpGraph& graph, const Op& product);

}  // namespace fusecalc
