#pragma once

#include <cstdint>
#include <string>

#include "graph/written_graph.hpp"

namespace fusecalc {

// WrittenOp::source and WrittenAttribute::source of an op list: which of two spellings it uses.
inline constexpr std::uint32_t kAsOutput = 1;  // the op writes "output", not "outputs"
inline constexpr std::uint32_t kInAttrs = 1;   // the attribute is inside "attrs"

// The JSON pointer of a place in an op list.
std::string pointer_to(const WrittenGraph& graph, const WrittenPlace& place);

}  // namespace fusecalc
