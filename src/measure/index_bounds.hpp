#pragma once

#include <functional>
#include <vector>

#include "graph/op_graph.hpp"

namespace fusecalc {

// Between which values elements lie, both included.
struct Bounds {
  double low = 0;
  double high = 0;
};

// What lies within both; the higher of the two lower ends where nothing does.
Bounds common(const Bounds& a, const Bounds& b);

using FoundBounds = std::function<void(TensorId input, const Bounds&)>;

// Tells `found` what the inputs of an index may be for the index to be within bounds: of each input
// that it is computed from, maybe more than once. Values of `given` are inputs, also where an op of
// the graph makes them.
//
// It goes back through movements, sums along rows, and any function of elements, of whose results
// alone it asks which operands lead to them. Of two unknown terms of a sum each gets a share, as a
// row and a column of one index do. What is computed in another way may have any value.
void trace_index(const OpGraph& graph, const std::vector<bool>& given, TensorId index,
                 const Bounds& allowed, const FoundBounds& found);

}  // namespace fusecalc
