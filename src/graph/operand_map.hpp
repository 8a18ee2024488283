#pragma once

#include <cstddef>
#include <optional>

#include "graph/op_graph.hpp"
#include "graph/strided_map.hpp"

namespace fusecalc {

// From an element of an op's result to the one of an operand that it is made of. Nothing where that
// depends on values, or where it is made of several.
std::optional<StridedMap> operand_map(const OpGraph& graph, const Op& op, std::size_t operand);

// The map, which leads to elements of the tensor, on to those of its value. Nothing where one map
// does not tell them.
std::optional<StridedMap> map_to_value(const StridedMap& map, const Tensor& tensor);
// The map, which leads to elements of the op's result, on to those of the operand's value.
std::optional<StridedMap> map_to_value(const StridedMap& map, const OpGraph& graph, const Op& op,
                                       std::size_t operand);

}  // namespace fusecalc
