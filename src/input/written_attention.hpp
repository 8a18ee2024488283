#pragma once

#include "input/model_graph.hpp"

namespace fusecalc {

// Attention that a model file writes out: softmax(q @ k^T * scale + mask) @ v, also with the
// softmax that gives rows without keys zeros, as PyTorch decomposes it.
//
// `weighted` is what a product has just written. Where it is the last product of such a pattern, an
// attention op is added that computes the same, and ModelGraph::instead() takes it if the scores
// are needed by nothing else.
void find_written_attention(ModelGraph& graph, ModelGraph::TensorId weighted);

}  // namespace fusecalc
