// ATen ops whose results depend on where their elements are, scans and sorts.

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <utility>

#include "input/model_shapes.hpp"
#include "input/pt2/aten.hpp"

namespace fusecalc {
namespace {

using Inputs = std::vector<ModelGraph::Input>;
using Attributes = std::vector<WrittenAttribute>;
using Wholes = std::vector<std::int64_t>;

WrittenAttribute to_type(const ModelType& type) {
  return {.name = "to", .value = std::string(name_of(type.dtype()))};
}

WrittenAttribute axis_attribute(const AtenCall& call, std::int64_t otherwise) {
  return listed("axes", Wholes{call.whole("dim", otherwise)});
}

bool iota(const AtenCall& call, std::string_view) {
  const double first = call.number("start").value_or(0);
  const double delta = call.number("step").value_or(1);
  return call.op("iota", {},
                 {listed("shape", call.type().extents),
                  {.name = "first", .value = first},
                  {.name = "delta", .value = delta},
                  to_type(call.type())});
}

bool linspace(const AtenCall& call, std::string_view) {
  const auto first = call.number("start");
  const auto last = call.number("end");
  const auto steps = static_cast<double>(call.whole("steps", 0));
  if (!first || !last || steps < 2) return false;
  return call.op("iota", {},
                 {listed("shape", call.type().extents),
                  {.name = "first", .value = *first},
                  {.name = "delta", .value = (*last - *first) / (steps - 1)},
                  to_type(call.type())});
}

// Counts come in pairs, before and after, from the last axis on.
bool padded(const AtenCall& call, const std::string& border, const Wholes& counts) {
  const auto self = call.value("self");
  if (!self) return false;
  const std::size_t rank = call.at(*self).type.shape().size();
  if (counts.size() % 2 != 0 || counts.size() > 2 * rank) return false;
  Wholes before(rank);
  Wholes after(rank);
  for (std::size_t i = 0; 2 * i < counts.size(); ++i) {
    before[rank - 1 - i] = counts[2 * i];
    after[rank - 1 - i] = counts[2 * i + 1];
  }
  std::vector<WrittenAttribute> attributes = {listed("before", before), listed("after", after)};
  if (border == "constant") {
    attributes.push_back({.name = "value", .value = call.number("value").value_or(0)});
  } else {
    attributes.push_back({.name = "border", .value = border});
  }
  return call.op("pad", {call.tensor(*self)}, attributes);
}

bool pad(const AtenCall& call, std::string_view) {
  const std::string mode = call.text("mode");
  return padded(call, mode.empty() ? "constant" : mode, call.wholes("pad"));
}

bool pad_with_own(const AtenCall& call, std::string_view border) {
  return padded(call, std::string(border), call.wholes(call.given("pad") ? "pad" : "padding"));
}

bool roll(const AtenCall& call, std::string_view) {
  const auto self = call.value("self");
  const Wholes axes = call.wholes("dims");
  if (!self || axes.empty()) return false;
  return call.op("roll", {call.tensor(*self)},
                 {listed("axes", axes), listed("shifts", call.wholes("shifts"))});
}

bool flip(const AtenCall& call, std::string_view) {
  const auto self = call.value("self");
  return self && call.op("flip", {call.tensor(*self)}, {listed("axes", call.wholes("dims"))});
}

// Quarter turns: one axis is read backwards and both change places, or, of a half turn, both are
// read backwards.
bool quarter_turns(const AtenCall& call, std::string_view) {
  const auto self = call.value("self");
  Wholes axes = call.wholes("dims");
  if (axes.empty()) axes = {0, 1};
  if (!self || axes.size() != 2) return false;
  const std::int64_t turns = (call.whole("k", 1) % 4 + 4) % 4;
  if (turns == 0) return call.op("copy", {call.tensor(*self)});
  if (turns == 2) return call.op("flip", {call.tensor(*self)}, {listed("axes", axes)});
  const std::size_t rank = call.type().shape().size();
  const auto first = axis_of(axes[0], rank);
  const auto second = axis_of(axes[1], rank);
  if (!first || !second) return false;
  Wholes perm(rank);
  std::iota(perm.begin(), perm.end(), 0);
  std::swap(perm[*first], perm[*second]);
  const AtenCall::Step turned =
      call.step("flip", {call.tensor(*self)}, {listed("axes", Wholes{axes[turns == 1 ? 1 : 0]})});
  return call.last_step("permute_view", {turned}, {listed("perm", perm)});
}

// Row i has its 1 in column i.
bool identity(const AtenCall& call, std::string_view) {
  const Shape& shape = call.type().shape();
  if (shape.size() != 2) return false;
  const std::vector<WrittenDim> count(1, call.type().extents[0]);
  const AtenCall::Step rows = call.step(
      "iota", {},
      {listed("shape", count), {.name = "to", .value = std::string(name_of(DType::kI64))}});
  return call.last_step(
      "one_hot", {rows},
      {{.name = "classes", .value = static_cast<std::int64_t>(shape[1])}, to_type(call.type())});
}

bool triangle(const AtenCall& call, std::string_view row) {
  const auto self = call.value("self");
  if (!self) return false;
  return call.op(row, {call.tensor(*self)},
                 {{.name = "diagonal", .value = call.whole("diagonal", 0)}});
}

bool one_hot(const AtenCall& call, std::string_view) {
  const auto self = call.value("self");
  if (!self || call.type().shape().empty()) return false;
  return call.op(
      "one_hot", {call.tensor(*self)},
      {{.name = "classes", .value = static_cast<std::int64_t>(call.type().shape().back())}});
}

bool gather(const AtenCall& call, std::string_view) {
  const auto self = call.value("self");
  const auto index = call.value(call.value("index") ? "index" : "indices");
  if (!self || !index || !call.whole("dim")) return false;
  return call.op("gather_elements", {call.tensor(*self), call.tensor(*index)},
                 {axis_attribute(call, 0)});
}

// What a scatter may overwrite: memory of its own, unless the call overwrites `self` anyway.
std::optional<ModelGraph::TensorId> to_overwrite(const AtenCall& call) {
  const auto self = call.value("self");
  if (!self) return std::nullopt;
  const ProgramValue value = call.copy_of(*self);
  if (value.number) return filled(call.graph(), value.type, *value.number);
  if (call.may_overwrite("self")) return call.tensor(*self);
  return call.graph().op("copy", {call.tensor(*self)}, {}, value.type);
}

struct Reduction {
  std::string_view aten;
  std::string_view combine;
};
constexpr std::array kReductions = {
    Reduction{"", ""},        Reduction{"sum", "add"},      Reduction{"add", "add"},
    Reduction{"prod", "mul"}, Reduction{"multiply", "mul"}, Reduction{"amax", "max"},
    Reduction{"amin", "min"},
};

Attributes scatter_attributes(std::int64_t axis, std::string_view combine) {
  Attributes attributes = {listed("axes", Wholes{axis})};
  if (!combine.empty()) attributes.push_back({.name = "combine", .value = std::string(combine)});
  return attributes;
}

// With the elements that a scatter reaches replaced by a number that its results do not tell from
// none: what those elements were does not count.
std::optional<ModelGraph::TensorId> without_self(const AtenCall& call, ModelGraph::TensorId self,
                                                 ValueId index, std::string_view combine) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr std::array kNeutral = {std::pair{"add", 0.0}, std::pair{"mul", 1.0},
                                   std::pair{"max", -kInfinity}, std::pair{"min", kInfinity}};
  const auto* neutral = std::ranges::find(
      kNeutral, combine, [](const auto& entry) { return std::string_view(entry.first); });
  const ModelType type = call.graph().type(self);
  if (neutral == kNeutral.end() || !is_float(type.dtype())) return std::nullopt;
  ModelType places = call.at(index).type;
  places.type.dtype = type.dtype();
  ModelType single = model_type(Shape(places.shape().size(), 1), type.dtype());
  ModelGraph& graph = call.graph();
  const auto number = filled(graph, single, neutral->second);
  const auto all =
      number ? graph.op("expand_view", {*number}, {listed("shape", places.extents)}, places)
             : std::nullopt;
  return all ? graph.op("scatter_elements", {self, call.tensor(index), *all},
                        scatter_attributes(call.whole("dim", 0), ""), type)
             : std::nullopt;
}

// scatter, scatter_add and scatter_reduce; a single number goes to every place.
bool scatter(const AtenCall& call, std::string_view reduction) {
  const auto index = call.value("index");
  if (!index) return false;
  const std::string named = call.text("reduce");
  const auto* combine =
      std::ranges::find(kReductions, named.empty() ? reduction : named, &Reduction::aten);
  if (combine == kReductions.end()) return false;
  const ModelType places = call.at(*index).type;
  std::optional<ModelGraph::TensorId> updates;
  if (const auto source = call.value("src")) {
    updates = call.tensor(*source);
  } else if (const auto number = call.number("value")) {
    ModelType type = places;
    type.type.dtype = call.type().dtype();
    updates = filled(call.graph(), type, *number);
  }
  if (!updates || call.graph().type(*updates).shape() != places.shape()) return false;
  auto self = to_overwrite(call);
  if (self && !call.truth("include_self", true)) {
    self = without_self(call, *self, *index, combine->combine);
  }
  return self && call.op("scatter_elements", {*self, call.tensor(*index), *updates},
                         scatter_attributes(call.whole("dim", 0), combine->combine));
}

// The type of the rows along an axis that a single list of indices names; nothing for a mask.
std::optional<ModelType> named_rows(const AtenCall& call, ValueId index, std::int64_t axis) {
  ModelType rows = call.type();
  const auto place = axis_of(axis, rows.shape().size());
  if (!place || call.at(index).type.dtype() == DType::kBool) return std::nullopt;
  const ModelType& named = call.at(index).type;
  const auto at = static_cast<std::ptrdiff_t>(*place);
  rows.type.shape.erase(rows.type.shape.begin() + at);
  rows.extents.erase(rows.extents.begin() + at);
  rows.type.shape.insert(rows.type.shape.begin() + at, named.shape().begin(), named.shape().end());
  rows.extents.insert(rows.extents.begin() + at, named.extents.begin(), named.extents.end());
  return rows;
}

bool put(const AtenCall& call, ValueId index, std::optional<ModelGraph::TensorId> rows,
         std::int64_t axis, std::string_view combine) {
  if (!rows) return false;
  const auto self = to_overwrite(call);
  return self && call.op("scatter_update", {*self, call.tensor(index), *rows},
                         scatter_attributes(axis, combine));
}

bool put_rows(const AtenCall& call, ValueId index, ValueId values, std::int64_t axis,
              std::string_view combine) {
  std::optional<ModelType> rows = named_rows(call, index, axis);
  if (!rows) return false;
  rows->type.dtype = call.at(values).type.dtype();
  std::optional<ModelGraph::TensorId> updates = call.tensor(values);
  if (call.at(values).type.shape() != rows->shape()) {
    updates = call.graph().op("broadcast_to", {*updates}, {listed("shape", rows->extents)}, *rows);
  }
  return put(call, index, updates, axis, combine);
}

// A mask of the first axes chooses the places that a value overwrites: a number, or what is the
// same at all of them.
bool put_where(const AtenCall& call, ValueId mask, ValueId value) {
  const auto self = call.value("self");
  const Shape& single = call.at(value).type.shape();
  ModelType chosen = call.at(mask).type;
  const bool same = elements_between(single, 0, single.size()) == 1 ||
                    single.size() + chosen.shape().size() <= call.type().shape().size();
  if (!self || !same) return false;
  while (chosen.shape().size() < call.type().shape().size()) {
    chosen.type.shape.push_back(1);
    chosen.extents.emplace_back(std::int64_t{1});
  }
  const auto condition = reshaped(call.graph(), call.tensor(mask), chosen);
  return condition && call.op("where", {*condition, call.operand(value), call.operand(*self)});
}

bool index_fill(const AtenCall& call, std::string_view) {
  const auto index = call.value("index");
  const std::int64_t axis = call.whole("dim", 0);
  const auto rows = index ? named_rows(call, *index, axis) : std::nullopt;
  if (!rows) return false;
  const auto value = call.value("value");
  if (value && !call.at(*value).number) return put_rows(call, *index, *value, axis, "");
  const auto number = value ? call.at(*value).number : call.number("value");
  return number && put(call, *index, filled(call.graph(), *rows, *number), axis, "");
}

bool index_put(const AtenCall& call, std::string_view) {
  const ProgramArgument* indices = call.argument("indices");
  const auto values = call.value("values");
  if (indices == nullptr || !values) return false;
  const std::vector<ValueId> given = call.values("indices");
  const bool adds = call.truth("accumulate", false);
  if (given.size() > 1) {
    const auto self = to_overwrite(call);
    return self && scatter_places(call, *self, indices->tensors, *values, adds ? "add" : "");
  }
  if (given.empty()) return false;
  const auto place =
      std::ranges::find_if(indices->tensors, [](const auto& name) { return !name.empty(); });
  const auto axis = place - indices->tensors.begin();
  if (call.at(given[0]).type.dtype() == DType::kBool) {
    return axis == 0 && !adds && put_where(call, given[0], *values);
  }
  return put_rows(call, given[0], *values, axis, adds ? "add" : "");
}

bool index_add(const AtenCall& call, std::string_view combine) {
  const auto index = call.value("index");
  const auto source = call.value("source");
  if (!index || !source || call.number("alpha").value_or(1) != 1) return false;
  return put_rows(call, *index, *source, call.whole("dim", 0), combine);
}

bool index_reduce(const AtenCall& call, std::string_view) {
  const auto index = call.value("index");
  const auto source = call.value("source");
  const auto* combine = std::ranges::find(kReductions, call.text("reduce"), &Reduction::aten);
  if (!index || !source || combine == kReductions.end() || !call.truth("include_self", true)) {
    return false;
  }
  return put_rows(call, *index, *source, call.whole("dim", 0), combine->combine);
}

bool scan(const AtenCall& call, std::string_view row) {
  const auto self = call.value("self");
  return self && call.op(row, {call.tensor(*self)}, {axis_attribute(call, -1)});
}

bool sort(const AtenCall& call, std::string_view) {
  const auto self = call.value("self");
  if (!self) return false;
  return call.op(
      "sort", {call.tensor(*self)},
      {axis_attribute(call, -1), {.name = "descending", .value = call.truth("descending", false)}},
      2);
}

// The indices of a sort alone.
bool argsort(const AtenCall& call, std::string_view) {
  const auto self = call.value("self");
  if (!self) return false;
  const std::vector<ModelType> types = {call.copy_of(*self).type, call.type()};
  const auto made = call.graph().op(
      "sort", {call.tensor(*self)},
      {axis_attribute(call, -1), {.name = "descending", .value = call.truth("descending", false)}},
      types);
  if (made) call.set(0, (*made)[1]);
  return made.has_value();
}

bool topk(const AtenCall& call, std::string_view) {
  const auto self = call.value("self");
  const auto k = call.whole("k");
  if (!self || !k) return false;
  return call.op("topk", {call.tensor(*self)},
                 {axis_attribute(call, -1),
                  {.name = "k", .value = *k},
                  {.name = "largest", .value = call.truth("largest", true)}},
                 2);
}

constexpr std::array kIndexRules = {
    AtenRule{"arange", iota},
    AtenRule{"linspace", linspace},
    AtenRule{"pad", pad},
    AtenRule{"constant_pad_nd", pad},
    AtenRule{"reflection_pad1d", pad_with_own, "reflect"},
    AtenRule{"reflection_pad2d", pad_with_own, "reflect"},
    AtenRule{"reflection_pad3d", pad_with_own, "reflect"},
    AtenRule{"replication_pad1d", pad_with_own, "replicate"},
    AtenRule{"replication_pad2d", pad_with_own, "replicate"},
    AtenRule{"replication_pad3d", pad_with_own, "replicate"},
    AtenRule{"_pad_circular", pad_with_own, "circular"},
    AtenRule{"roll", roll},
    AtenRule{"rot90", quarter_turns},
    AtenRule{"eye", identity},
    AtenRule{"flip", flip},
    AtenRule{"tril", triangle, "tril"},
    AtenRule{"triu", triangle, "triu"},
    AtenRule{"one_hot", one_hot},
    AtenRule{"gather", gather},
    AtenRule{"take_along_dim", gather},
    AtenRule{"scatter", scatter},
    AtenRule{"scatter_add", scatter, "sum"},
    AtenRule{"scatter_reduce", scatter},
    AtenRule{"index_put", index_put},
    AtenRule{"_unsafe_index_put", index_put},
    AtenRule{"index_add", index_add, "add"},
    AtenRule{"index_copy", index_add},
    AtenRule{"index_reduce", index_reduce},
    AtenRule{"index_fill", index_fill},
    AtenRule{"cumsum", scan, "cumsum"},
    AtenRule{"cumprod", scan, "cumprod"},
    AtenRule{"sort", sort},
    AtenRule{"argsort", argsort},
    AtenRule{"topk", topk},
};

}  // namespace

std::span<const AtenRule> aten_index_rules() { return kIndexRules; }

}  // namespace fusecalc
