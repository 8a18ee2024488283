#pragma once

#include "core/output.hpp"
#include "graph/written_graph.hpp"

namespace fusecalc {

// Writes a graph as an op list, one tensor and one op to a line.
void write_op_list(const WrittenGraph& graph, Output& output);

}  // namespace fusecalc
