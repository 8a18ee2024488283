#include "codegen/movement.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/elements.hpp"
#include "codegen/indices.hpp"

namespace fusecalc {
namespace {

std::size_t axis_of(const Op& op, std::size_t rank) {
  const std::int64_t axis = op.attributes->axes ? op.attributes->axes->front() : 0;
  return static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(rank) : axis);
}

// From an element of a slice to that of the whole.
IndexTransform slice_map(const Shape& whole, const Shape& part, const Attributes& attributes) {
  std::vector<std::uint64_t> strides = strides_of(whole);
  IndexTransform map;
  const std::size_t count = std::max(attributes.starts.size(), attributes.ends.size());
  for (std::size_t i = 0; i < count; ++i) {
    const auto rank = static_cast<std::int64_t>(whole.size());
    const std::int64_t axis =
        attributes.axes ? (*attributes.axes)[i] : static_cast<std::int64_t>(i);
    const auto at = static_cast<std::size_t>(axis < 0 ? axis + rank : axis);
    const std::int64_t start = attributes.starts.empty() ? 0 : attributes.starts[i];
    const auto first = static_cast<std::uint64_t>(
        start < 0 ? start + static_cast<std::int64_t>(whole[at]) : start);
    map.offset += first * strides[at];
    if (!attributes.steps.empty()) strides[at] *= static_cast<std::uint64_t>(attributes.steps[i]);
  }
  for (std::size_t i = 0; i < part.size(); ++i) map.append(part[i], strides[i]);
  return map;
}

// The index into a table for the element of a result whose axes are those of the table, with the
// axes of `ids` in place of `axis`.
Index gathered(const Scope& scope, TensorId table, TensorId ids, std::size_t axis,
               const Index& at) {
  const Shape& shape = scope.tensor(table).type.shape;
  const std::uint64_t inner = elements_between(shape, axis + 1, shape.size());
  const std::uint64_t outer = elements_between(shape, 0, axis);
  const auto map = [&](std::uint64_t of_outer, std::uint64_t of_ids, std::uint64_t of_inner) {
    IndexTransform result;
    result.append(outer, of_outer);
    result.append(scope.tensor(ids).elements, of_ids);
    result.append(inner, of_inner);
    return result;
  };
  const Value id = element(scope, ids, mapped(scope, at, map(0, 1, 0)));
  const Index base = mapped(scope, at, map(shape[axis] * inner, 0, 0));
  return looked_up(scope, base, id, inner, mapped(scope, at, map(0, 0, 1)));
}

// Every part is read, with its index clamped; then the part that has the element is selected.
Value concatenated(const Scope& scope, const Op& op, const Index& at) {
  const Shape& shape = scope.tensor(op.outputs[0]).type.shape;
  const std::size_t axis = axis_of(op, shape.size());
  const std::uint64_t inner = elements_between(shape, axis + 1, shape.size());
  const std::uint64_t run = shape[axis] * inner;
  const std::uint64_t outer = elements_between(shape, 0, axis);
  const auto map = [&](std::uint64_t of_outer, std::uint64_t of_run) {
    IndexTransform result;
    result.append(outer, of_outer);
    result.append(run, of_run);
    return result;
  };
  const ComputeType type = compute_type(scope.tensor(op.outputs[0]).type.dtype);
  const Index place = mapped(scope, at, map(0, 1));
  const unsigned width = scope.block.width;
  std::uint64_t begin = 0;
  std::string chosen;
  for (const Operand& operand : op.operands) {
    const Tensor& part = scope.tensor(operand.tensor);
    if (part.elements == 0) continue;
    const std::uint64_t length = part.type.shape[axis] * inner;
    const bool whole_groups = begin % width == 0 && length % width == 0 && place.aligned &&
                              place.pattern != LanePattern::kScattered;
    const LanePattern pattern = whole_groups ? place.pattern : LanePattern::kScattered;
    const std::string x = whole_groups ? place.name : place.lane();
    const Index base = mapped(scope, at, map(length, 0));
    const std::string inside = scope.fresh("in");
    std::string& code = whole_groups ? scope.block.before : scope.block.lanes;
    code +=
        fmt::format("const bool {} = {} >= {} && {} < {};\n", inside, x, begin, x, begin + length);
    const Index from =
        scope.define_index(fmt::format("{} ? {} + ({} - {}) : 0", inside,
                                       whole_groups ? base.name : base.lane(), x, begin),
                           pattern, true);
    const std::string text = converted(element(scope, operand.tensor, from), type).text;
    chosen = chosen.empty() ? text : fmt::format("{} ? {} : {}", inside, text, chosen);
    begin += length;
  }
  return scope.define(type, chosen, false);
}

Value gathered_element(const Scope& scope, const Op& op, const Index& at) {
  const auto dtype = [&](std::size_t i) { return scope.tensor(op.operands[i].tensor).type.dtype; };
  const std::size_t which = table_input(op.row->family, dtype(0), dtype(1));
  const bool embeds = op.row->family == OpFamily::kEmbedding;
  const TensorId table = op.operands[which].tensor;
  const std::size_t rank = scope.tensor(op.operands[0].tensor).type.shape.size();
  const std::size_t axis = embeds ? 0 : axis_of(op, rank);
  return element(scope, table, gathered(scope, table, op.operands[1 - which].tensor, axis, at));
}

}  // namespace

Value moved_element(const Scope& scope, OpId id, const Index& at) {
  const Op& op = scope.op(id);
  const TensorId input = op.operands[0].tensor;
  const Shape& shape = scope.tensor(input).type.shape;
  const Shape& result = scope.tensor(op.outputs[0]).type.shape;
  switch (op.row->access) {
    case Access::kSame:
      return element(scope, input, mapped(scope, at, broadcast_map(shape, result)));
    case Access::kPermute:
      return element(scope, input, mapped(scope, at, permutation_map(shape, op.attributes->perm)));
    case Access::kSelect:
      if (op.row->family == OpFamily::kConcat) return concatenated(scope, op, at);
      return element(scope, input, mapped(scope, at, slice_map(shape, result, *op.attributes)));
    case Access::kGather: return gathered_element(scope, op, at);
    case Access::kScatter: break;
  }
  cannot_generate(op, "its result is read in the kernel that writes it");
}

Index scatter_target(const Scope& scope, OpId id, const Index& at) {
  const Op& op = scope.op(id);
  const TensorId table = op.operands[0].tensor;
  const std::size_t axis = axis_of(op, scope.tensor(table).type.shape.size());
  return gathered(scope, table, op.operands[1].tensor, axis, at);
}

Value picked_score(const Scope& scope, OpId id, const Index& at) {
  const auto known = scope.loop.picked.find(id);
  if (known != scope.loop.picked.end()) return known->second;
  const Op& op = scope.op(id);
  const TensorId scores = op.operands[0].tensor;
  const TensorId classes = op.operands[1].tensor;
  IndexTransform rows;
  rows.append(scope.tensor(classes).elements, scope.tensor(scores).type.shape.back());
  const Value target = element(scope, classes, at);
  const Index base = mapped(scope, at, rows);
  return element(scope, scores,
                 looked_up(scope, base, target, 1, {.name = "0", .path = std::nullopt}));
}

}  // namespace fusecalc
