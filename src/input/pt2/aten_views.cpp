// ATen ops that show the elements of their input in another shape or order, and copies.

#include <algorithm>
#include <array>
#include <numeric>

#include "input/pt2/aten.hpp"

namespace fusecalc {
namespace {

// A copy of the elements, one after the other.
std::optional<ModelGraph::TensorId> copied(const AtenCall& call, ValueId id) {
  const ProgramValue value = call.copy_of(id);
  if (value.base == ProgramValue::kNoTensor)
    return call.graph().op("copy", {call.tensor(id)}, {}, value.type);
  return call.graph().op("broadcast_to", {value.base}, {listed("shape", value.type.extents)},
                         value.type);
}

bool reshape(const AtenCall& call, std::string_view) {
  const auto self = call.value("self");
  if (!self) return false;
  const ProgramValue value = call.copy_of(*self);
  const ModelType& type = call.type();
  if (value.type.dtype() != type.dtype()) return false;
  if (value.number) return call.share_number(0, *self, *value.number), true;
  if (value.base != ProgramValue::kNoTensor && value.type.shape() == type.shape()) {
    return call.share_base(0, *self, value.base), true;
  }
  const bool shares = viewable(value.type.shape(), value.strides, type.shape());
  const auto tensor = shares ? std::optional(call.tensor(*self)) : copied(call, *self);
  const auto result = tensor ? reshaped(call.graph(), *tensor, type) : std::nullopt;
  if (!result) return false;
  if (shares) {
    call.share(0, *self, *result);
  } else {
    call.set(0, *result);
  }
  return true;
}

// Reads the axes of `self` in another order.
bool permuted(const AtenCall& call, std::vector<std::int64_t> perm) {
  const auto self = call.value("self");
  if (!self) return false;
  const ProgramValue value = call.copy_of(*self);
  if (value.number) return call.share_number(0, *self, *value.number), true;
  ModelGraph::TensorId tensor = call.tensor(*self);
  const auto rank = static_cast<std::int64_t>(perm.size());
  for (std::int64_t& axis : perm) {
    axis += axis < 0 ? rank : 0;
    if (axis < 0 || axis >= rank) return false;
  }
  if (const auto origin = call.graph().written_by(tensor, "permute_view")) {
    const auto& inner = std::get<std::vector<WrittenDim>>(origin->attributes[0].value);
    if (inner.size() != perm.size()) return false;
    for (std::int64_t& axis : perm) {
      axis = std::get<std::int64_t>(inner[static_cast<std::size_t>(axis)]);
    }
    tensor = std::get<ModelGraph::TensorId>(origin->inputs[0]);
  }
  if (std::ranges::is_sorted(perm)) return call.share(0, *self, tensor), true;
  const auto result =
      call.graph().op("permute_view", {tensor}, {listed("perm", perm)}, call.type());
  if (!result) return false;
  call.share(0, *self, *result);
  return true;
}

std::size_t rank_of_self(const AtenCall& call) {
  const auto self = call.value("self");
  return self ? call.at(*self).type.shape().size() : 0;
}

bool permute(const AtenCall& call, std::string_view) { return permuted(call, call.wholes("dims")); }

bool transpose(const AtenCall& call, std::string_view) {
  const std::size_t rank = rank_of_self(call);
  std::vector<std::int64_t> perm(rank);
  std::iota(perm.begin(), perm.end(), 0);
  // t and mT and the like take no arguments: the last two axes.
  const bool named = call.given("dim0") || call.given("axis0");
  if (rank < 2) return !named && permuted(call, perm);
  const auto first = axis_of(call.whole("dim0", call.whole("axis0", -2)), rank);
  const auto second = axis_of(call.whole("dim1", call.whole("axis1", -1)), rank);
  if (!first || !second) return false;
  std::swap(perm[*first], perm[*second]);
  return permuted(call, perm);
}

bool movedim(const AtenCall& call, std::string_view) {
  const std::size_t rank = rank_of_self(call);
  const std::vector<std::int64_t> from = call.wholes("source");
  const std::vector<std::int64_t> to = call.wholes("destination");
  if (from.size() != to.size()) return false;
  std::vector<std::int64_t> perm(rank, -1);
  std::vector<bool> moved(rank, false);
  for (std::size_t i = 0; i < from.size(); ++i) {
    const auto source = axis_of(from[i], rank);
    const auto target = axis_of(to[i], rank);
    if (!source || !target || moved[*source] || perm[*target] != -1) return false;
    moved[*source] = true;
    perm[*target] = static_cast<std::int64_t>(*source);
  }
  std::size_t next = 0;
  for (std::int64_t& axis : perm) {
    if (axis != -1) continue;
    while (moved[next]) ++next;
    axis = static_cast<std::int64_t>(next++);
  }
  return permuted(call, perm);
}

// The same elements: what is no copy on its own, such as alias or dropout outside of training.
bool same(const AtenCall& call, std::string_view) {
  const std::vector<ValueId> values = call.all_values();
  if (values.empty()) return false;
  const ProgramValue& value = call.at(values[0]);
  if (value.type.shape() != call.type().shape() || value.type.dtype() != call.type().dtype()) {
    return false;
  }
  if (value.number) {
    call.share_number(0, values[0], *value.number);
  } else if (value.tensor != ProgramValue::kNoTensor) {
    call.share(0, values[0], value.tensor);
  } else {
    call.share_base(0, values[0], value.base);
  }
  return true;
}

// clone, contiguous, to and the like: a copy if the elements move or change their type.
bool copy(const AtenCall& call, std::string_view) {
  const auto self = call.value("self");
  if (!self) return false;
  const ProgramValue value = call.copy_of(*self);
  const ModelType& type = call.type();
  if (value.type.shape() != type.shape()) return false;
  const bool casts = value.type.dtype() != type.dtype();
  if (value.number) return call.set_number(0, *value.number), true;
  if (casts) {
    const WrittenAttribute to{.name = "to", .value = std::string(name_of(type.dtype()))};
    if (call.op("cast", {call.operand(*self)}, {to})) return true;
    return call.op("cast", {call.tensor(*self)}, {to});
  }
  bool moves = false;  // an axis of one element lies anywhere
  const std::vector<std::int64_t> strides = call.strides();
  for (std::size_t i = 0; i < strides.size() && i < value.strides.size(); ++i) {
    moves = moves || (type.shape()[i] > 1 && strides[i] != value.strides[i]);
  }
  if (!moves) return call.equal(0, *self), true;
  const auto result = copied(call, *self);
  if (result) call.set(0, *result);
  return result.has_value();
}

std::int64_t within(std::int64_t index, std::int64_t extent) {
  return std::clamp<std::int64_t>(index < 0 ? index + extent : index, 0, extent);
}

bool slice(const AtenCall& call, std::string_view) {
  const auto self = call.value("self");
  if (!self) return false;
  const ProgramValue value = call.copy_of(*self);
  const auto range = call.range(value.type);
  if (!range) return false;
  if (value.number) return call.share_number(0, *self, *value.number), true;
  const auto part = sliced(call.graph(), call.tensor(*self), *range, call.type());
  if (!part) return false;
  call.share(0, *self, *part);
  return true;
}

bool select(const AtenCall& call, std::string_view) {
  const auto self = call.value("self");
  if (!self) return false;
  const ProgramValue value = call.copy_of(*self);
  const auto axis = axis_of(call.whole("dim", 0), value.type.shape().size());
  if (!axis) return false;
  if (value.number) return call.share_number(0, *self, *value.number), true;
  const auto extent = static_cast<std::int64_t>(value.type.shape()[*axis]);
  const std::int64_t index = within(call.whole("index", 0), extent);
  ModelType row = value.type;
  row.type.shape[*axis] = 1;
  row.extents[*axis] = std::int64_t{1};
  const auto part = sliced(call.graph(), call.tensor(*self), {*axis, index, index + 1, 1}, row);
  const auto result = part ? reshaped(call.graph(), *part, call.type()) : std::nullopt;
  if (!result) return false;
  call.share(0, *self, *result);
  return true;
}

// Parts of an axis, one after the other; their sizes are those of the results.
// Parts that are `apart` may be overwritten: what they are parts of is not read again.
bool split(const AtenCall& call, std::string_view apart) {
  const auto self = call.value("self");
  if (!self) return false;
  const ProgramValue value = call.copy_of(*self);
  const auto axis = axis_of(call.whole("dim", 0), value.type.shape().size());
  if (!axis) return false;
  std::int64_t start = 0;
  for (std::size_t i = 0; i < call.results(); ++i) {
    const ModelType& type = call.type(i);
    if (type.shape().size() != value.type.shape().size()) return false;
    const std::int64_t end = start + static_cast<std::int64_t>(type.shape()[*axis]);
    if (value.number) {
      call.share_number(i, *self, *value.number);
    } else {
      const auto part = sliced(call.graph(), call.tensor(*self), {*axis, start, end, 1}, type);
      if (!part) return false;
      if (apart.empty()) {
        call.share(i, *self, *part);
      } else {
        call.set(i, *part);
      }
    }
    start = end;
  }
  return true;
}

// One result for each index of an axis, without that axis.
bool unbind(const AtenCall& call, std::string_view) {
  const auto self = call.value("self");
  if (!self) return false;
  const ProgramValue value = call.copy_of(*self);
  const auto axis = axis_of(call.whole("dim", 0), value.type.shape().size());
  if (!axis) return false;
  ModelType row = value.type;
  row.type.shape[*axis] = 1;
  row.extents[*axis] = std::int64_t{1};
  const ModelGraph::TensorId tensor = call.tensor(*self);
  for (std::size_t i = 0; i < call.results(); ++i) {
    const auto index = static_cast<std::int64_t>(i);
    const auto part = sliced(call.graph(), tensor, {*axis, index, index + 1, 1}, row);
    const auto result = part ? reshaped(call.graph(), *part, call.type(i)) : std::nullopt;
    if (!result) return false;
    call.share(i, *self, *result);
  }
  return true;
}

bool dropout(const AtenCall& call, std::string_view) {
  const double p = call.number("p").value_or(0);
  if (!call.truth("train", call.truth("training", true)) || p == 0) return same(call, {});
  const auto input = call.value(call.given("self") ? "self" : "input");
  if (!input) return false;
  std::vector<WrittenAttribute> attributes = {{.name = "p", .value = p}};
  const bool masks = call.results() == 2 && call.used(1);
  if (masks) attributes.push_back({.name = "save_mask", .value = true});
  return call.op("dropout", {call.tensor(*input)}, attributes, masks ? 2 : 1);
}

// A dropout of p, which divides what it keeps by p: ones and zeros.
bool bernoulli(const AtenCall& call, std::string_view) {
  const auto p = call.number("p");
  if (!p || !(*p > 0 && *p <= 1) || !is_float(call.type().dtype())) return false;
  if (*p == 1) return call.set_number(0, 1), true;
  const ModelType single = model_type(Shape(call.type().shape().size(), 1), call.type().dtype());
  const auto number = filled(call.graph(), single, *p);
  if (!number) return false;
  return call.last_step(
      "dropout", {call.step("expand_view", {*number}, {listed("shape", call.type().extents)})},
      {{.name = "p", .value = 1 - *p}});
}

constexpr std::array kViewRules = {
    AtenRule{"view", reshape},
    AtenRule{"_unsafe_view", reshape},
    AtenRule{"reshape", reshape},
    AtenRule{"_reshape_alias", reshape},
    AtenRule{"view_as", reshape},
    AtenRule{"reshape_as", reshape},
    AtenRule{"flatten", reshape},
    AtenRule{"unflatten", reshape},
    AtenRule{"squeeze", reshape},
    AtenRule{"unsqueeze", reshape},
    AtenRule{"squeeze_copy", reshape},
    AtenRule{"unsqueeze_copy", reshape},
    AtenRule{"view_copy", reshape},
    AtenRule{"permute", permute},
    AtenRule{"permute_copy", permute},
    AtenRule{"transpose", transpose},
    AtenRule{"transpose_copy", transpose},
    AtenRule{"swapaxes", transpose},
    AtenRule{"swapdims", transpose},
    AtenRule{"t", transpose},
    AtenRule{"numpy_T", transpose},
    AtenRule{"mT", transpose},
    AtenRule{"adjoint", transpose},
    AtenRule{"mH", transpose},
    AtenRule{"matrix_H", transpose},
    AtenRule{"movedim", movedim},
    AtenRule{"moveaxis", movedim},
    AtenRule{"alias", same},
    AtenRule{"alias_copy", same},
    AtenRule{"detach", same},
    AtenRule{"detach_", same},
    AtenRule{"lift", same},
    AtenRule{"lift_fresh", same},
    AtenRule{"lift_fresh_copy", same},
    AtenRule{"resolve_conj", same},
    AtenRule{"resolve_neg", same},
    AtenRule{"positive", same},
    AtenRule{"_conj", same},
    AtenRule{"feature_dropout", dropout},
    AtenRule{"dropout", dropout},
    AtenRule{"native_dropout", dropout},
    AtenRule{"bernoulli", bernoulli},
    AtenRule{"clone", copy},
    AtenRule{"contiguous", copy},
    AtenRule{"to", copy},
    AtenRule{"_to_copy", copy},
    AtenRule{"type_as", copy},
    AtenRule{"slice", slice},
    AtenRule{"slice_copy", slice},
    AtenRule{"narrow", slice},
    AtenRule{"narrow_copy", slice},
    AtenRule{"select", select},
    AtenRule{"select_copy", select},
    AtenRule{"split", split},
    AtenRule{"split_with_sizes", split},
    AtenRule{"split_copy", split},
    AtenRule{"unsafe_split", split, "apart"},
    AtenRule{"unsafe_split_with_sizes", split, "apart"},
    AtenRule{"split_with_sizes_copy", split},
    AtenRule{"chunk", split},
    AtenRule{"tensor_split", split},
    AtenRule{"unbind", unbind},
    AtenRule{"unbind_copy", unbind},
};

}  // namespace

std::span<const AtenRule> aten_view_rules() { return kViewRules; }

std::optional<ModelGraph::TensorId> sliced(ModelGraph& graph, ModelGraph::TensorId tensor,
                                           const AxisRange& range, const ModelType& type) {
  const ModelType& from = graph.type(tensor);
  if (from.shape() == type.shape()) return tensor;
  std::vector<WrittenAttribute> attributes = {
      listed("axes", {static_cast<std::int64_t>(range.axis)}), listed("starts", {range.start})};
  // Where the end is that of the axis, or the length of the part, it stays so when a dim changes.
  const bool to_end = range.end == static_cast<std::int64_t>(from.shape()[range.axis]);
  const bool first = range.start == 0 && range.step == 1;
  attributes.push_back(listed("ends", {to_end  ? from.extents[range.axis]
                                       : first ? type.extents[range.axis]
                                               : WrittenDim(range.end)}));
  if (range.step != 1) attributes.push_back(listed("steps", {range.step}));
  for (const std::string_view row : {"slice_view", "slice"}) {
    if (const auto part = graph.op(row, {tensor}, attributes, type)) return part;
  }
  return std::nullopt;
}

}  // namespace fusecalc
