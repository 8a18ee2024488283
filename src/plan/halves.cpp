#include "plan/halves.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "plan/siblings.hpp"

namespace fusecalc {
namespace {

// From an element of a half to that of the result.
StridedMap half_map(const Tensor& made, std::uint64_t columns, bool second) {
  StridedMap map;
  map.append(made.elements / (2 * columns), 2 * columns);
  map.append(columns, 1);
  map.offset = second ? columns : 0;
  return map;
}

std::optional<StridedMap> map_of(const Tensor& tensor) {
  std::optional<StridedMap> map;
  for (const StridedMap& next : tensor.maps) {
    map = map ? joined(*map, next) : next;
    if (!map) break;
  }
  return map;
}

// Where no op takes both results, each has tiles of its own (sibling_parts).
std::optional<Halves> of_two_products(const OpGraph& graph, const Kernel& kernel, OpId first,
                                      OpId second) {
  const Op& a = graph.ops[first];
  const Op& b = graph.ops[second];
  const bool alike =
      are_siblings(graph, first, second) && a.matrix.columns == b.matrix.columns &&
      graph.tensors[a.outputs[0]].type.dtype == graph.tensors[b.outputs[0]].type.dtype;
  if (!alike || !sibling_parts(graph, kernel).empty()) return std::nullopt;
  return Halves{.first = graph.ops[first].outputs[0],
                .second = graph.ops[second].outputs[0],
                .columns = graph.ops[first].matrix.columns,
                .other = second};
}

// The op of the kernel that alone reads a product's result, all of it and element by element; kNone
// where there is no such one.
OpId elementwise_reader(const OpGraph& graph, const Kernel& kernel, TensorId value) {
  OpId reader = kNone;
  for (const OpId id : kernel) {
    for (const Outline::Input& input : graph.outline.inputs_of(id)) {
      if (input.value != value) continue;
      const Outline::OpFacts& facts = graph.outline[id];
      const bool whole = input.view == Access::kSame && facts.op_class == OpClass::kPointwise &&
                         facts.access == Access::kSame && facts.work == input.elements &&
                         graph.ops[id].outputs.size() == 1;
      if (!whole || (reader != kNone && reader != id)) return kNone;
      reader = id;
    }
  }
  return reader;
}

}  // namespace

std::optional<Halves> halves_of(const OpGraph& graph, const Kernel& kernel, OpId contraction) {
  bool reads_parts = false;  // most kernels do not, which is told soonest
  for (const OpId id : kernel) {
    const bool second = id != contraction && graph.outline[id].contracts();
    if (second) return of_two_products(graph, kernel, contraction, id);
    for (const Outline::Input& input : graph.outline.inputs_of(id)) {
      reads_parts = reads_parts || input.window != input.value;
    }
  }
  if (!reads_parts) return std::nullopt;
  const Op& product = graph.ops[contraction];
  const std::optional<WeightLines> lines = lines_in_tiles(graph, product);
  if (!lines) return std::nullopt;
  // Lines of the second half begin where the copy engine can.
  const DType type = graph.tensors[product.operands[1].tensor].type.dtype;
  constexpr std::uint64_t kPieceOfTwo = 32;  // bytes, of both halves
  const bool divides = lines == WeightLines::kAlongDepth
                           ? product.matrix.columns % 2 == 0
                           : bytes_of(type, product.matrix.columns) % kPieceOfTwo == 0;
  if (!divides) return std::nullopt;
  const Tensor& made = graph.tensors[product.outputs[0]];
  Halves halves{.columns = product.matrix.columns / 2};
  TensorId whole = product.outputs[0];
  for (OpId next = elementwise_reader(graph, kernel, whole); next != kNone;
       next = elementwise_reader(graph, kernel, whole)) {
    halves.before.push_back(next);
    whole = graph.ops[next].outputs[0];
  }
  for (const OpId id : kernel) {
    for (const Outline::Input& input : graph.outline.inputs_of(id)) {
      if (input.value != whole) continue;
      TensorId& half =
          halves.first != input.window && halves.first != kNone ? halves.second : halves.first;
      if (half == kNone) half = input.window;
      if (half != input.window) return std::nullopt;
    }
  }
  if (halves.second == kNone) return std::nullopt;
  const auto first = map_of(graph.tensors[halves.first]);
  const auto second = map_of(graph.tensors[halves.second]);
  const bool turned = first && first->offset != 0;
  if (turned) std::swap(halves.first, halves.second);
  const bool fits = first == half_map(made, halves.columns, turned) &&
                    second == half_map(made, halves.columns, !turned);
  return fits ? std::optional(halves) : std::nullopt;
}

}  // namespace fusecalc
