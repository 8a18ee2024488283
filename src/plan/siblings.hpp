#pragma once

#include <cstddef>
#include <vector>

#include "graph/op_graph.hpp"
#include "plan/kernel.hpp"

namespace fusecalc {

// So many products of one input run in a kernel, which reads that input once.
constexpr std::size_t kMostSiblings = 4;

// Whether an op is a linear layer that a kernel of ours computes in tiles: of 16 and 32-bit floats,
// and of weights as they lie in memory.
bool has_tiles(const OpGraph& graph, const Op& product);

// Whether two of these read the same rows. For few rows each has a kernel that reads its weights
// faster.
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
