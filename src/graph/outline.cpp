#include "graph/outline.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "graph/op_graph.hpp"
#include "graph/product_parts.hpp"

namespace fusecalc {
namespace {

// Assigns one id to equal row layouts, and 0 to an empty one.
class RowIds {
 public:
  std::uint32_t id_of(const RowLayout& rows) {
    key_.clear();
    for (const RowLayout::MergedAxis& axis : rows.axes)
      key_.emplace_back(axis.extent, axis.reduced);
    const auto [known, added] = ids_.try_emplace(key_, static_cast<std::uint32_t>(layouts_.size()));
    if (added) layouts_.push_back(rows);
    return known->second;
  }
  // By their ids.
  std::vector<RowLayout> layouts() && { return std::move(layouts_); }

 private:
  using Key = std::vector<std::pair<std::uint64_t, bool>>;
  std::map<Key, std::uint32_t> ids_ = {{Key{}, 0}};
  std::vector<RowLayout> layouts_ = {RowLayout{}};
  Key key_;
};

Access view_of(const Tensor& tensor) {
  if (tensor.window == tensor.value) return Access::kSame;
  return std::ranges::any_of(tensor.maps, &StridedMap::permutes) ? Access::kPermute
                                                                 : Access::kSelect;
}

bool touches_empty(const OpGraph& graph, const Op& op) {
  const auto empty = [&](TensorId id) { return id != kNone && graph.tensors[id].elements == 0; };
  return std::ranges::any_of(op.outputs, empty) ||
         std::ranges::any_of(op.operands, empty, &Operand::tensor);
}

// What the blocks of one launch cover, however few elements each takes.
bool too_large(const OpGraph& graph, const Op& op) {
  constexpr std::uint64_t kMostElements = std::uint64_t{1} << 38U;
  constexpr std::uint64_t kMostExtent = std::uint64_t{1} << 30U;  // of a contraction
  constexpr std::uint64_t kMostGroups = 1024;  // whose places a block holds on chip
  const auto many = [&](TensorId id) {
    return id != kNone && graph.tensors[id].elements > kMostElements;
  };
  const MatrixShape& matrix = op.matrix;
  return std::ranges::any_of(op.outputs, many) ||
         std::ranges::any_of(op.operands, many, &Operand::tensor) ||
         std::max({matrix.batch, matrix.rows, matrix.columns, matrix.depth}) > kMostExtent ||
         groups_of(graph, op) > kMostGroups;
}

// Distinct elements. A slice may take the same ones several times, of a view that repeats them.
std::uint64_t touched_of(const OpGraph& graph, const Op& op, const Operand& operand) {
  const Tensor& tensor = graph.tensors[operand.tensor];
  std::uint64_t touched = std::min(operand.reads, tensor.shown);
  const bool all = op.source && operand.reads == graph.tensors[op.outputs[0]].elements;
  if (!all || tensor.maps.size() != 1) return touched;
  const std::optional<StridedMap> map = joined(*op.source, tensor.maps.front());
  return map ? std::min(touched, map->distinct()) : touched;
}

}  // namespace

Outline::Outline(const OpGraph& graph) {
  RowIds rows;
  ops_.reserve(graph.ops.size() + 1);
  for (const Op& op : graph.ops) {
    const bool empty = touches_empty(graph, op);
    ops_.push_back(
        {.first_input = static_cast<std::uint32_t>(inputs_.size()),
         .first_result = static_cast<std::uint32_t>(results_.size()),
         .rows = rows.id_of(op.rows),
         .family = op.row->family,
         .op_class = op.op_class,
         .access = op.row->access,
         .passes = op.passes,
         .holds_rows = op.row->holds_rows,
         .row_inputs = op.row->row_inputs,
         .opaque = op.row->family == OpFamily::kCustom || op.row->op_class == OpClass::kOpaque,
         .has_kernel =
             op.row->has_kernel && !empty && !too_large(graph, op) && !scales_integers(graph, op),
         .empty = empty,
         .work = op.work});
    for (const Operand& operand : op.operands) {
      if (operand.tensor == kNone) continue;
      const Tensor& tensor = graph.tensors[operand.tensor];
      const TensorId id = tensor.value;
      const Tensor& value = graph.tensors[id];
      inputs_.push_back({.tensor = operand.tensor,
                         .value = id,
                         .storage = value.storage,
                         .window = tensor.window,
                         .producer = value.producer,
                         .dtype = value.type.dtype,
                         .output = value.output,
                         .view = view_of(tensor),
                         .touched = touched_of(graph, op, operand),
                         .elements = value.elements,
                         .size = tensor.elements,
                         .shown = tensor.shown,
                         .bytes = value.bytes});
    }
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      const TensorId id = op.outputs[i];
      const Tensor& tensor = graph.tensors[id];
      const bool in_input = tensor.storage != id && graph.tensors[tensor.storage].producer == kNone;
      results_.push_back({.tensor = id,
                          .storage = tensor.storage,
                          .patched_by = tensor.patched_by,
                          .dtype = tensor.type.dtype,
                          .always_needed = tensor.output || in_input,
                          .output = tensor.output,
                          .readers = static_cast<std::uint32_t>(graph.readers[id].size()),
                          .elements = tensor.elements,
                          .bytes = tensor.bytes,
                          .writes = op.writes[i].most,
                          .left_alone = tensor.elements - op.writes[i].least});
    }
  }
  ops_.push_back({.first_input = static_cast<std::uint32_t>(inputs_.size()),
                  .first_result = static_cast<std::uint32_t>(results_.size())});
  layouts_ = std::move(rows).layouts();
  relate_windows(graph);
}

// A window may be shown by several views, which were made in different ways: the smallest one that
// any of them was taken from is the outer one.
void Outline::relate_windows(const OpGraph& graph) {
  const auto for_parts = [&](const auto& relate) {
    for (const Tensor& tensor : graph.tensors) {
      if (tensor.window == tensor.value) continue;
      const TensorId outer = graph.tensors[tensor.view_of].window;
      if (outer != tensor.value) relate(counted(tensor.window), counted(outer));
    }
  };
  const auto shown = [&](TensorId window) { return graph.tensors[window].shown; };
  counted_.assign(graph.tensors.size(), kNone);
  outer_.assign(graph.tensors.size(), kNone);
  for_parts([&](TensorId part, TensorId whole) {
    if (part != whole && shown(part) == shown(whole)) counted_[part] = whole;
  });
  // What is shown is an upper bound: only larger ones are outer, so that no circle can come about.
  for_parts([&](TensorId part, TensorId whole) {
    TensorId& outer = outer_[part];
    const bool larger = shown(whole) > shown(part);
    if (larger && (outer == kNone || shown(whole) < shown(outer))) outer = whole;
  });
}

}  // namespace fusecalc
