#include "codegen/movement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "codegen/elements.hpp"
#include "codegen/indices.hpp"
#include "codegen/memory_access.hpp"
#include "codegen/relocation.hpp"
#include "codegen/rotary.hpp"
#include "graph/axis.hpp"

namespace fusecalc {
namespace {

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

// One part of a concat: where it begins in the run of all parts, and its length.
struct Part {
  TensorId tensor = kNone;
  std::uint64_t begin = 0;
  std::uint64_t length = 0;
};

std::vector<Part> parts_of(const Scope& scope, const Op& op, std::size_t axis,
                           std::uint64_t inner) {
  std::vector<Part> parts;
  std::uint64_t begin = 0;
  for (const Operand& operand : op.operands) {
    const Tensor& tensor = scope.tensor(operand.tensor);
    const std::uint64_t length = tensor.type.shape[axis] * inner;
    if (tensor.elements > 0) parts.push_back({operand.tensor, begin, length});
    begin += length;
  }
  return parts;
}

// Whether all parts are in memory, in their own order and in elements of one type that has
// addresses.
bool selects_addresses(const Scope& scope, const std::vector<Part>& parts) {
  if (scope.loop.matrix || parts.empty()) return false;
  const DType dtype = scope.tensor(parts[0].tensor).type.dtype;
  return !is_packed(dtype) && std::ranges::all_of(parts, [&](const Part& part) {
    const Tensor& tensor = scope.tensor(part.tensor);
    return tensor.type.dtype == dtype && !scope.view().makes(tensor.value) && tensor.maps.empty();
  });
}

// Selects the address of the element, then reads it: a thread holds one element however many parts
// there are, and touches no other part.
Value selected_by_address(const Scope& scope, const std::vector<Part>& parts, const Index& place,
                          const std::function<Index(std::uint64_t)>& base_of) {
  const DType dtype = scope.tensor(parts[0].tensor).type.dtype;
  const unsigned width = scope.block.width;
  const bool whole_groups = place.aligned && place.pattern != LanePattern::kScattered &&
                            std::ranges::all_of(parts, [&](const Part& part) {
                              return part.begin % width == 0 && part.length % width == 0;
                            });
  const std::string x = whole_groups ? place.name : place.lane();
  const std::string source = scope.fresh("q");
  std::string text;
  for (const Part& part : parts) {
    const Index base = base_of(part.length);
    const std::string address =
        fmt::format("{} + ({} + ({} - {}))", scope.kernel.parameters().input(part.tensor),
                    whole_groups ? base.name : base.lane(), x, part.begin);
    text += text.empty() ? fmt::format("const {}* {} = {};\n", stored_type(dtype), source, address)
                         : fmt::format("if ({} >= {}) {} = {};\n", x, part.begin, source, address);
  }
  (whole_groups ? scope.block.before : scope.block.lanes) += text;
  const LanePattern pattern = whole_groups ? place.pattern : LanePattern::kScattered;
  return load_from(scope, dtype, source, pattern);
}

// The part that has the element is selected by its address, or, where parts are computed, by value:
// then every part is evaluated, with its index clamped.
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
  const std::vector<Part> parts = parts_of(scope, op, axis, inner);
  const auto base_of = [&](std::uint64_t length) { return mapped(scope, at, map(length, 0)); };
  if (selects_addresses(scope, parts)) {
    return converted(selected_by_address(scope, parts, place, base_of), type);
  }
  std::string chosen;
  for (const auto& [tensor, begin, length] : parts) {
    const bool whole_groups = begin % width == 0 && length % width == 0 && place.aligned &&
                              place.pattern != LanePattern::kScattered;
    const LanePattern pattern = whole_groups ? place.pattern : LanePattern::kScattered;
    const std::string x = whole_groups ? place.name : place.lane();
    const Index base = base_of(length);
    const std::string inside = scope.fresh("in");
    std::string& code = whole_groups ? scope.block.before : scope.block.lanes;
    code +=
        fmt::format("const bool {} = {} >= {} && {} < {};\n", inside, x, begin, x, begin + length);
    const Index from =
        scope.define_index(fmt::format("{} ? {} + ({} - {}) : 0", inside,
                                       whole_groups ? base.name : base.lane(), x, begin),
                           pattern, true);
    const std::string text = converted(element(scope, tensor, from), type).text;
    chosen = chosen.empty() ? text : fmt::format("{} ? {} : {}", inside, text, chosen);
  }
  return scope.define(type, chosen, false);
}

Value gathered_element(const Scope& scope, const Op& op, const Index& at) {
  const auto dtype = [&](std::size_t i) { return scope.tensor(op.operands[i].tensor).type.dtype; };
  const std::size_t which = table_input(op.row->family, dtype(0), dtype(1));
  const TensorId table = op.operands[which].tensor;
  const std::size_t axis = axis_of(op, scope.tensor(table).type.shape.size());
  return element(scope, table, gathered(scope, table, op.operands[1 - which].tensor, axis, at));
}

}  // namespace

Value moved_element(const Scope& scope, OpId id, const Index& at) {
  const Op& op = scope.op(id);
  switch (op.row->access) {
    case Access::kSame:
    case Access::kPermute:
    case Access::kSelect: {
      if (op.row->family == OpFamily::kConcat) return concatenated(scope, op, at);
      if (op.row->family == OpFamily::kRotary) return rotated_element(scope, op, at);
      const TensorId input = op.operands[0].tensor;
      if (op.row->access == Access::kSelect && op.row->family != OpFamily::kSlice) {
        return relocated_element(scope, op, at);
      }
      return element(scope, input, op.source ? mapped(scope, at, *op.source) : at);
    }
    case Access::kGather:
      if (op.row->family == OpFamily::kGatherElements) {
        return element(scope, op.operands[0].tensor, named_place(scope, op, at));
      }
      return gathered_element(scope, op, at);
    case Access::kScatter:
    case Access::kWindow: break;
  }
  cannot_generate(op, "its result is read in the kernel that writes it");
}

Index scatter_target(const Scope& scope, OpId id, const Index& at) {
  const Op& op = scope.op(id);
  if (op.row->family == OpFamily::kScatterElements) return named_place(scope, op, at);
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

Value loss_gradient(const Scope& scope, OpId id, const Index& at) {
  const Op& op = scope.op(id);
  const Shape& shape = scope.tensor(op.outputs[0]).type.shape;
  const std::uint64_t classes = shape.back();
  IndexTransform rows;
  rows.append(elements_between(shape, 0, shape.size() - 1), 1);
  rows.append(classes, 0);
  IndexTransform columns;
  columns.append(elements_between(shape, 0, shape.size() - 1), 0);
  columns.append(classes, 1);
  IndexTransform one;
  one.append(scope.tensor(op.outputs[0]).elements, 0);
  const Index row = mapped(scope, at, rows);
  const Value target = converted(element(scope, op.operands[2].tensor, row), ComputeType::kI64);
  const Operand& dy = op.operands[0];
  const bool each = op.attributes->reduction == LossReduction::kNone;
  Value given{.text = {}, .uniform = true, .number = dy.number};
  if (dy.tensor != kNone) {
    given = element(scope, dy.tensor, each ? row : mapped(scope, at, one));
  }
  const Index column = mapped(scope, at, columns);
  const ComputeType type = compute_type(scope.tensor(op.outputs[0]).type.dtype);
  const double samples = static_cast<double>(scope.tensor(op.operands[2].tensor).elements);
  const double factor = op.attributes->reduction == LossReduction::kMean ? -1 / samples : -1;
  return scope.define(
      type,
      fmt::format("(i64){} == {} ? {} * {} : {}", column.lane(), target.text,
                  converted(given, type).text, literal(factor, type), literal(0, type)),
      false);
}

}  // namespace fusecalc
