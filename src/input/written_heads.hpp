#pragma once

#include <cstdint>

#include "input/model_graph.hpp"

namespace fusecalc {

// Keys or values before their heads were repeated for the queries' heads:
// [.., heads, 1, T, D] -> [.., heads, n, T, D] -> [.., heads * n, T, D].
ModelGraph::TensorId unrepeated(ModelGraph& graph, ModelGraph::TensorId tensor,
                                std::uint64_t query_heads);

}  // namespace fusecalc
