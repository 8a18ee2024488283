#include "plan/overlaps.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace fusecalc {
namespace {

// An input that takes a known part of its value.
struct PartialInput {
  std::size_t input = 0;
  TensorId window = kNone;  // kNone where the op takes a part of that, too
  StridedMap map;
};

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
    Key key = {static_cast<std::uint64_t>(op.row->family)};
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
    if (op.attributes->axes) {
      for (const std::int64_t axis : *op.attributes->axes) {
        key.push_back(static_cast<std::uint64_t>(axis));
      }
    }
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

using KnownParts = std::vector<std::optional<GridPart>>;

// What the inputs take, where it is a grid of the value, be it in its shape or in a row.
KnownParts grids_of(const Tensor& value, const std::vector<PartialInput>& inputs) {
  KnownParts most;
  std::ptrdiff_t known = 0;
  for (const Shape& shape : {value.type.shape, Shape{value.elements}}) {
    KnownParts parts;
    for (const PartialInput& input : inputs) parts.push_back(grid_part(input.map, shape));
    const std::ptrdiff_t grids = std::ranges::count_if(
        parts, [](const std::optional<GridPart>& part) { return part.has_value(); });
    if (grids <= known) continue;
    known = grids;
    most = std::move(parts);
  }
  return most;
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

// Whether it is a table of which the op takes what indices name.
bool takes_named(const OpGraph& graph, OpId op, const Outline::Input& input) {
  const Outline::OpFacts& facts = graph.outline[op];
  return facts.moves() && facts.access == Access::kGather && input.touched < input.elements &&
         input.window == input.value;
}

}  // namespace

std::optional<StridedMap> part_taken_by(const OpGraph& graph, const Op& op,
                                        const Outline::Input& input) {
  const Tensor& tensor = graph.tensors[input.tensor];
  const bool whole = input.touched == input.elements;
  if (input.touched == 0 || whole || tensor.maps.size() > 1) return std::nullopt;
  // Without a map it is the first elements that the tensor shows.
  const StridedMap shown =
      tensor.maps.empty() ? StridedMap::of(tensor.elements) : tensor.maps.front();
  const std::optional<StridedMap> map = op.source ? joined(*op.source, shown) : shown;
  // Of a part that the op states itself, only the size is known.
  if (!map || map->distinct() != input.touched) return std::nullopt;
  return map;
}

Overlaps::Overlaps(const OpGraph& graph) {
  constexpr std::size_t kMostInputs = 256;
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
  for (const auto& [value, inputs] : partial) {
    if (inputs.size() < 2 || inputs.size() > kMostInputs) continue;
    const KnownParts parts = grids_of(graph.tensors[value], inputs);
    if (!any_overlap(parts, inputs)) continue;
    part_of_.resize(count, kNone);
    overlaps_.resize(graph.tensors.size(), false);
    overlaps_[value] = true;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!parts[i]) continue;
      const auto known = std::ranges::find(parts_, *parts[i]);
      part_of_[inputs[i].input] = static_cast<std::uint32_t>(known - parts_.begin());
      if (known == parts_.end()) parts_.push_back(*parts[i]);
    }
  }
}

}  // namespace fusecalc
