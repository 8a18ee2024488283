#pragma once

#include <span>
#include <vector>

#include "graph/op_graph.hpp"

namespace fusecalc {

// Whether an op may be computed again wherever its results are needed, instead of being stored: a
// pointwise op or a movement, no pooling or scatter, that updates nothing in place, of operands
// that nothing overwrites.
bool may_recompute(const OpGraph& graph, OpId op);

// Ops that are computed again for some of their readers. Both lists are in ascending order.
struct Copies {
  std::vector<OpId> ops;
  std::vector<OpId> readers;  // read the copies, as far as they read these ops
};

// A graph with such copies. Each has the name, and writes tensors of the names, of what it copies.
// The tensors of the first graph keep their ids.
struct Recomputation {
  OpGraph graph;
  std::vector<OpId> original;             // of each op, in the first graph
  std::vector<OpId> id_of;                // of each op of the first graph, in this one
  std::vector<std::vector<OpId>> copies;  // ids of the copies, as they were asked for
};

// The graph has no explicit plan.
Recomputation with_copies(const OpGraph& graph, std::span<const Copies> asked);

}  // namespace fusecalc
