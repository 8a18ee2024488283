#include "plan/operand_places.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "graph/axis.hpp"
#include "graph/operand_map.hpp"

namespace fusecalc {
namespace {

// What tells the places that inputs take from those that others do.
class PlaceNumbers {
 public:
  // A map leads from the places to those of a value of so many elements.
  std::uint32_t of(const StridedMap& map, std::uint64_t elements) {
    Key key = {0, elements, map.offset};
    for (const StridedMap::Axis& axis : map.axes) key.insert(key.end(), {axis.extent, axis.stride});
    return of(std::move(key));
  }
  // What a gather takes of its table: the same as others that have equal indices.
  std::uint32_t of(const OpGraph& graph, const Op& op, const Outline::Input& table) {
    // An embedding is a gather along the first axis.
    const bool embeds = op.row->family == OpFamily::kEmbedding;
    const auto family = embeds ? OpFamily::kGather : op.row->family;
    Key key = {static_cast<std::uint64_t>(family)};
    bool found = false;  // the table
    for (const Operand& operand : op.operands) {
      const bool is_table = operand.tensor == table.tensor && !found;
      found = found || is_table;
      if (operand.tensor == kNone || is_table) continue;
      const Tensor& indices = graph.tensors[operand.tensor];
      key.insert(key.end(), {indices.value, indices.window});
    }
    const Shape& shape = graph.tensors[table.tensor].type.shape;
    key.insert(key.end(), shape.begin(), shape.end());
    key.push_back(axis_of(op, shape.size()));
    return of(std::move(key));
  }

 private:
  using Key = std::vector<std::uint64_t>;

  std::uint32_t of(Key key) {
    return numbers_.try_emplace(std::move(key), static_cast<std::uint32_t>(numbers_.size()))
        .first->second;
  }

  std::map<Key, std::uint32_t> numbers_;
};

// An input that takes a known part of its value.
struct PartialInput {
  std::size_t input = 0;
  TensorId window = kNone;  // kNone where the op takes a part of that, too
  StridedMap map;
};

using KnownParts = std::vector<std::optional<GridPart>>;

// What the inputs take in a value of this shape, where it is a grid.
KnownParts grids_of(const std::vector<PartialInput>& inputs, const Shape& shape) {
  KnownParts parts;
  parts.reserve(inputs.size());
  for (const PartialInput& input : inputs) parts.push_back(grid_part(input.map, shape));
  return parts;
}

std::ptrdiff_t known(const KnownParts& parts) {
  return std::ranges::count_if(parts, &std::optional<GridPart>::has_value);
}

// Whether parts have elements in common that would count twice. What is read of equal windows
// counts once in any case.
bool any_overlap(const KnownParts& parts, const std::vector<PartialInput>& inputs) {
  std::vector<const GridPart*> all;
  std::vector<TensorId> windows;
  std::uint64_t apart = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const TensorId window = inputs[i].window;
    const bool again = window != kNone && std::ranges::find(windows, window) != windows.end();
    if (!parts[i] || again) continue;
    windows.push_back(window);
    all.push_back(&*parts[i]);
    apart += parts[i]->elements();
  }
  const std::optional<std::uint64_t> together = elements_of_union(all);
  return together && *together < apart;
}

// Grids of one value, in its own shape or in that of a row: where more of them are known.
struct GridsOfValue {
  KnownParts parts;  // as many as inputs
  bool as_row = false;

  GridsOfValue(const Tensor& tensor, const std::vector<PartialInput>& inputs) {
    constexpr std::size_t kMostInputs = 256;
    if (inputs.size() > kMostInputs) return;
    parts = grids_of(inputs, tensor.type.shape);
    KnownParts of_row = grids_of(inputs, {tensor.elements});
    as_row = known(of_row) > known(parts);
    if (as_row) parts = std::move(of_row);
  }
};

// Whether it is a table of which the op takes what indices name.
bool takes_named(const OpGraph& graph, OpId op, const Outline::Input& input) {
  const Outline::OpFacts& facts = graph.outline[op];
  return facts.moves() && facts.access == Access::kGather && input.touched < input.elements &&
         input.window == input.value;
}

// Which operand of the op this input is.
std::size_t operand_of(const OpGraph& graph, OpId id, const Outline::Input& input) {
  const std::vector<Operand>& operands = graph.ops[id].operands;
  std::ptrdiff_t inputs = &input - graph.outline.inputs_of(id).data();
  std::size_t operand = 0;
  while (operands[operand].tensor == kNone || inputs-- > 0) ++operand;
  return operand;
}

// What a concat takes of an operand for a part of its result.
std::optional<GridPart> part_joined(const OpGraph& graph, const Op& op, std::size_t operand,
                                    const GridPart& result) {
  const auto extent = [&](std::size_t i, std::size_t axis) {
    return graph.tensors[op.operands[i].tensor].type.shape[axis];
  };
  const std::size_t axis = axis_of(op, result.axes.size());
  std::uint64_t begin = 0;
  for (std::size_t i = 0; i < operand; ++i) begin += extent(i, axis);
  return part_within(result, axis, begin, extent(operand, axis));
}

}  // namespace

std::optional<StridedMap> part_taken_by(const OpGraph& graph, const Op& op,
                                        const Outline::Input& input) {
  const Tensor& tensor = graph.tensors[input.tensor];
  const bool whole = input.touched == input.elements;
  if (input.touched == 0 || whole) return std::nullopt;
  const std::optional<StridedMap> map =
      map_to_value(op.source ? *op.source : StridedMap::of(tensor.elements), tensor);
  // Of a part that the op states itself, only the size is known.
  if (!map || map->distinct() != input.touched) return std::nullopt;
  return map;
}

OperandPlaces::OperandPlaces(const OpGraph& graph) : graph_(graph) {
  if (graph.ops.empty()) return;
  inputs_ = graph.outline.inputs_of(0).data();
  PlaceNumbers numbers;
  std::map<TensorId, std::vector<PartialInput>> partial;  // by value
  std::size_t count = 0;
  for (OpId op = 0; op < graph.ops.size(); ++op) {
    for (const Outline::Input& input : graph.outline.inputs_of(op)) {
      std::optional<StridedMap> map = part_taken_by(graph, graph.ops[op], input);
      places_of_.push_back(kNone);
      if (takes_named(graph, op, input)) {
        places_of_.back() = numbers.of(graph, graph.ops[op], input);
      } else if (map) {
        places_of_.back() = numbers.of(*map, input.elements);
        partial[input.value].push_back({.input = count,
                                        .window = graph.ops[op].source ? kNone : input.window,
                                        .map = std::move(*map)});
      }
      ++count;
    }
  }
  const bool any = std::ranges::any_of(places_of_, [](std::uint32_t id) { return id != kNone; });
  if (!any) places_of_.clear();
  for (const auto& [value, inputs] : partial) {
    const GridsOfValue grids(graph_.tensors[value], inputs);
    if (known(grids.parts) == 0) continue;
    part_of_.resize(count, nullptr);
    overlaps_.resize(graph_.tensors.size(), false);
    as_rows_.resize(graph_.tensors.size(), false);
    overlaps_[value] = inputs.size() > 1 && any_overlap(grids.parts, inputs);
    as_rows_[value] = grids.as_row;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const std::optional<GridPart>& part = grids.parts[i];
      if (part) part_of_[inputs[i].input] = &*parts_.insert(*part).first;
    }
  }
}

Shape OperandPlaces::shape_of(TensorId value) const {
  const Tensor& tensor = graph_.tensors[value];
  return !as_rows_.empty() && as_rows_[value] ? Shape{tensor.elements} : tensor.type.shape;
}

OperandPlaces::Image OperandPlaces::image(OpId op, const Outline::Input& input,
                                          const GridPart* result) {
  const auto [found, added] = images_.try_emplace({index_of(input), result});
  if (added) found->second = find_image(op, input, *result);
  return found->second;
}

OperandPlaces::Image OperandPlaces::find_image(OpId id, const Outline::Input& input,
                                               const GridPart& result) {
  const Op& op = graph_.ops[id];
  const std::size_t operand = operand_of(graph_, id, input);
  const Tensor& tensor = graph_.tensors[input.tensor];
  // Of what an op states that it reads, only the number is known.
  const bool stated = op.operands[operand].reads <
                      std::min(tensor.elements, graph_.tensors[op.outputs[0]].elements);
  if (stated) return {};
  std::optional<StridedMap> map = map_of(result, shape_of(op.outputs[0]));
  if (op.row->family == OpFamily::kConcat) {
    const std::optional<GridPart> joined_part =
        grid_part(*map, graph_.tensors[op.outputs[0]].type.shape);
    if (!joined_part) return {};
    const std::optional<GridPart> part = part_joined(graph_, op, operand, *joined_part);
    if (!part) return {.known = true};
    map = map_to_value(map_of(*part, tensor.type.shape), tensor);
  } else {
    map = map_to_value(*map, graph_, op, operand);
  }
  if (!map) return {};
  std::optional<GridPart> part = grid_part(*map, shape_of(input.value));
  if (!part) return {};
  return {.known = true, .part = &*parts_.insert(std::move(*part)).first};
}

}  // namespace fusecalc
