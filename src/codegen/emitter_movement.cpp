// What the emitter knows of movements: where the element of a result comes from.

#include <fmt/format.h>

#include <algorithm>

#include "codegen/emitter.hpp"

namespace fusecalc {
namespace {

std::size_t axis_of(const Op& op, std::size_t rank) {
  const std::int64_t axis = op.attributes->axes ? op.attributes->axes->front() : 0;
  return static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(rank) : axis);
}

// From an element of a slice to that of the whole.
IndexMap slice_map(const Shape& whole, const Shape& part, const Attributes& attributes) {
  std::vector<std::uint64_t> strides = strides_of(whole);
  IndexMap map;
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

}  // namespace

Value Emitter::movement(const Op& op, const Index& at) {
  const auto shape_of = [&](std::size_t i) -> const Shape& {
    return graph_.tensors[op.operands[i].tensor].type.shape;
  };
  switch (op.row->access) {
    case Access::kSame: return operand(op, 0, at);
    case Access::kPermute:
      return value(op.operands[0].tensor,
                   derive(at, permutation_map(shape_of(0), op.attributes->perm)));
    case Access::kSelect:
      if (op.row->max_inputs > 1) return concat(op, at);
      return value(op.operands[0].tensor,
                   derive(at, slice_map(shape_of(0), graph_.tensors[op.outputs[0]].type.shape,
                                        *op.attributes)));
    case Access::kGather: {
      const auto dtype = [&](std::size_t i) {
        return graph_.tensors[op.operands[i].tensor].type.dtype;
      };
      const std::size_t table = table_input(op.row->family, dtype(0), dtype(1));
      const bool embeds = op.row->family == OpFamily::kEmbedding;
      const std::size_t axis = embeds ? 0 : axis_of(op, shape_of(0).size());
      return value(op.operands[table].tensor, gathered(op, table, 1 - table, axis, at));
    }
    case Access::kScatter: break;
  }
  cannot_generate(op, "its result is read in the kernel that writes it");
}

// The element of the table for the element of a result whose axes are those of the table, with the
// indices' axes in place of `axis`.
Index Emitter::gathered(const Op& op, std::size_t table, std::size_t indices, std::size_t axis,
                        const Index& at) {
  const Tensor& rows = graph_.tensors[op.operands[table].tensor];
  const Tensor& ids = graph_.tensors[op.operands[indices].tensor];
  const std::uint64_t inner = elements_between(rows.type.shape, axis + 1, rows.type.shape.size());
  const std::uint64_t outer = elements_between(rows.type.shape, 0, axis);
  const auto map = [&](std::uint64_t of_outer, std::uint64_t of_ids, std::uint64_t of_inner) {
    IndexMap result;
    result.append(outer, of_outer);
    result.append(ids.elements, of_ids);
    result.append(inner, of_inner);
    return result;
  };
  const Value id = value(op.operands[indices].tensor, derive(at, map(0, 1, 0)));
  const Index base = derive(at, map(rows.type.shape[axis] * inner, 0, 0));
  return looked_up(base, id, inner, derive(at, map(0, 0, 1)));
}

Index Emitter::scatter_target(const Op& op, const Index& at) {
  const Shape& shape = graph_.tensors[op.operands[0].tensor].type.shape;
  return gathered(op, 0, 1, axis_of(op, shape.size()), at);
}

// Every part is looked at, with its index held in range; the part that the element lies in wins.
Value Emitter::concat(const Op& op, const Index& at) {
  const Shape& shape = graph_.tensors[op.outputs[0]].type.shape;
  const std::size_t axis = axis_of(op, shape.size());
  const std::uint64_t inner = elements_between(shape, axis + 1, shape.size());
  const std::uint64_t run = shape[axis] * inner;
  const std::uint64_t outer = elements_between(shape, 0, axis);
  const auto map = [&](std::uint64_t of_outer, std::uint64_t of_run) {
    IndexMap result;
    result.append(outer, of_outer);
    result.append(run, of_run);
    return result;
  };
  const ComputeType type = compute_type(graph_.tensors[op.outputs[0]].type.dtype);
  const Index place = derive(at, map(0, 1));
  std::uint64_t begin = 0;
  std::string chosen;
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    const Tensor& part = graph_.tensors[op.operands[i].tensor];
    if (part.elements == 0) continue;
    const std::uint64_t length = part.type.shape[axis] * inner;
    const bool whole_groups = begin % piece_->width == 0 && length % piece_->width == 0 &&
                              place.aligned && place.pattern != LanePattern::kScattered;
    const LanePattern pattern = whole_groups ? place.pattern : LanePattern::kScattered;
    const std::string x = whole_groups ? place.name : place.lane();
    const Index base = derive(at, map(length, 0));
    const std::string inside = fresh("in");
    std::string& code = pattern == LanePattern::kScattered ? piece_->lanes : piece_->before;
    code +=
        fmt::format("const bool {} = {} >= {} && {} < {};\n", inside, x, begin, x, begin + length);
    const std::string row = pattern == LanePattern::kScattered ? base.lane() : base.name;
    const Index from =
        index(fmt::format("{} ? {} + ({} - {}) : 0", inside, row, x, begin), pattern, true);
    const std::string text = converted(value(op.operands[i].tensor, from), type).text;
    chosen = chosen.empty() ? text : fmt::format("{} ? {} : {}", inside, text, chosen);
    begin += length;
  }
  return define("v", type, chosen, false);
}

Value Emitter::picked(const Op& op, const Index& at) {
  const auto known = picked_.find(static_cast<OpId>(&op - graph_.ops.data()));
  if (known != picked_.end()) return known->second;
  const Shape& shape = graph_.tensors[op.operands[0].tensor].type.shape;
  IndexMap rows;
  rows.append(graph_.tensors[op.operands[1].tensor].elements, shape.back());
  const Value target = value(op.operands[1].tensor, at);
  const Index base = derive(at, rows);
  return value(op.operands[0].tensor,
               looked_up(base, target, 1, {.name = "0", .path = std::nullopt}));
}

}  // namespace fusecalc
