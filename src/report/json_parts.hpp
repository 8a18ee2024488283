#pragma once

#include "graph/op_graph.hpp"
#include "json/writer.hpp"

namespace fusecalc {

// Members "dims" and "inputs" of the object that is being written: what a graph was counted for.
// `compare` refuses two documents in which they differ.
void write_conditions(JsonWriter& json, const OpGraph& graph);

}  // namespace fusecalc
