#include "codegen/matrix_access.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace fusecalc {
namespace {

// A map's axes above and below a number of elements.
struct MatrixMap {
  IndexTransform rows;
  IndexTransform columns;
};

// Nothing where no axis ends at `columns` elements.
std::optional<MatrixMap> split(const IndexTransform& map, std::uint64_t columns) {
  std::vector<IndexTransform::Axis> below;  // innermost first
  std::uint64_t elements = 1;
  std::size_t i = map.axes.size();
  std::optional<IndexTransform::Axis> rest;
  for (; i > 0 && elements < columns; --i) {
    IndexTransform::Axis axis = map.axes[i - 1];
    if (columns % elements != 0) return std::nullopt;
    const std::uint64_t room = columns / elements;
    if (axis.extent > room) {
      if (axis.extent % room != 0) return std::nullopt;
      rest = {axis.extent / room, axis.stride * room};
      axis.extent = room;
    }
    below.push_back(axis);
    elements *= axis.extent;
  }
  // What is repeated all over has no axes.
  if (elements != columns && !map.axes.empty()) return std::nullopt;
  MatrixMap parts;
  for (std::size_t k = 0; k < i; ++k) parts.rows.append(map.axes[k].extent, map.axes[k].stride);
  if (rest) parts.rows.append(rest->extent, rest->stride);
  for (; !below.empty(); below.pop_back()) {
    parts.columns.append(below.back().extent, below.back().stride);
  }
  parts.rows.offset = map.offset;
  return parts;
}

// Whether the rows from `period` on are those before again.
bool repeats(const IndexTransform& rows, std::uint64_t period) {
  std::uint64_t below = 1;
  for (std::size_t i = rows.axes.size(); i > 0; --i) {
    const IndexTransform::Axis& axis = rows.axes[i - 1];
    below *= axis.extent;
    if (axis.stride != 0 && below > period) return false;
  }
  return true;
}

// Of groups of neighbours along the innermost of the columns' axes.
unsigned alignment_of(const MatrixMap& parts) {
  std::uint64_t bits = parts.rows.offset | 8U;
  for (const IndexTransform::Axis& axis : parts.rows.axes) bits |= axis.stride;
  const std::vector<IndexTransform::Axis>& columns = parts.columns.axes;
  for (std::size_t i = 0; i + 1 < columns.size(); ++i) bits |= columns[i].stride;
  return static_cast<unsigned>(bits & (~bits + 1));
}

// The name of a number in 64 bits or, if all that a map makes of it fits, its 32-bit name.
std::string_view narrowest(const IndexTransform& map, std::string_view wide,
                           std::string_view narrow) {
  std::uint64_t last = map.offset;
  for (const IndexTransform::Axis& axis : map.axes) last += (axis.extent - 1) * axis.stride;
  return last <= std::numeric_limits<std::uint32_t>::max() ? narrow : wide;
}

// Whether groups of eight columns, from multiples of eight on, stay groups of neighbours.
bool keeps_eights(const IndexTransform& columns) {
  constexpr std::uint64_t kEight = 8;
  const IndexTransform::Axis& inner = columns.axes.back();
  return inner.stride == 1 && inner.extent % kEight == 0;
}

// A map from the loop's index as one from the matrix's own. Nothing where it is no such map.
std::optional<IndexTransform> map_from_place(const Scope& scope, const Index& from,
                                             const IndexTransform& map) {
  const MatrixLoop& matrix = *scope.loop.matrix;
  if (!matrix.order || from.name == matrix.place.name) return map;
  const std::optional<StridedMap> all = joined(*matrix.order, map);
  return all ? std::optional<IndexTransform>(*all) : std::nullopt;
}

}  // namespace

const Index& place_in_matrix(const Scope& scope) {
  return scope.loop.matrix->order ? scope.loop.matrix->place : scope.loop.element;
}

Index map_in_matrix(const Scope& scope, const Index& from, const IndexTransform& map) {
  const MatrixLoop& matrix = *scope.loop.matrix;
  const Index& place = place_in_matrix(scope);
  const std::optional<IndexTransform> own = map_from_place(scope, from, map);
  if (own && own->identity()) return place;
  const std::optional<MatrixMap> parts = own ? split(*own, matrix.columns) : std::nullopt;
  const bool uniform =
      parts && std::ranges::all_of(parts->columns.axes, [](const IndexTransform::Axis& axis) {
        return axis.stride == 0;
      });
  if (!uniform || !repeats(parts->rows, matrix.period)) scope.block.differs = true;
  // Of several axes; pixels begin anywhere.
  const bool in_parts = parts && parts->columns.axes.size() > 1;
  const bool in_eights =
      in_parts && !matrix.order && matrix.period == 0 && keeps_eights(parts->columns);
  if (!parts || (in_parts && !in_eights)) {
    const std::string text =
        own ? own->text(place.lane()) : map.text("(" + matrix.order->text(place.lane()) + ")");
    return scope.define_index(text, LanePattern::kScattered, false);
  }
  const std::vector<IndexTransform::Axis>& rows = parts->rows.axes;
  // 64 bits, so that the addresses of several rows differ by constants.
  const bool whole = rows.size() == 1 && rows[0].extent == matrix.rows;
  const bool apart = whole && rows[0].stride > 0;
  std::string text =
      apart ? fmt::format("q * {}", rows[0].stride)
            : fmt::format("(idx)({})", parts->rows.text(narrowest(parts->rows, "q", "q32")));
  if (apart && parts->rows.offset > 0) text += fmt::format(" + {}", parts->rows.offset);
  if (in_eights) {
    const std::string_view column = narrowest(parts->columns, "column", "(u32)column");
    Index result =
        scope.define_index(fmt::format("{} + (idx)({})", text, parts->columns.text(column)),
                           LanePattern::kUnit, false);
    result.align = alignment_of(*parts);
    return result;
  }
  const std::uint64_t stride = parts->columns.axes.empty() ? 0 : parts->columns.axes.front().stride;
  if (stride == 0) return scope.define_index(text, LanePattern::kUniform, true);
  if (stride > 1) {
    return scope.define_index(fmt::format("{} + (column + j) * {}", text, stride),
                              LanePattern::kScattered, false);
  }
  Index result = scope.define_index(text + " + column", LanePattern::kUnit, false);
  result.align = alignment_of(*parts);
  result.of_column =
      std::ranges::all_of(rows, [](const IndexTransform::Axis& axis) { return axis.stride == 0; });
  result.begin = parts->rows.offset;
  // Among pixels, which are numbered over all images, a group of eight may begin anywhere.
  if (matrix.period > 0) result.align = std::min(result.align, place.align);
  return result;
}

namespace {

// Eight neighbours of 16 bits at the loop's own index, a multiple of `align`.
bool is_own_pack(const Scope& scope, DType dtype, const Index& at, unsigned align) {
  const bool halves = dtype == DType::kBf16 || dtype == DType::kF16;
  return halves && at.name == place_in_matrix(scope).name && at.align >= align;
}

// Where the loop's own index numbers the elements in another order than the matrix, that is no
// variable in the code.
Index index_in_code(const Scope& scope, const Index& at) {
  const bool other = scope.loop.matrix->order && at.name == scope.loop.element.name;
  return other ? map_in_matrix(scope, at,
                               StridedMap::of(scope.loop.matrix->rows * scope.loop.matrix->columns))
               : at;
}

}  // namespace

Value load_in_matrix(const Scope& scope, TensorId tensor, const Index& from) {
  const Index at = index_in_code(scope, from);
  const DType dtype = scope.tensor(tensor).type.dtype;
  const ComputeType type = compute_type(dtype);
  const std::string memory = scope.kernel.parameters().input(tensor);
  const bool brought =
      scope.loop.matrix->brings && !scope.block.beside && is_own_pack(scope, dtype, at, 1);
  if (brought) {
    scope.block.beside = {.type = std::string(stored_type(dtype)), .memory = memory};
    const std::string name = scope.fresh("x");
    scope.block.before += fmt::format("float {0}[8];\nunpack(beside, {0});\n", name);
    return {.text = name + "[j]", .type = type};
  }
  if (at.name == place_in_matrix(scope).name) scope.block.differs = true;
  const auto element = [&](const std::string& i) {
    return is_packed(dtype) ? fmt::format("fetch({}, {})", memory, i)
                            : fmt::format("to_compute(load_input({} + {}))", memory, i);
  };
  if (at.pattern == LanePattern::kUniform) return scope.define(type, element(at.name), true);
  // Channels that lie last are whole groups of eight. What is loaded whether or not the pixel is
  // real is the same to the compiler for all pixels, and so is what is computed of it.
  const bool whole = scope.loop.matrix->whole || (scope.loop.matrix->order && at.of_column);
  if (whole && at.pattern == LanePattern::kUnit && !is_packed(dtype)) {
    const std::string name = scope.fresh("x");
    if (at.of_column) {
      const std::string address = fmt::format("{} + {} + column", memory, at.begin);
      scope.block.columns_read.push_back(address);
      if (scope.loop.matrix->keeps_terms && type == ComputeType::kF32) {
        scope.block.terms.before += fmt::format("const auto {} = load_neighbours<{}, {}>({});\n",
                                                name, at.align, scope.block.width_text, address);
        return scope.define_term(fmt::format("{}.get(j)", name));
      }
    }
    scope.block.before += fmt::format("const auto {} = load_neighbours<{}, {}>({} + {});\n", name,
                                      at.align, scope.block.width_text, memory, at.name);
    return scope.define(type, fmt::format("{}.get(j)", name), false);
  }
  if (whole) return scope.define(type, element(at.lane()), false);
  if (at.pattern == LanePattern::kUnit && type == ComputeType::kF32 && !is_packed(dtype)) {
    const std::string name = scope.fresh("x");
    if (scope.loop.matrix->loads_ahead && !scope.block.ahead && is_own_pack(scope, dtype, at, 8)) {
      scope.block.ahead = {.type = std::string(stored_type(dtype)), .memory = memory};
      scope.block.before += fmt::format("float {0}[8];\nunpack(ahead, {0});\n", name);
      return {.text = name + "[j]", .type = type};
    }
    scope.block.before +=
        fmt::format("float {0}[{4}];\nload_columns<{1}>({2} + {3}, valid, {0});\n", name, at.align,
                    memory, at.name, scope.block.width_text);
    if (at.name == place_in_matrix(scope).name && bytes_of(dtype, 1) > 1) {
      scope.block.own_read.push_back(fmt::format("{} + {}", memory, at.name));
    }
    return {.text = name + "[j]", .type = type};
  }
  return scope.define(
      type, fmt::format("j < valid ? {} : {}", element(at.lane()), literal(0, type)), false);
}

void store_in_matrix(const Scope& scope, TensorId tensor, const Index& from, const Value& value) {
  const Index at = index_in_code(scope, from);
  CodeBlock& block = scope.block;
  const DType dtype = scope.tensor(tensor).type.dtype;
  const std::string memory = scope.kernel.parameters().output(tensor);
  const std::string text = converted(value, compute_type(dtype)).text;
  // Small integers pass through a float unharmed.
  const bool through_float = dtype != DType::kF64 && (is_float(dtype) || bytes_of(dtype, 1) < 4);
  if (at.pattern != LanePattern::kUnit || !through_float) {
    block.lanes += fmt::format("if (j < valid) put({}, {}, {});\n", memory, at.lane(), text);
    return;
  }
  const std::string name = scope.fresh("y");
  block.before += fmt::format("float {}[{}];\n", name, block.width_text);
  block.lanes += fmt::format("{}[j] = {};\n", name, text);
  if (scope.loop.matrix->stores && is_own_pack(scope, dtype, at, 1)) {
    block.made = {.type = std::string(stored_type(dtype)), .memory = memory};
    block.after += fmt::format("store_lanes(pack, {});\n", name);
    return;
  }
  block.after +=
      fmt::format("store_columns<{}>({} + {}, valid, {});\n", at.align, memory, at.name, name);
}

}  // namespace fusecalc
