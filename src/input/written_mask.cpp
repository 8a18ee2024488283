#include "input/written_mask.hpp"

#include <string_view>
#include <utility>
#include <vector>

#include "input/written_pattern.hpp"

namespace fusecalc {
namespace {

using TensorId = ModelGraph::TensorId;

// For each axis of `coarse`, past which axis of `fine` its parts end; nothing if it has no parts.
std::optional<std::vector<std::size_t>> parts_of_axes(const Shape& coarse, const Shape& fine) {
  std::vector<std::size_t> ends;
  std::size_t next = 0;
  for (const std::uint64_t extent : coarse) {
    std::uint64_t together = 1;
    const std::size_t begin = next;
    while (next < fine.size() && (next == begin || together < extent)) together *= fine[next++];
    if (together != extent) return std::nullopt;
    ends.push_back(next);
  }
  return next == fine.size() ? std::optional(std::move(ends)) : std::nullopt;
}

// A condition in the place of a number where it does not hold, or does.
std::optional<TensorId> masked_sum(ModelGraph& graph, const ScoreMask& condition, TensorId tensor,
                                   TensorId added) {
  std::vector<ModelGraph::Input> inputs = {tensor, added, condition.blocked};
  if (condition.blocks) std::swap(inputs[1], inputs[2]);
  const auto made = graph.op("where", std::move(inputs), {}, std::size_t{1});
  return made ? std::optional(made->front()) : std::nullopt;
}

}  // namespace

ScoreMask mask_of(const ModelGraph& graph, TensorId added) {
  const ScoreMask sum{.tensor = added};
  const auto choice = graph.written_by(added, "where");
  if (!choice) return sum;
  const auto condition = tensor_in(choice->inputs[0]);
  const auto first = number_in(choice->inputs[1]);
  const auto second = number_in(choice->inputs[2]);
  if (!condition || !first || !second) return sum;
  const bool blocks = *second == 0 && *first < kMaskedScore;
  if (!blocks && !(*first == 0 && *second < kMaskedScore)) return sum;
  return {.tensor = *condition,
          .condition = true,
          .blocks = blocks,
          .blocked = blocks ? *first : *second};
}

bool splits(const Shape& fine, const Shape& coarse) {
  return parts_of_axes(coarse, fine).has_value();
}

std::optional<TensorId> with_split_axes(ModelGraph& graph, TensorId tensor, const Shape& coarse,
                                        const Shape& fine) {
  if (coarse == fine) return tensor;
  const auto ends = parts_of_axes(coarse, fine);
  const Shape shape = graph.type(tensor).shape();
  if (!ends || shape.size() > coarse.size()) return std::nullopt;
  const std::size_t missing = coarse.size() - shape.size();
  Shape split;
  for (std::size_t axis = 0; axis < coarse.size(); ++axis) {
    const std::uint64_t extent = axis < missing ? 1 : shape[axis - missing];
    for (std::size_t i = axis == 0 ? 0 : (*ends)[axis - 1]; i < (*ends)[axis]; ++i) {
      split.push_back(extent == 1 ? 1 : fine[i]);
    }
  }
  return reshaped(graph, tensor, model_type(std::move(split), graph.type(tensor).dtype()));
}

std::optional<JoinedMasks> join_masks(ModelGraph& graph, std::span<const ScoreMask> masks,
                                      const Shape& scores) {
  JoinedMasks result;
  std::vector<std::pair<ScoreMask, TensorId>> conditions;
  const auto join = [&](std::string_view row, TensorId tensor) {
    if (!result.tensor) return result.tensor = tensor, true;
    const auto both = graph.op(row, {*result.tensor, tensor}, {}, std::size_t{1});
    if (both) result.tensor = both->front();
    return both.has_value();
  };
  for (const ScoreMask& mask : masks) {
    auto causal = causal_mask(graph, mask.tensor, mask.blocks);
    if (causal && (!result.causal || !result.causal->window || !causal->window)) {
      if (result.causal && !causal->window) causal->window = result.causal->window;
      result.causal = causal;
      continue;
    }
    auto tensor = with_split_axes(graph, mask.tensor, mask.scores, scores);
    if (!tensor) return std::nullopt;
    if (graph.type(*tensor).dtype() == DType::kBool) {
      conditions.emplace_back(mask, *tensor);
      continue;
    }
    if (mask.factor != 1) {
      const ModelType type = graph.type(*tensor);  // a copy: new ops move the graph's tensors
      tensor = graph.op("mul", {*tensor, mask.factor}, {}, type);
    }
    const bool same = tensor && (!result.tensor ||
                                 graph.type(*result.tensor).dtype() == graph.type(*tensor).dtype());
    if (!same || !join("add", *tensor)) return std::nullopt;
  }
  for (const auto& [mask, tensor] : conditions) {
    if (result.tensor && graph.type(*result.tensor).dtype() != DType::kBool) {
      result.tensor = masked_sum(graph, mask, tensor, *result.tensor);
      if (!result.tensor) return std::nullopt;
      continue;
    }
    const ModelType type = graph.type(tensor);
    const auto counted = mask.blocks ? graph.op("logical_not", {tensor}, {}, type) : tensor;
    if (!counted || !join("logical_and", *counted)) return std::nullopt;
  }
  return result;
}

}  // namespace fusecalc
