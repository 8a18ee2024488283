#pragma once

#include "graph/op_graph.hpp"

namespace fusecalc {

// Sets the readers of each value and what each op must run before and after: producers run before
// readers, and readers of a value before the op that overwrites it.
void link_ops(OpGraph& graph);

}  // namespace fusecalc
