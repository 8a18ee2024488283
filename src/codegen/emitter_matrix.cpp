// What the emitter knows of epilogues: a matrix's rows, eight neighbours at a time, some of which
// may lie beyond its last column.

#include <fmt/format.h>

#include <algorithm>

#include "codegen/emitter.hpp"

namespace fusecalc {
namespace {

// A map's axes above and below a number of elements. Nothing where none of them ends there.
struct Parts {
  IndexMap rows;
  IndexMap columns;
};

std::optional<Parts> split(const IndexMap& map, std::uint64_t columns) {
  std::vector<IndexMap::Axis> below;  // innermost first
  std::uint64_t elements = 1;
  std::size_t i = map.axes.size();
  std::optional<IndexMap::Axis> rest;
  for (; i > 0 && elements < columns; --i) {
    IndexMap::Axis axis = map.axes[i - 1];
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
  Parts parts;
  for (std::size_t k = 0; k < i; ++k) parts.rows.append(map.axes[k].extent, map.axes[k].stride);
  if (rest) parts.rows.append(rest->extent, rest->stride);
  for (; !below.empty(); below.pop_back()) {
    parts.columns.append(below.back().extent, below.back().stride);
  }
  parts.rows.offset = map.offset;
  return parts;
}

unsigned alignment_of(const IndexMap& rows) {
  std::uint64_t bits = rows.offset | 8U;
  for (const IndexMap::Axis& axis : rows.axes) bits |= axis.stride;
  return static_cast<unsigned>(bits & (~bits + 1));
}

}  // namespace

std::string Emitter::members() const {
  std::string text;
  for (std::size_t i = 0; i < storages_.size(); ++i) {
    text += fmt::format("  {}{}* p{};\n", written_.contains(storages_[i]) ? "" : "const ",
                        stored_type(graph_.tensors[storages_[i]].type.dtype), i);
  }
  return text;
}

std::string Emitter::arguments() const {
  std::string text;
  for (std::size_t i = 0; i < storages_.size(); ++i) {
    text += fmt::format("{}p{}", i > 0 ? ", " : "", i);
  }
  return text;
}

// Rows and columns apart: only rows are ever taken apart by division, once for all eight.
Index Emitter::derive_in_matrix(const Index& from, const IndexMap& map) {
  const std::optional<Parts> parts = split(map, matrix_->columns);
  if (!parts || parts->columns.axes.size() > 1) {
    return index(map.text(from.lane()), LanePattern::kScattered, false);
  }
  const std::vector<IndexMap::Axis>& rows = parts->rows.axes;
  // 64 bits, so that the addresses of several rows differ by constants.
  const bool whole = rows.size() == 1 && rows[0].extent == matrix_->rows;
  const bool apart = whole && rows[0].stride > 0;
  std::string text = apart ? fmt::format("q * {}", rows[0].stride)
                           : fmt::format("(idx)({})", parts->rows.text("q32"));
  if (apart && parts->rows.offset > 0) text += fmt::format(" + {}", parts->rows.offset);
  if (parts->columns.axes.empty()) return index(text, LanePattern::kUniform, true);
  const std::uint64_t stride = parts->columns.axes[0].stride;
  if (stride == 0) return index(text, LanePattern::kUniform, true);
  if (stride > 1) {
    return index(fmt::format("{} + (column + j) * {}", text, stride), LanePattern::kScattered,
                 false);
  }
  Index result = index(text + " + column", LanePattern::kUnit, false);
  result.align = alignment_of(parts->rows);
  return result;
}

// An element of the contraction's result, its bias added.
Value Emitter::made(const Index& at) {
  const Op& op = this->op(matrix_->by);
  if (at.name != loop_.name) cannot_generate(op, "its result is read in another order");
  const Value bare{.text = "v[j]", .type = matrix_->type};
  if (op.row->family != OpFamily::kLinear || op.operands.size() < 3) return bare;
  const TensorId bias = op.operands[2].tensor;
  IndexMap columns;
  columns.append(matrix_->rows, 0);
  columns.append(matrix_->columns, 1);
  const Value added = converted(value(bias, derive(at, columns)), matrix_->type);
  return define("v", matrix_->type, fmt::format("v[j] + {}", added.text), false);
}

Value Emitter::load_in_matrix(TensorId tensor, const Index& at) {
  const DType dtype = graph_.tensors[tensor].type.dtype;
  const ComputeType type = compute_type(dtype);
  const std::string memory = pointer(tensor);
  const auto element = [&](const std::string& i) {
    return is_packed(dtype) ? fmt::format("fetch({}, {})", memory, i)
                            : fmt::format("to_compute(load_input({} + {}))", memory, i);
  };
  if (at.pattern == LanePattern::kUniform) return define("v", type, element(at.name), true);
  if (at.pattern == LanePattern::kUnit && type == ComputeType::kF32 && !is_packed(dtype)) {
    const std::string name = fresh("x");
    piece_->before += fmt::format("float {0}[8];\nload8<{1}>({2} + {3}, valid, {0});\n", name,
                                  at.align, memory, at.name);
    return {.text = name + "[j]", .type = type};
  }
  return define("v", type, fmt::format("j < valid ? {} : {}", element(at.lane()), literal(0, type)),
                false);
}

void Emitter::store_in_matrix(TensorId tensor, const Index& at, const Value& value) {
  const DType dtype = graph_.tensors[tensor].type.dtype;
  const std::string memory = pointer(tensor);
  const std::string text = converted(value, compute_type(dtype)).text;
  // Small integers pass through a float unharmed.
  const bool through_float = dtype != DType::kF64 && (is_float(dtype) || bytes_of(dtype, 1) < 4);
  if (at.pattern == LanePattern::kUnit && through_float) {
    const std::string name = fresh("y");
    piece_->before += fmt::format("float {}[8];\n", name);
    piece_->lanes += fmt::format("{}[j] = {};\n", name, text);
    piece_->after +=
        fmt::format("store8<{}>({} + {}, valid, {});\n", at.align, memory, at.name, name);
    return;
  }
  piece_->lanes += fmt::format("if (j < valid) put({}, {}, {});\n", memory, at.lane(), text);
}

}  // namespace fusecalc
