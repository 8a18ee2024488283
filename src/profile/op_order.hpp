#pragma once

#include <vector>

#include "graph/op_graph.hpp"

namespace fusecalc {

// All ops of a graph, each after those that it needs.
using OpOrder = std::vector<OpId>;

OpOrder written_order(const OpGraph& graph);

// As compilers run ops: products and attention as they are written, and others, such as a norm, a
// mask or a table of angles, where they are first used.
OpOrder order_of_use(const OpGraph& graph);

// A product or attention.
bool is_heavy(const Op& op);

}  // namespace fusecalc
