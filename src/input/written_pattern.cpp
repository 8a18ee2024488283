#include "input/written_pattern.hpp"

#include <algorithm>

namespace fusecalc {

bool is_set(const ModelGraph::Origin& origin, std::string_view name) {
  return std::ranges::any_of(origin.attributes, [&](const WrittenAttribute& attribute) {
    const auto* flag = std::get_if<bool>(&attribute.value);
    return attribute.name == name && flag != nullptr && *flag;
  });
}

const std::vector<WrittenDim>* list_in(const ModelGraph::Origin& origin, std::string_view name) {
  const auto found = std::ranges::find(origin.attributes, name, &WrittenAttribute::name);
  return found == origin.attributes.end() ? nullptr
                                          : std::get_if<std::vector<WrittenDim>>(&found->value);
}

std::optional<FoundPattern> pattern_instead(const ModelGraph& graph, ModelGraph::TensorId tensor) {
  const ModelGraph::Alternative* instead = graph.alternative(tensor);
  if (instead == nullptr) return std::nullopt;
  for (const std::string_view row : {"rms_norm", "layer_norm", "silu", "gelu"}) {
    auto origin = graph.written_by(instead->same, row);
    if (!origin) continue;
    std::vector<ModelGraph::TensorId> inner = instead->inner;
    inner.push_back(instead->same);
    return FoundPattern{row, std::move(*origin), std::move(inner)};
  }
  return std::nullopt;
}

void find_narrow_pattern(ModelGraph& graph, ModelGraph::TensorId last) {
  auto found = pattern_instead(graph, *tensor_in(graph.written_by(last, "cast")->inputs[0]));
  if (!found) return;
  const ModelType type = graph.type(last);  // a copy: new ops move the graph's tensors
  const auto is_narrow = [&](ModelGraph::TensorId tensor) {
    return graph.type(tensor).shape() == type.shape() && graph.type(tensor).dtype() == type.dtype();
  };
  std::optional<ModelGraph::TensorId> from = tensor_in(found->origin.inputs[0]);
  if (!is_narrow(*from)) {
    const auto widened = graph.written_by(*from, "cast");
    from = widened ? tensor_in(widened->inputs[0]) : std::nullopt;
  }
  if (!from || !is_narrow(*from)) return;
  found->origin.inputs[0] = *from;
  const auto same = graph.op(found->row, found->origin.inputs, found->origin.attributes, type);
  if (same) graph.instead(last, *same, found->inner);
}

}  // namespace fusecalc
