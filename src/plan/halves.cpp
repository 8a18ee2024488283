#include "plan/halves.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace fusecalc {
namespace {

bool has_tiles(const OpGraph& graph, const Op& product) {
  if (product.row->family != OpFamily::kLinear) return false;
  const Tensor& rows = graph.tensors[product.operands[0].tensor];
  const Tensor& weights = graph.tensors[product.operands[1].tensor];
  const Tensor& made = graph.tensors[product.outputs[0]];
  const DType type = rows.type.dtype;
  const bool known =
      type == DType::kBf16 || type == DType::kF16 || type == DType::kF32 || type == DType::kTf32;
  return known && weights.type.dtype == type && weights.maps.empty() && is_float(made.type.dtype) &&
         made.type.dtype != DType::kF64 && made.elements > 0 && product.matrix.depth > 0;
}

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

// Whether two products have the same tiles and read the same rows. For few rows each has a kernel
// that reads its weights faster.
bool share_tiles(const OpGraph& graph, OpId first, OpId second) {
  constexpr std::uint64_t kFewRows = 64;
  const Op& a = graph.ops[first];
  const Op& b = graph.ops[second];
  if (!has_tiles(graph, a) || !has_tiles(graph, b)) return false;
  const Tensor& made = graph.tensors[a.outputs[0]];
  return a.operands[0].tensor == b.operands[0].tensor && a.matrix.columns == b.matrix.columns &&
         made.type.dtype == graph.tensors[b.outputs[0]].type.dtype &&
         made.elements > kFewRows * a.matrix.columns;
}

// Whether an op needs both products, directly or not. The kernel's ops are in an order that can
// run.
bool meet(const OpGraph& graph, const Kernel& kernel, OpId first, OpId second) {
  std::vector<OpId> of_first = {first};
  std::vector<OpId> of_second = {second};
  bool met = false;
  for (const OpId id : kernel) {
    const auto needs = [&](const std::vector<OpId>& ops) {
      return std::ranges::any_of(graph.ops[id].operands, [&](const Operand& operand) {
        return operand.tensor != kNone &&
               std::ranges::find(ops, graph.value_of(operand.tensor).producer) != ops.end();
      });
    };
    const bool one = needs(of_first);
    const bool other = needs(of_second);
    if (one) of_first.push_back(id);
    if (other) of_second.push_back(id);
    met = met || (one && other);
  }
  return met;
}

std::optional<Halves> of_two_products(const OpGraph& graph, const Kernel& kernel, OpId first,
                                      OpId second) {
  if (!share_tiles(graph, first, second) || !meet(graph, kernel, first, second)) {
    return std::nullopt;
  }
  return Halves{.first = graph.ops[first].outputs[0],
                .second = graph.ops[second].outputs[0],
                .columns = graph.ops[first].matrix.columns,
                .other = second};
}

// The pointwise ops that need the result, in order; nothing if there are many.
std::optional<std::vector<OpId>> pointwise_readers(const OpGraph& graph, OpId product) {
  constexpr std::size_t kMany = 32;
  std::vector<OpId> found;
  std::vector<OpId> open = {product};
  while (!open.empty()) {
    const OpId id = open.back();
    open.pop_back();
    for (const TensorId output : graph.ops[id].outputs) {
      for (const OpId reader : graph.readers[output]) {
        const bool pointwise = graph.ops[reader].op_class == OpClass::kPointwise;
        if (!pointwise || std::ranges::find(found, reader) != found.end()) continue;
        if (found.size() == kMany) return std::nullopt;
        found.push_back(reader);
        open.push_back(reader);
      }
    }
  }
  std::ranges::sort(found);
  return found;
}

}  // namespace

bool may_be_halves(const OpGraph& graph, OpId first, OpId second) {
  if (!share_tiles(graph, first, second)) return false;
  const auto of_first = pointwise_readers(graph, first);
  const auto of_second = pointwise_readers(graph, second);
  if (!of_first || !of_second) return true;
  return std::ranges::any_of(*of_first,
                             [&](OpId id) { return std::ranges::binary_search(*of_second, id); });
}

std::optional<Halves> halves_of(const OpGraph& graph, const Kernel& kernel, OpId contraction) {
  const Op& product = graph.ops[contraction];
  if (!has_tiles(graph, product)) return std::nullopt;
  for (const OpId id : kernel) {
    const bool second = id != contraction && graph.ops[id].op_class == OpClass::kContract;
    if (second) return of_two_products(graph, kernel, contraction, id);
  }
  if (product.matrix.columns % 2 != 0) return std::nullopt;
  const Tensor& made = graph.tensors[product.outputs[0]];
  Halves halves{.columns = product.matrix.columns / 2};
  for (const OpId id : kernel) {
    for (const Outline::Input& input : graph.outline.inputs_of(id)) {
      if (input.value != product.outputs[0]) continue;
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
