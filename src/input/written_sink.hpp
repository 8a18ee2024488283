#pragma once

#include <optional>

#include "input/model_graph.hpp"

namespace fusecalc {

// Sinks of attention that a model file writes out: one more score in each row, beside those of the
// keys, which takes a part of the weights and has no value.

// The weights that a tensor shows all but the last column of; or nothing.
std::optional<ModelGraph::TensorId> before_last_column(const ModelGraph& graph,
                                                       ModelGraph::TensorId tensor);

struct ScoresAndSink {
  ModelGraph::TensorId scores = 0;
  ModelGraph::TensorId sink = 0;  // with one column
};
// What a softmax reads: scores joined with a sink. That the maximum of a row is subtracted from all
// of it changes no weight.
std::optional<ScoresAndSink> scores_beside_sink(const ModelGraph& graph,
                                                ModelGraph::TensorId joined);

// The result of an attention less the share of the sink: times 1 / (1 + exp(sink - logsumexp)).
std::optional<ModelGraph::TensorId> less_sink(ModelGraph& graph, ModelGraph::TensorId result,
                                              ModelGraph::TensorId logsumexp,
                                              ModelGraph::TensorId sink);

}  // namespace fusecalc
