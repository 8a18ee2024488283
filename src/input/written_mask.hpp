#pragma once

#include <optional>
#include <span>

#include "input/causal_mask.hpp"
#include "input/model_graph.hpp"

namespace fusecalc {

// What the scores of attention that is written out are increased by, or a condition of those that
// count.
struct ScoreMask {
  ModelGraph::TensorId tensor = 0;
  bool condition = false;
  bool blocks = false;  // the condition is of those that do not count
  double blocked = 0;   // the number in their place
  double factor = 1;    // of what is added
  Shape scores{};       // to which it is broadcast
};

// The mask that adds a tensor; 0 or minus infinity by a condition is the condition.
ScoreMask mask_of(const ModelGraph& graph, ModelGraph::TensorId added);

// Whether one shape has the axes of the other, some of them split in several.
bool splits(const Shape& fine, const Shape& coarse);

// What is broadcast to a shape, as it is broadcast to one that splits its axes; nothing where that
// moves elements.
std::optional<ModelGraph::TensorId> with_split_axes(ModelGraph& graph, ModelGraph::TensorId tensor,
                                                    const Shape& coarse, const Shape& fine);

// Masks as what attention reads: attributes where they are made of places alone, and one tensor.
struct JoinedMasks {
  std::optional<ModelGraph::TensorId> tensor{};
  std::optional<CausalMask> causal{};
};

// Nothing if they cannot be one. `scores` splits the axes of all.
std::optional<JoinedMasks> join_masks(ModelGraph& graph, std::span<const ScoreMask> masks,
                                      const Shape& scores);

}  // namespace fusecalc
