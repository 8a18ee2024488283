// Elements and rows that several indices name together: x[i, j] and x[i, j] = v.

#include <algorithm>
#include <numeric>
#include <string>

#include "input/affine.hpp"
#include "input/pt2/aten.hpp"

namespace fusecalc {
namespace {

using TensorId = ModelGraph::TensorId;

// What x[i, :, j] names.
struct Places {
  ModelType from;                   // x
  std::vector<std::size_t> axes{};  // of x, that have an index each
  std::vector<ValueId> indices;
  ModelType common{};  // the indices, broadcast
  bool apart = false;  // axes without an index are between them: those of the indices come first
};

void push_axis(ModelType& type, std::uint64_t extent, const WrittenDim& written) {
  type.type.shape.push_back(extent);
  type.extents.push_back(written);
}

void push_axis(ModelType& type, const ModelType& from, std::size_t axis) {
  push_axis(type, from.shape()[axis], from.extents[axis]);
}

// The product of the extents of some axes, as an op list has it.
WrittenDim product_of(const ModelGraph& graph, const ModelType& type,
                      std::span<const std::size_t> axes) {
  if (axes.size() == 1) return type.extents[axes[0]];
  std::string text;
  std::int64_t value = 1;
  bool numbers = true;
  for (const std::size_t axis : axes) {
    const auto* dims = std::get_if<std::string>(&type.extents[axis]);
    const auto extent = static_cast<std::int64_t>(type.shape()[axis]);
    numbers = numbers && dims == nullptr;
    if (!text.empty()) text += "*";
    text += dims == nullptr ? std::to_string(extent) : "(" + *dims + ")";
    value *= extent;
  }
  return numbers ? WrittenDim(value) : graph.extent(text, value);
}

// Broadcasts a type to another one, too; false where they do not fit.
bool widen(ModelType& common, const ModelType& other) {
  ModelType narrow = common;
  ModelType wide = other;
  if (wide.shape().size() < narrow.shape().size()) std::swap(narrow, wide);
  const std::size_t added = wide.shape().size() - narrow.shape().size();
  for (std::size_t i = 0; i < narrow.shape().size(); ++i) {
    std::uint64_t& extent = wide.type.shape[added + i];
    if (extent == 1) {
      extent = narrow.shape()[i];
      wide.extents[added + i] = narrow.extents[i];
    } else if (narrow.shape()[i] != 1 && narrow.shape()[i] != extent) {
      return false;
    }
  }
  common = std::move(wide);
  return true;
}

// Nothing where a mask is among the indices.
std::optional<Places> places_of(const AtenCall& call, const ModelType& from,
                                std::span<const std::string> names) {
  Places places{.from = from, .indices = call.values("indices")};
  for (std::size_t axis = 0; axis < names.size(); ++axis) {
    if (!names[axis].empty()) places.axes.push_back(axis);
  }
  if (places.axes.size() < 2 || names.size() > from.shape().size()) return std::nullopt;
  places.apart = places.axes.back() - places.axes.front() + 1 != places.axes.size();
  places.common = call.at(places.indices[0]).type;
  for (const ValueId id : places.indices) {
    const ModelType& type = call.at(id).type;
    if (type.dtype() == DType::kBool || !widen(places.common, type)) return std::nullopt;
  }
  const auto elements = [](const ModelType& type) {
    return checked_elements(type.shape()).value_or(0);
  };
  if (elements(from) == 0 || elements(places.common) == 0) return std::nullopt;
  return places;
}

// The axes of x with an index in the place of the first of them, or before all others.
std::vector<std::int64_t> indexed_first(const Places& places) {
  std::vector<std::int64_t> order(places.axes.begin(), places.axes.end());
  for (std::size_t axis = 0; axis < places.from.shape().size(); ++axis) {
    if (std::ranges::find(places.axes, axis) != places.axes.end()) continue;
    const bool before = !places.apart && axis < places.axes.front();
    order.insert(before ? order.begin() + static_cast<std::ptrdiff_t>(axis) : order.end(),
                 static_cast<std::int64_t>(axis));
  }
  return order;
}

ModelType reordered_type(const ModelType& from, const std::vector<std::int64_t>& order) {
  ModelType type{.type = {{}, from.dtype()}, .extents = {}};
  for (const std::int64_t axis : order) push_axis(type, from, static_cast<std::size_t>(axis));
  return type;
}

std::optional<TensorId> reordered(ModelGraph& graph, TensorId tensor,
                                  const std::vector<std::int64_t>& order) {
  if (std::ranges::is_sorted(order)) return tensor;
  const ModelType type = reordered_type(graph.type(tensor), order);
  return graph.op("permute_view", {tensor}, {listed("perm", order)}, type);
}

// In another shape; a copy first where the elements do not lie so.
std::optional<TensorId> in_shape(ModelGraph& graph, TensorId tensor, const ModelType& type) {
  const auto shown = reshaped(graph, tensor, type);
  if (shown) return shown;
  const ModelType whole = graph.type(tensor);
  const auto copy = graph.op("copy", {tensor}, {}, whole);
  return copy ? reshaped(graph, *copy, type) : std::nullopt;
}

// All indices but the last count up through their axes: each place of these has elements of its
// own, as the last token of each sequence. What the last index names there, as gather_elements has
// it.
struct EachPlace {
  TensorId index = 0;
  ModelType rows;  // x with as many elements along the last index's axis as it names
};

std::optional<EachPlace> each_place(const AtenCall& call, const Places& places) {
  ModelGraph& graph = call.graph();
  const std::size_t counted = places.axes.size() - 1;
  const std::size_t rank = places.common.shape().size();
  if (call.at(places.indices[counted]).number) return std::nullopt;
  for (std::size_t i = 0; i < counted; ++i) {
    if (call.at(places.indices[i]).number) return std::nullopt;
    const std::uint64_t extent = places.from.shape()[places.axes[i]];
    if (counted_axis(graph, call.tensor(places.indices[i]), extent, rank) != i) {
      return std::nullopt;
    }
  }
  const ModelType index = call.copy_of(places.indices[counted]).type;
  const std::size_t missing = rank - index.shape().size();
  const std::size_t last = places.axes[counted];
  EachPlace each{.rows = places.from};
  std::vector<std::size_t> names(rank - counted);
  std::iota(names.begin(), names.end(), counted);
  const std::uint64_t named = elements_between(places.common.shape(), counted, rank);
  const WrittenDim written = product_of(graph, places.common, names);
  each.rows.type.shape[last] = named;
  each.rows.extents[last] = written;
  ModelType single{.type = {{}, index.dtype()}, .extents = {}};
  for (std::size_t axis = 0; axis < places.from.shape().size(); ++axis) {
    const auto place = std::ranges::find(places.axes, axis) - places.axes.begin();
    const auto of_common = static_cast<std::size_t>(place);
    if (axis == last) {
      push_axis(single, named, written);
    } else if (of_common < counted && of_common >= missing) {
      push_axis(single, index, of_common - missing);
    } else {
      push_axis(single, 1, std::int64_t{1});
    }
  }
  ModelType whole = each.rows;
  whole.type.dtype = index.dtype();
  const auto apart = reshaped(graph, call.tensor(places.indices[counted]), single);
  if (!apart) return std::nullopt;
  const auto spread =
      single.shape() == whole.shape()
          ? apart
          : graph.op("expand_view", {*apart}, {listed("shape", whole.extents)}, whole);
  if (!spread) return std::nullopt;
  each.index = *spread;
  return each;
}

// The axes with indices, which are neighbours, as one, and one index of it.
struct MergedPlaces {
  std::vector<std::int64_t> axis;  // of x where they are merged
  ModelType merged;                // x
  TensorId index = 0;
};

std::optional<MergedPlaces> merged_places(const AtenCall& call, const Places& places) {
  if (places.apart) return std::nullopt;
  ModelGraph& graph = call.graph();
  MergedPlaces merged{.axis = {static_cast<std::int64_t>(places.axes.front())},
                      .merged = {.type = {{}, places.from.dtype()}, .extents = {}}};
  const std::uint64_t extent =
      elements_between(places.from.shape(), places.axes.front(), places.axes.back() + 1);
  for (std::size_t axis = 0; axis < places.from.shape().size(); ++axis) {
    if (axis == places.axes.front()) {
      push_axis(merged.merged, extent, product_of(graph, places.from, places.axes));
    } else if (axis < places.axes.front() || axis > places.axes.back()) {
      push_axis(merged.merged, places.from, axis);
    }
  }
  AtenCall::Step index;
  for (std::size_t i = 0; i < places.axes.size(); ++i) {
    const auto number = call.at(places.indices[i]).number;
    const auto own = number ? AtenCall::Step(*number) : call.tensor(places.indices[i]);
    const auto steps = static_cast<double>(places.from.shape()[places.axes[i]]);
    index = i == 0 ? own : call.step("fma", {index, steps, own});
  }
  const auto* tensor = index ? std::get_if<TensorId>(&*index) : nullptr;
  if (tensor == nullptr || graph.type(*tensor).shape() != places.common.shape()) {
    return std::nullopt;
  }
  merged.index = *tensor;
  return merged;
}

// A copy with other axes, where the indices count up through all elements. Masks are made so.
bool all_in_order(const AtenCall& call, ValueId self, const Places& places) {
  ModelGraph& graph = call.graph();
  const ModelType& type = call.type();
  const std::uint64_t all = elements_between(places.from.shape(), 0, places.from.shape().size());
  if (places.apart || elements_between(type.shape(), 0, type.shape().size()) != all) return false;
  std::vector<TensorId> indices;
  for (const ValueId id : places.indices) {
    if (call.at(id).number) return false;
    indices.push_back(call.tensor(id));
  }
  const auto axes = std::span(places.from.shape()).subspan(places.axes.front(), places.axes.size());
  if (!choose_all(graph, indices, axes)) return false;
  const auto same = reshaped(graph, call.tensor(self), type);
  const auto copy = same ? graph.op("copy", {*same}, {}, type) : std::nullopt;
  if (copy) call.set(0, *copy);
  return copy.has_value();
}

}  // namespace

bool gather_places(const AtenCall& call, ValueId self, std::span<const std::string> names) {
  const auto places = places_of(call, call.copy_of(self).type, names);
  if (!places) return false;
  if (all_in_order(call, self, *places)) return true;
  ModelGraph& graph = call.graph();
  if (const auto each = each_place(call, *places)) {
    const auto axis = static_cast<std::int64_t>(places->axes.back());
    const auto chosen = graph.op("gather_elements", {call.tensor(self), each->index},
                                 {listed("axes", {axis})}, each->rows);
    const auto ordered = chosen ? reordered(graph, *chosen, indexed_first(*places)) : std::nullopt;
    const auto result = ordered ? in_shape(graph, *ordered, call.type()) : std::nullopt;
    if (result) return call.set(0, *result), true;
  }
  const auto merged = merged_places(call, *places);
  const auto rows = merged ? reshaped(graph, call.tensor(self), merged->merged) : std::nullopt;
  return rows && call.op("gather", {*rows, merged->index}, {listed("axes", merged->axis)});
}

bool scatter_places(const AtenCall& call, TensorId overwritten, std::span<const std::string> names,
                    ValueId values, std::string_view combine) {
  const auto places = places_of(call, call.type(), names);
  if (!places) return false;
  ModelGraph& graph = call.graph();
  // What the call gives values for: the axes of the indices in the place of theirs.
  ModelType named{.type = {{}, call.copy_of(values).type.dtype()}, .extents = {}};
  for (std::size_t i = 0; i < places->common.shape().size(); ++i) {
    push_axis(named, places->common, i);
  }
  std::size_t before = 0;
  for (std::size_t axis = 0; axis < places->from.shape().size(); ++axis) {
    if (std::ranges::find(places->axes, axis) != places->axes.end()) continue;
    const bool leads = !places->apart && axis < places->axes.front();
    const auto at = static_cast<std::ptrdiff_t>(leads ? before++ : named.shape().size());
    named.type.shape.insert(named.type.shape.begin() + at, places->from.shape()[axis]);
    named.extents.insert(named.extents.begin() + at, places->from.extents[axis]);
  }
  const ProgramValue given = call.copy_of(values);
  std::optional<TensorId> updates =
      given.number ? filled(graph, named, *given.number) : std::optional(call.tensor(values));
  if (updates && graph.type(*updates).shape() != named.shape()) {
    updates = graph.op("broadcast_to", {*updates}, {listed("shape", named.extents)}, named);
  }
  if (!updates) return false;
  std::vector<WrittenAttribute> attributes;
  if (!combine.empty()) attributes.push_back({.name = "combine", .value = std::string(combine)});
  if (const auto each = each_place(call, *places)) {
    const std::vector<std::int64_t> order = indexed_first(*places);
    std::vector<std::int64_t> back(order.size());
    for (std::size_t i = 0; i < order.size(); ++i) {
      back[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
    }
    ModelType ordered = reordered_type(each->rows, order);
    ordered.type.dtype = named.dtype();
    const auto apart = in_shape(graph, *updates, ordered);
    const auto rows = apart ? reordered(graph, *apart, back) : std::nullopt;
    attributes.push_back(listed("axes", {static_cast<std::int64_t>(places->axes.back())}));
    if (rows && call.op("scatter_elements", {overwritten, each->index, *rows}, attributes)) {
      return true;
    }
    attributes.pop_back();
  }
  const auto merged = merged_places(call, *places);
  const auto rows = merged ? reshaped(graph, overwritten, merged->merged) : std::nullopt;
  if (!rows) return false;
  attributes.push_back(listed("axes", merged->axis));
  const auto made =
      graph.op("scatter_update", {*rows, merged->index, *updates}, attributes, merged->merged);
  return made && call.op("reshape", {*made}, {listed("shape", call.type().extents)});
}

}  // namespace fusecalc
