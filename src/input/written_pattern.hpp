#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "input/model_graph.hpp"

namespace fusecalc {

// Numbers below this one stand for minus infinity in masks.
inline constexpr double kMaskedScore = -1e4;

// The most views, one of the other, that patterns are followed through.
inline constexpr int kMostViews = 16;

// What patterns of ops ask of an op that wrote a tensor, and of its inputs.

inline std::optional<ModelGraph::TensorId> tensor_in(const ModelGraph::Input& input) {
  const auto* tensor = std::get_if<ModelGraph::TensorId>(&input);
  return tensor == nullptr ? std::nullopt : std::optional(*tensor);
}

inline std::optional<double> number_in(const ModelGraph::Input& input) {
  const auto* number = std::get_if<double>(&input);
  return number == nullptr ? std::nullopt : std::optional(*number);
}

bool is_set(const ModelGraph::Origin& origin, std::string_view name);
const std::vector<WrittenDim>* list_in(const ModelGraph::Origin& origin, std::string_view name);

// What is read instead of a tensor, where that is a pattern that was found.
struct FoundPattern {
  std::string_view row;
  ModelGraph::Origin origin;
  std::vector<ModelGraph::TensorId> inner;  // what it stands for, and its own result
};
std::optional<FoundPattern> pattern_instead(const ModelGraph& graph, ModelGraph::TensorId tensor);

// Norms that a model file writes out: x / sqrt(mean(x^2) + eps), the same of x - mean(x), and
// casts, a weight and a bias after it. `last` is what an op has just written; where it ends such a
// pattern, a norm is added, which ModelGraph::instead() takes if nothing else needs the inside.
void find_written_norm(ModelGraph& graph, ModelGraph::TensorId last);

// The same of activations: x sigmoid(x); x (erf(x / sqrt(2)) + 1) / 2; and
// x (tanh(sqrt(2 / pi) (x + 0.044715 x^3)) + 1) / 2, with their factors in any order.
void find_written_activation(ModelGraph& graph, ModelGraph::TensorId last);

// The same of rotary embeddings: x cos + turned sin, where `turned` has the other elements of
// pairs, the first of them negated; pairs as (a cos - b sin, b cos + a sin); and both joined with
// elements that stay. The halves of x are pairs, or its neighbours.
void find_written_rotary(ModelGraph& graph, ModelGraph::TensorId last);

// The same where it is computed in wider floats, and `last` is cast back.
void find_narrow_rotary(ModelGraph& graph, ModelGraph::TensorId last);

// The same of either that is computed in wider floats than those which its input was cast of, and
// which the result, `last`, is cast back to.
void find_narrow_pattern(ModelGraph& graph, ModelGraph::TensorId last);

// The sum or mean of everything, of what elementwise ops made of softmaxes, norms or reductions of
// rows: that of each row first, which can be computed in the kernel that has the rows on chip, and
// that of these.
void find_sum_of_rows(ModelGraph& graph, ModelGraph::TensorId last);

}  // namespace fusecalc
