#pragma once

#include <cstdint>
#include <optional>

#include "graph/op_graph.hpp"

namespace fusecalc {

// How the second operand of a product lies in memory, a matrix of two axes without gaps, or one for
// each group one after the other: a line along k for each column of the result, as the weights of
// linear, or a line of columns for each k.
enum class WeightLines : std::uint8_t { kAlongDepth, kAcrossDepth };

// Nothing where it has other axes, or where views leave no such lines.
std::optional<WeightLines> weight_lines(const OpGraph& graph, const Op& product);

}  // namespace fusecalc
