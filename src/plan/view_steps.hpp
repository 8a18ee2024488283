#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/op_graph.hpp"

namespace fusecalc {

// The distance between neighbours along one axis of a tensor, in its value's memory; `stride` is
// what it is in the tensor's own order. Nothing where a view breaks the axis up.
std::optional<std::uint64_t> distance(const OpGraph& graph, TensorId tensor, std::uint64_t extent,
                                      std::uint64_t stride);

// Where its first element is in its value's memory. Nothing where views leave no single distance.
std::optional<std::uint64_t> offset_of(const OpGraph& graph, TensorId tensor);

// Counting along one axis of a tensor, as counting through its value's memory: along several axes,
// outermost first, where views divide it.
std::optional<std::vector<StridedMap::Axis>> digits_of(const OpGraph& graph, TensorId tensor,
                                                       std::uint64_t extent, std::uint64_t stride);

}  // namespace fusecalc
