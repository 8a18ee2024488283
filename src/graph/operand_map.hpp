#pragma once

#include <cstddef>
#include <optional>

#include "graph/op_graph.hpp"
#include "graph/strided_map.hpp"

namespace fusecalc {

// From an element of an op's result to the one of an operand that it is made of. Nothing where that
// depends on values, or where it is made of several.
std::optional<StridedMap> operand_map(const OpGraph& graph, const Op& op, std::size_t operand);

}  // namespace fusecalc
