#pragma once

#include "input/model_graph.hpp"

namespace fusecalc {

// Whether a mask that the graph makes of nothing but places (triangles of a number, ranges that are
// compared) is that of the attribute `causal`: the last query sees all keys and each before it one
// fewer. `blocks`: the mask holds for the pairs that do not count. Its last axes are the queries
// and the keys.
bool is_causal_mask(const ModelGraph& graph, ModelGraph::TensorId mask, bool blocks);

}  // namespace fusecalc
