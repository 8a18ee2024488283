#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "graph/op_graph.hpp"
#include "plan/kernel.hpp"
#include "plan/weight_lines.hpp"

namespace fusecalc {

// So many products of one input run in a kernel, which reads that input once.
constexpr std::size_t kMostSiblings = 4;

// How the weights lie of a product of rows and one matrix (linear, or matmul by two axes) that a
// kernel of ours computes in tiles: of 16 and 32-bit floats. Nothing for all other products, and
// where lines across k have no multiple of 16 bytes, for which several would be copied first.
std::optional<WeightLines> lines_in_tiles(const OpGraph& graph, const Op& product);

// Whether two of these read the same rows, and weights that lie alike. For few rows each has a
// kernel that reads its weights faster.
bool are_siblings(const OpGraph& graph, OpId first, OpId second);

// The parts of a kernel whose contractions are siblings, such as projections to queries, keys and
// values: each has one of them, and ops that work on its result alone, or that those need. A tile
// of the kernel is one of a part's. In the order of their contractions. Empty for all other
// kernels: of one contraction, of more than kMostSiblings, where they are no siblings, or an op
// works on the results of two.
std::vector<Kernel> sibling_parts(const OpGraph& graph, const Kernel& kernel);

// The only contraction of a part.
OpId contraction_of(const OpGraph& graph, const Kernel& part);

}  // namespace fusecalc
