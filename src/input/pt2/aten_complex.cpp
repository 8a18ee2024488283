// Complex numbers: pairs of real ones along one more axis, as long as ops keep them apart.

#include <algorithm>
#include <array>

#include "input/pt2/aten.hpp"

namespace fusecalc {
namespace {

using TensorId = ModelGraph::TensorId;

bool is_complex(const ProgramValue& value) { return value.pairs != ProgramValue::kNoTensor; }

// The type with one more axis.
ModelType with_last(ModelType type, std::int64_t extent, DType dtype) {
  type.type.shape.push_back(static_cast<std::uint64_t>(extent));
  type.extents.emplace_back(extent);
  type.type.dtype = dtype;
  return type;
}

ModelType pairs_of(const AtenCall& call, const ProgramValue& value, const ModelType& type) {
  return with_last(type, 2, call.graph().type(value.pairs).dtype());
}

// The real or the imaginary parts.
std::optional<TensorId> part_of(const AtenCall& call, const ProgramValue& value,
                                std::int64_t which) {
  const ModelType one = with_last(value.type, 1, call.graph().type(value.pairs).dtype());
  ModelType type = value.type;
  type.type.dtype = one.dtype();
  const AxisRange range{.axis = value.type.shape().size(), .start = which, .end = which + 1};
  const auto part = sliced(call.graph(), value.pairs, range, one);
  return part ? reshaped(call.graph(), *part, type) : std::nullopt;
}

bool joined_parts(const AtenCall& call, const std::array<TensorId, 2>& parts) {
  std::vector<ModelGraph::Input> inputs;
  for (const TensorId part : parts) {
    const ModelType type = with_last(call.type(), 1, call.graph().type(part).dtype());
    const auto row = call.graph().op("reshape", {part}, {listed("shape", type.extents)}, type);
    if (!row) return false;
    inputs.emplace_back(*row);
  }
  const auto axis = static_cast<std::int64_t>(call.type().shape().size());
  const auto pairs = call.graph().op("concat", inputs, {listed("axes", {axis})}, std::size_t{1});
  if (pairs) call.set_pairs(0, pairs->front());
  return pairs.has_value();
}

bool from_pairs(const AtenCall& call) {
  const auto self = call.value("self");
  if (!self) return false;
  const DType dtype = call.at(*self).type.dtype();
  const bool fits = call.at(*self).type.shape() == with_last(call.type(), 2, dtype).shape();
  if (!fits || !is_float(dtype)) return false;
  call.share_pairs(0, *self, call.tensor(*self));
  return true;
}

bool to_pairs(const AtenCall& call, const ProgramValue& value) {
  const ModelType type = pairs_of(call, value, value.type);
  if (call.type().shape() != type.shape() || call.type().dtype() != type.dtype()) return false;
  call.share(0, *call.value("self"), value.pairs);
  return true;
}

bool show_part(const AtenCall& call, const ProgramValue& value, std::int64_t which) {
  if (call.type().shape() != value.type.shape()) return false;
  const auto part = part_of(call, value, which);
  if (part) call.share(0, *call.value("self"), *part);
  return part.has_value();
}

bool reshape_pairs(const AtenCall& call, const ProgramValue& value) {
  if (!viewable(value.type.shape(), value.strides, call.type().shape())) return false;
  const auto pairs = reshaped(call.graph(), value.pairs, pairs_of(call, value, call.type()));
  if (pairs) call.share_pairs(0, *call.value("self"), *pairs);
  return pairs.has_value();
}

bool slice_pairs(const AtenCall& call, const ProgramValue& value) {
  const auto range = call.range(value.type);
  if (!range) return false;
  const auto pairs = sliced(call.graph(), value.pairs, *range, pairs_of(call, value, call.type()));
  if (pairs) call.share_pairs(0, *call.value("self"), *pairs);
  return pairs.has_value();
}

// The rows that the only index names along an axis.
bool gather_pairs(const AtenCall& call, const ProgramValue& value, std::string_view list) {
  const std::vector<ValueId> indices = call.values(list);
  const auto axis = axis_of(call.whole("dim", 0), value.type.shape().size());
  if (indices.size() != 1 || !axis || call.argument(list)->tensors.size() != 1) return false;
  const DType dtype = call.at(indices[0]).type.dtype();
  if (is_float(dtype) || dtype == DType::kBool) return false;
  const auto pairs = call.graph().op("gather", {value.pairs, call.tensor(indices[0])},
                                     {listed("axes", {static_cast<std::int64_t>(*axis)})},
                                     pairs_of(call, value, call.type()));
  if (pairs) call.set_pairs(0, *pairs);
  return pairs.has_value();
}

// The same numbers, in the same order and type.
bool same_pairs(const AtenCall& call, const ProgramValue& value) {
  const bool same = call.type().shape() == value.type.shape() &&
                    call.type().dtype() == value.type.dtype() && call.strides() == value.strides;
  if (same) call.equal(0, *call.value("self"));
  return same;
}

// r (cos + i sin), mostly with r = 1
bool polar(const AtenCall& call) {
  const auto length = call.value("abs");
  const auto angle = call.value("angle");
  if (!length || !angle || call.at(*angle).type.shape() != call.type().shape()) return false;
  std::array<TensorId, 2> parts{};
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
    const ModelType type = call.at(*angle).type;
    auto part = call.graph().op(i == 0 ? "cos" : "sin", {call.tensor(*angle)}, {}, type);
    if (part && call.at(*length).number != 1.0) {
      part = call.graph().op("mul", {call.operand(*length), *part}, {}, type);
    }
    if (!part) return false;
    parts[i] = *part;
  }
  return joined_parts(call, parts);
}

bool complex(const AtenCall& call) {
  const auto real = call.value("real");
  const auto imaginary = call.value("imag");
  if (!real || !imaginary) return false;
  for (const ValueId id : {*real, *imaginary}) {
    if (call.at(id).type.shape() != call.type().shape()) return false;
  }
  return joined_parts(call, {call.tensor(*real), call.tensor(*imaginary)});
}

// Both numbers of each pair by a row of the table.
bool each_number(const AtenCall& call, std::string_view row,
                 std::vector<ModelGraph::Input> numbers) {
  const auto type = call.pairs();
  const auto pairs = type ? call.graph().op(row, std::move(numbers), {}, *type) : std::nullopt;
  if (pairs) call.set_pairs(0, *pairs);
  return pairs.has_value();
}

bool scale(const AtenCall& call, ValueId of, double factor) {
  const ProgramValue value = call.copy_of(of);
  if (!is_complex(value) || value.type.shape() != call.type().shape()) return false;
  if (factor == 1) return call.equal(0, of), true;
  return each_number(call, "mul", {value.pairs, factor});
}

// Pairs times real numbers, or by them.
bool scale_by(const AtenCall& call, std::string_view row, ValueId of, ValueId factors) {
  const ProgramValue real = call.copy_of(factors);
  const ProgramValue value = call.copy_of(of);
  if (!is_complex(value) || is_complex(real) || !is_float(real.type.dtype())) return false;
  const auto column =
      reshaped(call.graph(), call.tensor(factors), with_last(real.type, 1, real.type.dtype()));
  return column && each_number(call, row, {value.pairs, *column});
}

bool divide(const AtenCall& call) {
  const auto self = call.value("self");
  const auto other = call.value("other");
  if (!self) return false;
  const auto number = other ? call.at(*other).number : call.number("other");
  if (number) return *number != 0 && scale(call, *self, 1 / *number);
  return other && scale_by(call, "div", *self, *other);
}

// Sums and differences of two.
bool add(const AtenCall& call, std::string_view row) {
  const auto self = call.value("self");
  const auto other = call.value("other");
  if (!self || !other || call.number("alpha").value_or(1) != 1) return false;
  const ProgramValue a = call.copy_of(*self);
  const ProgramValue b = call.copy_of(*other);
  return is_complex(a) && is_complex(b) && each_number(call, row, {a.pairs, b.pairs});
}

// A product turns the pairs of one factor by those of the other.
bool multiply(const AtenCall& call) {
  const auto self = call.value("self");
  const auto other = call.value("other");
  if (self && !other && call.number("other")) return scale(call, *self, *call.number("other"));
  if (!self || !other) return false;
  if (call.at(*other).number) return scale(call, *self, *call.at(*other).number);
  if (call.at(*self).number) return scale(call, *other, *call.at(*self).number);
  ProgramValue x = call.copy_of(*self);
  ProgramValue angles = call.copy_of(*other);
  if (!is_complex(angles)) return scale_by(call, "mul", *self, *other);
  if (!is_complex(x)) return scale_by(call, "mul", *other, *self);
  const Shape& shape = call.type().shape();
  if (shape.empty()) return false;
  if (x.type.shape() != shape) std::swap(x, angles);
  const Shape& turned_by = angles.type.shape();
  const bool fits = x.type.shape() == shape && !turned_by.empty() &&
                    turned_by.back() == shape.back() && shape.back() > 0;
  if (!fits) return false;
  ModelType flat = x.type;
  flat.type.shape.back() *= 2;
  flat.extents.back() = static_cast<std::int64_t>(flat.type.shape.back());
  flat.type.dtype = call.graph().type(x.pairs).dtype();
  const auto numbers = reshaped(call.graph(), x.pairs, flat);
  const auto cosines = part_of(call, angles, 0);
  const auto sines = part_of(call, angles, 1);
  if (!numbers || !cosines || !sines) return false;
  const auto rotated = call.graph().op("rotary", {*numbers, *cosines, *sines},
                                       {{.name = "interleaved", .value = true}}, flat);
  const auto pairs =
      rotated ? reshaped(call.graph(), *rotated, pairs_of(call, x, call.type())) : std::nullopt;
  if (pairs) call.set_pairs(0, *pairs);
  return pairs.has_value();
}

// The magnitude of each pair.
bool magnitude(const AtenCall& call, const ProgramValue& value) {
  const auto real = part_of(call, value, 0);
  const auto imaginary = part_of(call, value, 1);
  if (!real || !imaginary) return false;
  const auto square = call.step("square", {*imaginary});
  return call.last_step("sqrt", {call.step("fma", {*real, *real, square})});
}

// Of some axes: the pairs stay apart.
bool reduce_pairs(const AtenCall& call, std::string_view row, const ProgramValue& value) {
  std::vector<std::int64_t> axes = call.wholes("dim");
  const std::size_t rank = value.type.shape().size();
  for (std::size_t i = axes.empty() ? 0 : rank; i < rank; ++i) {
    axes.push_back(static_cast<std::int64_t>(i));
  }
  for (std::int64_t& axis : axes) {
    const auto place = axis_of(axis, rank);
    if (!place) return false;
    axis = static_cast<std::int64_t>(*place);
  }
  const auto type = call.pairs();
  const auto pairs =
      type ? call.graph().op(
                 row, {value.pairs},
                 {listed("axes", axes), {.name = "keepdim", .value = call.truth("keepdim", false)}},
                 *type)
           : std::nullopt;
  if (pairs) call.set_pairs(0, *pairs);
  return pairs.has_value();
}

// Pairs in the place of others, or of a number.
bool scatter_slice(const AtenCall& call) {
  const auto self = call.value("self");
  const auto source = call.value("src");
  const auto type = call.pairs();
  if (!self || !source || !type || !is_complex(call.at(*source))) return false;
  const ProgramValue whole = call.copy_of(*self);
  const auto range = call.range(whole.type);
  if (!range || range->step != 1 || (!is_complex(whole) && !whole.number)) return false;
  const ProgramValue pairs{
      .type = *type, .strides = {}, .tensor = whole.pairs, .number = whole.number};
  const auto made = overwritten(call.graph(), pairs, call.at(*source).pairs, *range);
  if (made) call.set_pairs(0, *made);
  return made.has_value();
}

// The same numbers in memory of its own.
bool copy_pairs(const AtenCall& call) {
  const auto source = call.value("src");
  const bool same = source && is_complex(call.at(*source)) && call.pairs() &&
                    call.at(*source).type.shape() == call.type().shape();
  if (same) call.equal(0, *source);
  return same;
}

bool one_of(std::string_view op, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, op) != names.end();
}

}  // namespace

bool apply_complex_rule(const AtenCall& call, std::string_view op) {
  if (op == "view_as_complex") return from_pairs(call);
  if (op == "polar") return polar(call);
  if (op == "complex") return complex(call);
  const std::vector<ValueId> values = call.all_values();
  const bool any = std::ranges::any_of(values, [&](ValueId id) { return is_complex(call.at(id)); });
  if (!any) return false;
  if (op == "mul") return multiply(call);
  if (op == "div") return divide(call);
  if (op == "add" || op == "sub") return add(call, op);
  if (op == "copy") return copy_pairs(call);
  if (op == "slice_scatter") return scatter_slice(call);
  const auto self = call.value("self");
  if (!self) return false;
  const ProgramValue value = call.copy_of(*self);
  if (!is_complex(value)) return false;
  if (op == "index") return gather_pairs(call, value, "indices");
  if (op == "index_select") return gather_pairs(call, value, "index");
  if (values.size() != 1) return false;
  if (op == "view_as_real") return to_pairs(call, value);
  if (op == "abs") return magnitude(call, value);
  if (op == "sum" || op == "mean") return reduce_pairs(call, op, value);
  if (op == "neg") return each_number(call, "neg", {value.pairs});
  if (op == "real" || op == "imag") return show_part(call, value, op == "imag" ? 1 : 0);
  if (one_of(op, {"slice", "slice_copy", "narrow"})) return slice_pairs(call, value);
  if (one_of(op, {"alias", "detach", "clone", "contiguous", "lift_fresh_copy", "_to_copy", "to"})) {
    return same_pairs(call, value);
  }
  const bool reshapes = one_of(op, {"view", "_unsafe_view", "reshape", "flatten", "unflatten",
                                    "squeeze", "unsqueeze", "view_copy", "unsqueeze_copy"});
  return reshapes && reshape_pairs(call, value);
}

}  // namespace fusecalc
