#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "input/model_graph.hpp"

namespace fusecalc {

// What the attributes `causal` and `window` of attention say of its keys.
struct CausalMask {
  std::optional<std::int64_t> window{};

  std::vector<WrittenAttribute> attributes() const;
};

// A mask that the graph makes of nothing but places (triangles of a number, ranges that are
// compared), where it is that of the attribute `causal`: the last query sees all keys and each
// before it one fewer, or the last ones of these. `blocks`: the mask holds for the pairs that do
// not count. Its last axes are the queries and the keys.
std::optional<CausalMask> causal_mask(const ModelGraph& graph, ModelGraph::TensorId mask,
                                      bool blocks);

}  // namespace fusecalc
