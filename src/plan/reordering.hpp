#pragma once

#include <optional>

#include "graph/op_graph.hpp"

namespace fusecalc {

// Where a movement stores all elements of one value in another order: from an element of its result
// to that of the value. Nothing for all other ops.
std::optional<StridedMap> reordering_of(const OpGraph& graph, const Op& op);

}  // namespace fusecalc
