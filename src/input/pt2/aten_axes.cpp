// ATen ops that show elements along other axes: repeated, as a grid, a diagonal or windows.

#include <algorithm>
#include <array>

#include "input/pt2/aten.hpp"

namespace fusecalc {
namespace {

// A result that shows a value along more axes, or longer ones.
void show_expanded(const AtenCall& call, std::size_t result, ValueId id) {
  const ProgramValue value = call.copy_of(id);
  if (value.number) {
    call.share_number(result, id, *value.number);
  } else if (value.base != ProgramValue::kNoTensor) {
    call.share_base(result, id, value.base);
  } else if (value.type.shape() == call.type(result).shape()) {
    call.share(result, id, value.tensor);
  } else {
    call.share_base(result, id, value.tensor);
  }
}

bool expand(const AtenCall& call, std::string_view) {
  const auto self = call.value("self");
  if (self) show_expanded(call, 0, *self);
  return self.has_value();
}

bool broadcast_tensors(const AtenCall& call, std::string_view) {
  const std::vector<ValueId> values = call.values("tensors");
  if (values.size() != call.results()) return false;
  for (std::size_t i = 0; i < values.size(); ++i) show_expanded(call, i, values[i]);
  return true;
}

// Each vector along an axis of its own; with "xy", the first two change places.
bool meshgrid(const AtenCall& call, std::string_view) {
  const std::vector<ValueId> values = call.values("tensors");
  if (values.size() != call.results()) return false;
  const bool swapped = call.text("indexing") == "xy" && values.size() > 1;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t axis = swapped && i < 2 ? 1 - i : i;
    const ModelType& type = call.type(i);
    if (axis >= type.shape().size()) return false;
    ModelType column = model_type(Shape(type.shape().size(), 1), type.dtype());
    column.type.shape[axis] = type.shape()[axis];
    column.extents[axis] = type.extents[axis];
    const auto shown = reshaped(call.graph(), call.tensor(values[i]), column);
    if (!shown) return false;
    call.share_base(i, values[i], *shown);
  }
  return true;
}

struct Diagonal {
  std::size_t first = 0;  // the axes of its matrices
  std::size_t second = 1;
  std::int64_t offset = 0;
};

// Of rows of m elements, one after the other, every (m + 1)-th is that of a diagonal.
std::optional<ModelGraph::TensorId> diagonal_of(const AtenCall& call, ValueId self,
                                                const Diagonal& diagonal, const ModelType& type) {
  const Shape shape = call.at(self).type.shape();
  const auto height = static_cast<std::int64_t>(shape[diagonal.first]);
  const auto width = static_cast<std::int64_t>(shape[diagonal.second]);
  const std::int64_t offset = diagonal.offset;
  if (offset <= -height || offset >= width) return std::nullopt;
  const std::int64_t start = offset < 0 ? -offset * width : offset;
  const std::int64_t length = std::min(height + std::min(offset, std::int64_t{0}),
                                       width - std::max(offset, std::int64_t{0}));
  ModelType rows = type;
  rows.type.shape.back() = shape[diagonal.first] * shape[diagonal.second];
  rows.extents.back() = height * width;
  const auto matrices =
      with_last(call.graph(), call.tensor(self), {diagonal.first, diagonal.second});
  const auto flat = matrices ? reshaped(call.graph(), *matrices, rows) : std::nullopt;
  if (!flat) return std::nullopt;
  return sliced(call.graph(), *flat,
                {rows.shape().size() - 1, start, start + (length - 1) * (width + 1) + 1, width + 1},
                type);
}

bool diagonal(const AtenCall& call, std::string_view) {
  const auto self = call.value("self");
  if (!self) return false;
  const std::size_t rank = call.at(*self).type.shape().size();
  const auto first = axis_of(call.whole("dim1", 0), rank);
  const auto second = axis_of(call.whole("dim2", 1), rank);
  if (!first || !second || *first == *second) return false;
  const auto number = call.at(*self).number;
  if (number) return call.share_number(0, *self, *number), true;
  if (call.type().shape().size() != rank - 1) return false;
  const auto result =
      diagonal_of(call, *self, {*first, *second, call.whole("offset", 0)}, call.type());
  if (result) call.share(0, *self, *result);
  return result.has_value();
}

bool trace(const AtenCall& call, std::string_view) {
  const auto self = call.value("self");
  if (!self || call.at(*self).type.shape().size() != 2) return false;
  const ModelType from = call.at(*self).type;
  const std::uint64_t length = std::min(from.shape()[0], from.shape()[1]);
  const auto elements = diagonal_of(call, *self, {}, model_type({length}, from.dtype()));
  return elements && call.op("sum", {*elements});
}

// Windows along an axis, which become the last one: views where they lie side by side.
bool unfold(const AtenCall& call, std::string_view) {
  const auto self = call.value("self");
  if (!self) return false;
  const ProgramValue value = call.copy_of(*self);
  const std::int64_t size = call.whole("size", 0);
  const auto axis = axis_of(call.whole("dimension", 0), value.type.shape().size());
  if (!axis || size < 1 || call.whole("step", 0) != size) return false;
  if (value.number) return call.share_number(0, *self, *value.number), true;
  const std::int64_t windows = static_cast<std::int64_t>(value.type.shape()[*axis]) / size;
  if (windows == 0 || call.type().shape().size() != value.type.shape().size() + 1) return false;
  ModelType whole = value.type;
  whole.type.shape[*axis] = static_cast<std::uint64_t>(windows * size);
  whole.extents[*axis] = windows * size;
  ModelType apart = whole;
  const auto place = static_cast<std::ptrdiff_t>(*axis);
  apart.type.shape[*axis] = static_cast<std::uint64_t>(size);
  apart.extents[*axis] = size;
  apart.type.shape.insert(apart.type.shape.begin() + place, call.type().shape()[*axis]);
  apart.extents.insert(apart.extents.begin() + place, call.type().extents[*axis]);
  ModelGraph& graph = call.graph();
  const auto part = sliced(graph, call.tensor(*self), {*axis, 0, windows * size}, whole);
  const auto split = part ? reshaped(graph, *part, apart) : std::nullopt;
  const auto result = split ? with_last(graph, *split, {*axis + 1}) : std::nullopt;
  if (result) call.share(0, *self, *result);
  return result.has_value();
}

constexpr std::array kAxisRules = {
    AtenRule{"expand", expand},
    AtenRule{"expand_as", expand},
    AtenRule{"expand_copy", expand},
    AtenRule{"broadcast_to", expand},
    AtenRule{"broadcast_tensors", broadcast_tensors},
    AtenRule{"meshgrid", meshgrid},
    AtenRule{"diagonal", diagonal},
    AtenRule{"diagonal_copy", diagonal},
    AtenRule{"trace", trace},
    AtenRule{"unfold", unfold},
};

}  // namespace

std::optional<ModelGraph::TensorId> with_last(ModelGraph& graph, ModelGraph::TensorId tensor,
                                              const std::vector<std::size_t>& last) {
  const ModelType from = graph.type(tensor);
  std::vector<std::int64_t> perm;
  for (std::size_t i = 0; i < from.shape().size(); ++i) {
    if (std::ranges::find(last, i) == last.end()) perm.push_back(static_cast<std::int64_t>(i));
  }
  for (const std::size_t axis : last) perm.push_back(static_cast<std::int64_t>(axis));
  if (std::ranges::is_sorted(perm)) return tensor;
  ModelType to = model_type({}, from.dtype());
  for (const std::int64_t axis : perm) {
    to.type.shape.push_back(from.shape()[static_cast<std::size_t>(axis)]);
    to.extents.push_back(from.extents[static_cast<std::size_t>(axis)]);
  }
  return graph.op("permute_view", {tensor}, {listed("perm", perm)}, to);
}

std::span<const AtenRule> aten_axis_rules() { return kAxisRules; }

}  // namespace fusecalc
