#include "codegen/relocation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "codegen/elements.hpp"
#include "codegen/indices.hpp"
#include "graph/axis.hpp"

namespace fusecalc {
namespace {

// How an axis of a result leads to one of the source.
struct Relocation {
  std::uint64_t extent = 1;  // of the result
  std::uint64_t from = 1;    // of the source
  // The coordinate in the source, given that in the result as {}; empty where it is the same.
  std::string coordinate{};
  // Whether the result's coordinate has a source, as a condition; empty where it always has.
  std::string inside{};
};

std::size_t place_of(std::int64_t axis, std::size_t rank) {
  return static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(rank) : axis);
}

// Padding may be negative: then the source's ends are left out.
void pad(Relocation& axis, std::int64_t before) {
  if (axis.extent == axis.from && before == 0) return;
  axis.coordinate =
      before < 0 ? fmt::format("({{}} + {})", -before) : fmt::format("({{}} - {})", before);
  if (before > 0) axis.inside = fmt::format("{{0}} >= {}", before);
  const std::int64_t end = std::max<std::int64_t>(0, before + static_cast<std::int64_t>(axis.from));
  if (end >= static_cast<std::int64_t>(axis.extent)) return;
  axis.inside += fmt::format("{}{{0}} < {}", axis.inside.empty() ? "" : " && ", end);
}

// A pad of the source's own elements: each of the result's has one.
void pad_with_own(Relocation& axis, std::int64_t before, Border border) {
  if (axis.extent == axis.from) return;
  const auto from = static_cast<std::int64_t>(axis.from);
  if (border == Border::kCircular) {
    axis.coordinate = fmt::format("(({{}} + {}) % {})", before == 0 ? 0 : from - before, from);
    return;
  }
  const bool mirrors = border == Border::kReflect;
  const std::string first = mirrors ? fmt::format("{} - {{0}}", before) : "0";
  const std::string last =
      mirrors ? fmt::format("{} - {{0}}", 2 * (from - 1) + before) : fmt::format("{}", from - 1);
  axis.coordinate = fmt::format("({{0}} < {} ? {} : {{0}} < {} ? {{0}} - {} : {})", before, first,
                                before + from, before, last);
}

void roll(Relocation& axis, std::int64_t shift) {
  const auto extent = static_cast<std::int64_t>(axis.extent);
  const std::int64_t back = extent == 0 ? 0 : (extent - shift % extent) % extent;
  if (back != 0) axis.coordinate = fmt::format("(({{}} + {}) % {})", back, extent);
}

std::vector<Relocation> relocations_of(const Scope& scope, const Op& op) {
  const Shape& from = scope.tensor(op.operands[0].tensor).type.shape;
  const Shape& to = scope.tensor(op.outputs[0]).type.shape;
  const Attributes& attributes = *op.attributes;
  std::vector<Relocation> axes(to.size());
  for (std::size_t i = 0; i < to.size(); ++i) {
    axes[i].extent = to[i];
    axes[i].from = from.size() + i < to.size() ? 1 : from[from.size() + i - to.size()];
  }
  switch (op.row->family) {
    case OpFamily::kPad:
      for (std::size_t i = 0; i < axes.size(); ++i) {
        const std::int64_t before = attributes.before.empty() ? 0 : attributes.before[i];
        if (attributes.border == Border::kConstant) {
          pad(axes[i], before);
        } else {
          pad_with_own(axes[i], before, attributes.border);
        }
      }
      break;
    case OpFamily::kRoll:
      for (std::size_t i = 0; i < attributes.shifts.size(); ++i) {
        roll(axes[place_of((*attributes.axes)[i], axes.size())], attributes.shifts[i]);
      }
      break;
    case OpFamily::kFlip:
      for (Relocation& axis : axes) {
        if (!attributes.axes && axis.extent > 1) {
          axis.coordinate = fmt::format("({} - {{}})", axis.extent - 1);
        }
      }
      if (!attributes.axes) break;
      for (const std::int64_t axis : *attributes.axes) {
        Relocation& flipped = axes[place_of(axis, axes.size())];
        if (flipped.extent > 1) flipped.coordinate = fmt::format("({} - {{}})", flipped.extent - 1);
      }
      break;
    default:  // repeat
      for (Relocation& axis : axes) {
        if (axis.extent != axis.from) axis.coordinate = fmt::format("({{}} % {})", axis.from);
      }
  }
  return axes;
}

bool keeps(const Relocation& axis) { return axis.coordinate.empty() && axis.inside.empty(); }

// A coordinate of the result.
std::string coordinate_of(const std::string& index, std::uint64_t inner, std::uint64_t extent,
                          bool outermost) {
  std::string text = inner == 1 ? index : fmt::format("{} / {}", index, inner);
  if (!outermost) text += fmt::format(" % {}", extent);
  return "(" + text + ")";
}

// Neighbouring axes that stay are one.
std::vector<Relocation> merged(const std::vector<Relocation>& axes) {
  std::vector<Relocation> result;
  for (const Relocation& axis : axes) {
    if (!result.empty() && keeps(axis) && keeps(result.back())) {
      result.back().extent *= axis.extent;
      result.back().from *= axis.from;
    } else {
      result.push_back(axis);
    }
  }
  return result;
}

// The class of a one_hot's result is the coordinate along its last axis.
Value class_flag(const Scope& scope, const Op& op, const Index& at) {
  const Tensor& result = scope.tensor(op.outputs[0]);
  const std::uint64_t classes = result.type.shape.back();
  IndexTransform map;
  map.append(result.elements / classes, 1);
  map.append(classes, 0);
  const Value named = element(scope, op.operands[0].tensor, mapped(scope, at, map));
  return scope.define(compute_type(result.type.dtype),
                      fmt::format("{} == (i64)({} % {})", converted(named, ComputeType::kI64).text,
                                  at.lane(), classes),
                      at.pattern == LanePattern::kUniform && named.uniform);
}

}  // namespace

Value relocated_element(const Scope& scope, const Op& op, const Index& at) {
  if (op.row->family == OpFamily::kOneHot) return class_flag(scope, op, at);
  const std::vector<Relocation> axes = merged(relocations_of(scope, op));
  const TensorId source = op.operands[0].tensor;
  // Groups of neighbours stay together where they lie within the last axes, which stay.
  const unsigned width = scope.block.width;
  const bool stays = !axes.empty() && keeps(axes.back()) && axes.back().extent % width == 0;
  const bool whole = at.pattern == LanePattern::kUnit && at.aligned && stays;
  const LanePattern pattern =
      whole || at.pattern == LanePattern::kUniform ? at.pattern : LanePattern::kScattered;
  const std::string x = pattern == LanePattern::kScattered ? at.lane() : at.name;
  std::string sum;
  std::string inside;
  std::uint64_t inner = 1;   // elements of the result within a step along the axis
  std::uint64_t stride = 1;  // the same of the source
  for (std::size_t i = axes.size(); i-- > 0;) {
    const std::string own = coordinate_of(x, inner, axes[i].extent, i == 0);
    const std::string from =
        axes[i].coordinate.empty() ? own : fmt::format(fmt::runtime(axes[i].coordinate), own);
    sum += fmt::format("{}{} * {}", sum.empty() ? "" : " + ", from, stride);
    if (!axes[i].inside.empty()) {
      inside += fmt::format("{}{}", inside.empty() ? "" : " && ",
                            fmt::format(fmt::runtime(axes[i].inside), own));
    }
    inner *= axes[i].extent;
    stride *= axes[i].from;
  }
  const std::string place_text = sum.empty() ? std::string("0") : sum;
  if (inside.empty()) {
    return element(scope, source, scope.define_index(place_text, pattern, true));
  }
  const std::string flag = scope.fresh("in");
  std::string& code = pattern == LanePattern::kScattered ? scope.block.lanes : scope.block.before;
  code += fmt::format("const bool {} = {};\n", flag, inside);
  const Index place =
      scope.define_index(fmt::format("{} ? {} : 0", flag, place_text), pattern, true);
  const ComputeType type = compute_type(scope.tensor(op.outputs[0]).type.dtype);
  const Value moved = converted(element(scope, source, place), type);
  return scope.define(
      type, fmt::format("{} ? {} : {}", flag, moved.text, literal(op.attributes->value, type)),
      pattern == LanePattern::kUniform && moved.uniform);
}

Index named_place(const Scope& scope, const Op& op, const Index& at) {
  const Shape& table = scope.tensor(op.operands[0].tensor).type.shape;
  const TensorId ids = op.operands[1].tensor;
  const Shape& named = scope.tensor(ids).type.shape;
  const std::size_t axis = axis_of(op, table.size());
  const std::vector<std::uint64_t> strides = strides_of(table);
  IndexTransform others;
  for (std::size_t i = 0; i < named.size(); ++i) {
    others.append(named[i], i == axis ? 0 : strides[i]);
  }
  const Value id = element(scope, ids, at);
  return looked_up(scope, mapped(scope, at, others), id, strides[axis],
                   {.name = "0", .path = std::nullopt});
}

}  // namespace fusecalc
