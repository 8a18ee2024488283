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

// From the values that an index may have to those of the tensors that it is computed from: back
// through movements, sums along rows, and any function of elements, of whose results alone it asks
// which operands lead to them. Of two unknown terms of a sum each gets a share, as a row and a
// column of one index do. What is computed in another way may have any value.
class IndexBounds {
 public:
  // Tensors in `given` are inputs, whoever makes them.
  IndexBounds(const OpGraph& graph, const std::vector<bool>& given)
      : graph_(graph), given_(given) {}

  // Calls `found` for each input that the index is computed from, maybe more than once.
  using Found = std::function<void(TensorId input, const Bounds&)>;
  void trace(TensorId index, const Bounds& allowed, const Found& found) const;

 private:
  class Search;

  const OpGraph& graph_;
  const std::vector<bool>& given_;
};

}  // namespace fusecalc
