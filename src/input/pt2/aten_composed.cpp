// ATen ops that several ops of the table compute together.

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <utility>

#include "core/ceil_div.hpp"
#include "input/affine.hpp"
#include "input/pt2/aten.hpp"

namespace fusecalc {
namespace {

using Inputs = std::vector<ModelGraph::Input>;
using TensorId = ModelGraph::TensorId;

ModelType with_extent(ModelType type, std::size_t axis, const WrittenDim& written,
                      std::uint64_t extent) {
  type.type.shape[axis] = extent;
  type.extents[axis] = written;
  return type;
}

ModelType with_extent(ModelType type, std::size_t axis, std::uint64_t extent) {
  return with_extent(std::move(type), axis, static_cast<std::int64_t>(extent), extent);
}

WrittenAttribute along(std::size_t axis) {
  return listed("axes", {static_cast<std::int64_t>(axis)});
}

// Differences of neighbours, of what is given before and after it, too.
bool diff(const AtenCall& call, std::string_view) {
  const auto self = call.value("self");
  const ModelType& type = call.type();
  const auto axis = axis_of(call.whole("dim", -1), type.shape().size());
  if (!self || !axis || call.whole("n", 1) != 1) return false;
  Inputs parts;
  std::uint64_t extent = 0;
  for (const std::string_view name : {"prepend", "self", "append"}) {
    const auto value = call.value(name);
    if (!value) continue;
    parts.emplace_back(call.tensor(*value));
    extent += call.at(*value).type.shape()[*axis];
  }
  if (extent != type.shape()[*axis] + 1) return false;
  ModelType whole = with_extent(call.at(*self).type, *axis, extent);
  auto joined = std::get<TensorId>(parts.front());
  if (parts.size() > 1) {
    const auto made = call.graph().op("concat", parts, {along(*axis)}, whole);
    if (!made) return false;
    joined = *made;
  }
  const auto end = static_cast<std::int64_t>(extent);
  const auto next = sliced(call.graph(), joined, {*axis, 1, end}, type);
  const auto last = sliced(call.graph(), joined, {*axis, 0, end - 1}, type);
  return next && last && call.op("sub", {*next, *last});
}

// Each element several times, one after the other: a new axis that is merged.
bool repeat_interleave(const AtenCall& call, std::string_view) {
  const auto self = call.value("self");
  const auto times = call.whole("repeats");
  if (!self || !times || *times < 1 || !call.given("dim")) return false;
  const ModelType from = call.at(*self).type;
  const auto axis = axis_of(call.whole("dim", 0), from.shape().size());
  if (!axis) return false;
  ModelType apart = from;
  const auto place = static_cast<std::ptrdiff_t>(*axis) + 1;
  apart.type.shape.insert(apart.type.shape.begin() + place, 1);
  apart.extents.emplace(apart.extents.begin() + place, std::int64_t{1});
  const ModelType spread = with_extent(apart, *axis + 1, static_cast<std::uint64_t>(*times));
  ModelGraph& graph = call.graph();
  const auto single =
      graph.op("reshape", {call.tensor(*self)}, {listed("shape", apart.extents)}, apart);
  const auto copies =
      single ? graph.op("broadcast_to", {*single}, {listed("shape", spread.extents)}, spread)
             : std::nullopt;
  return copies && call.op("reshape", {*copies}, {listed("shape", call.type().extents)});
}

// One half, with the other one as its gate.
bool glu(const AtenCall& call, std::string_view) {
  const auto self = call.value("self");
  const ModelType& type = call.type();
  const auto axis = axis_of(call.whole("dim", -1), type.shape().size());
  if (!self || !axis) return false;
  const auto half = static_cast<std::int64_t>(type.shape()[*axis]);
  const TensorId tensor = call.tensor(*self);
  const auto a = sliced(call.graph(), tensor, {*axis, 0, half}, type);
  const auto b = sliced(call.graph(), tensor, {*axis, half, 2 * half}, type);
  return a && b && call.op("gate", {*a, *b});
}

// Each step-th place of an axis, replaced by a source: one of the places of an axis that is split.
bool step_scatter(const AtenCall& call, const ProgramValue& whole, TensorId source,
                  const AxisRange& range) {
  const auto extent = static_cast<std::int64_t>(whole.type.shape()[range.axis]);
  if (range.start >= range.step || range.end != extent || extent % range.step != 0) return false;
  const auto split = [&range](ModelType type, std::int64_t places) {
    const std::uint64_t steps = type.shape()[range.axis] / static_cast<std::uint64_t>(places);
    type = with_extent(std::move(type), range.axis, steps);
    const auto place = static_cast<std::ptrdiff_t>(range.axis) + 1;
    type.type.shape.insert(type.type.shape.begin() + place, static_cast<std::uint64_t>(places));
    type.extents.insert(type.extents.begin() + place, 1, WrittenDim(places));
    return type;
  };
  ModelGraph& graph = call.graph();
  ProgramValue apart = whole;
  apart.type = split(whole.type, range.step);
  if (whole.tensor != ProgramValue::kNoTensor) {
    const auto shown = reshaped(graph, whole.tensor, apart.type);
    if (!shown) return false;
    apart.tensor = *shown;
  }
  const auto part = reshaped(graph, source, split(graph.type(source), 1));
  const auto joined =
      part ? overwritten(graph, apart, *part, {range.axis + 1, range.start, range.start + 1})
           : std::nullopt;
  return joined && call.op("reshape", {*joined}, {listed("shape", call.type().extents)});
}

// A range of an axis, or a single place, replaced by a source.
bool range_scatter(const AtenCall& call, std::string_view) {
  const auto self = call.value("self");
  const auto source = call.value("src");
  if (!self || !source) return false;
  const ProgramValue whole = call.copy_of(*self);
  const auto range = call.range(whole.type);
  if (!range) return false;
  const TensorId part = call.tensor(*source);
  if (call.overwrites_input("self")) {
    const auto result = updated(call.graph(), whole.tensor, part, *range);
    if (result) call.set_overwritten(*result);
    return result.has_value();
  }
  if (range->step != 1) return step_scatter(call, whole, part, *range);
  const auto result = overwritten(call.graph(), whole, part, *range);
  if (result) call.set(0, *result);
  return result.has_value();
}

// Products of whole numbers are summed in 32 bits.
bool whole_product(const AtenCall& call, std::string_view) {
  const auto a = call.value("self");
  const auto b = call.value("mat2");
  if (!a || !b) return false;
  return call.op("matmul", {call.tensor(*a), call.tensor(*b)});
}

// The square root of the sum of squares, the sum of magnitudes or the largest of them.
bool vector_norm(const AtenCall& call, std::string_view) {
  const auto self = call.value("self");
  const double order = call.number("ord").value_or(call.number("p").value_or(2));
  if (!self || call.given("dtype")) return false;
  std::vector<WrittenAttribute> attributes;
  const std::vector<std::int64_t> axes = call.wholes("dim");
  if (!axes.empty()) attributes.push_back(listed("axes", axes));
  if (call.truth("keepdim", false)) attributes.push_back({.name = "keepdim", .value = true});
  const TensorId tensor = call.tensor(*self);
  const ModelType from = call.graph().type(tensor);
  if (order == std::numeric_limits<double>::infinity()) {
    return call.op("amax_abs", {tensor}, attributes);
  }
  if (order == 2) return call.op("l2_norm", {tensor}, attributes);
  if (order != 1) return false;
  const auto magnitudes = call.graph().op("abs", {tensor}, {}, from);
  return magnitudes && call.op("sum", {*magnitudes}, attributes);
}

// Without an order, the same of all axes; with one, that of two axes is a norm of matrices.
bool any_norm(const AtenCall& call, std::string_view row) {
  const auto self = call.value("self");
  const std::string order = call.text("ord");
  const std::size_t axes = call.wholes("dim").size();
  const bool vectors = axes == 1 || (self && call.at(*self).type.shape().size() == 1);
  const bool known = order.empty() ? vectors || !call.number("ord") : order == "fro";
  return known && vector_norm(call, row);
}

// Channels become pixels: [.., C r r, H, W] -> [.., C, H r, W r], and back.
bool pixel_shuffle(const AtenCall& call, std::string_view) {
  const auto self = call.value("self");
  const bool back = call.given("downscale_factor");
  const auto r = static_cast<std::uint64_t>(
      std::max<std::int64_t>(1, call.whole(back ? "downscale_factor" : "upscale_factor", 1)));
  if (!self) return false;
  const Shape from = call.at(*self).type.shape();
  const std::size_t lead = from.size() < 3 ? 0 : from.size() - 3;
  if (from.size() < 3) return false;
  const std::uint64_t c = back ? from[lead] : from[lead] / (r * r);
  const std::uint64_t h = back ? from[lead + 1] / r : from[lead + 1];
  const std::uint64_t w = back ? from[lead + 2] / r : from[lead + 2];
  Shape apart(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(lead));
  Shape moved = apart;
  std::vector<std::int64_t> perm(lead);
  std::iota(perm.begin(), perm.end(), 0);
  const Shape split = back ? Shape{c, h, r, w, r} : Shape{c, r, r, h, w};
  const std::array<std::size_t, 5> order =
      back ? std::array<std::size_t, 5>{0, 2, 4, 1, 3} : std::array<std::size_t, 5>{0, 3, 1, 4, 2};
  apart.insert(apart.end(), split.begin(), split.end());
  for (const std::size_t i : order) {
    moved.push_back(split[i]);
    perm.push_back(static_cast<std::int64_t>(lead + i));
  }
  const DType dtype = call.type().dtype();
  const auto view = reshaped(call.graph(), call.tensor(*self), model_type(apart, dtype));
  const auto copy =
      view ? call.graph().op("transpose", {*view}, {listed("perm", perm)}, model_type(moved, dtype))
           : std::nullopt;
  return copy && call.op("reshape", {*copy}, {listed("shape", call.type().extents)});
}

// Channels of groups take turns: [N, g C, ..] as [N, g, C, ..], the other way round.
bool channel_shuffle(const AtenCall& call, std::string_view) {
  const auto self = call.value("self");
  const std::int64_t groups = call.whole("groups", 0);
  if (!self || groups < 1) return false;
  const ModelType from = call.at(*self).type;
  const auto count = static_cast<std::uint64_t>(groups);
  if (from.shape().size() < 2 || from.shape()[1] % count != 0) return false;
  const std::uint64_t channels = from.shape()[1] / count;
  ModelType apart = from;
  apart.type.shape.resize(1);
  apart.extents.resize(1);
  const auto append = [&apart](std::uint64_t extent, WrittenDim written) {
    apart.type.shape.push_back(extent);
    apart.extents.push_back(std::move(written));
  };
  append(count, groups);
  append(channels, static_cast<std::int64_t>(channels));
  for (std::size_t i = 2; i < from.shape().size(); ++i) append(from.shape()[i], from.extents[i]);
  ModelType moved = apart;
  std::swap(moved.type.shape[1], moved.type.shape[2]);
  std::swap(moved.extents[1], moved.extents[2]);
  std::vector<std::int64_t> perm(apart.shape().size());
  std::iota(perm.begin(), perm.end(), 0);
  std::swap(perm[1], perm[2]);
  const auto view = reshaped(call.graph(), call.tensor(*self), apart);
  const auto copy =
      view ? call.graph().op("transpose", {*view}, {listed("perm", perm)}, moved) : std::nullopt;
  return copy && call.op("reshape", {*copy}, {listed("shape", call.type().extents)});
}

// The parts of a range of an axis: of a tensor that was joined along it, those that it was joined
// of, so that memory that is written part by part is joined once. Nothing where one has no op.
std::optional<Inputs> parts_of(ModelGraph& graph, const ProgramValue& whole,
                               const AxisRange& range) {
  // A program that writes more parts has them joined in between.
  constexpr std::size_t kMostParts = 4096;
  const auto type_of = [&](std::int64_t from, std::int64_t to) {
    return with_extent(whole.type, range.axis, static_cast<std::uint64_t>(to - from));
  };
  if (whole.tensor == ProgramValue::kNoTensor) {
    const auto part =
        whole.number ? filled(graph, type_of(range.start, range.end), *whole.number) : std::nullopt;
    return part ? std::optional(Inputs{*part}) : std::nullopt;
  }
  std::vector<ModelGraph::Input> joined = {whole.tensor};
  const auto origin = graph.written_by(whole.tensor, "concat");
  if (origin && origin->inputs.size() <= kMostParts) {
    const auto& axes = std::get<std::vector<WrittenDim>>(origin->attributes[0].value);
    const auto axis = axis_of(std::get<std::int64_t>(axes[0]), whole.type.shape().size());
    if (axis == range.axis) joined = origin->inputs;
  }
  Inputs parts;
  std::int64_t start = 0;
  for (const ModelGraph::Input& input : joined) {
    const auto part = std::get<TensorId>(input);
    const auto extent = static_cast<std::int64_t>(graph.type(part).shape()[range.axis]);
    const std::int64_t from = std::max(range.start, start);
    const std::int64_t to = std::min(range.end, start + extent);
    if (from < to) {
      std::optional<TensorId> taken = part;
      if (to - from < extent) {
        const auto full = graph.written_by(part, "full");
        taken =
            full ? filled(graph, type_of(from, to), number_of(*full, "value", 0))
                 : sliced(graph, part, {range.axis, from - start, to - start}, type_of(from, to));
      }
      if (!taken) return std::nullopt;
      parts.emplace_back(*taken);
    }
    start += extent;
  }
  return parts;
}

constexpr std::array kComposedRules = {
    AtenRule{"diff", diff},
    AtenRule{"repeat_interleave", repeat_interleave},
    AtenRule{"glu", glu},
    AtenRule{"slice_scatter", range_scatter},
    AtenRule{"select_scatter", range_scatter},
    AtenRule{"_int_mm", whole_product},
    AtenRule{"linalg_vector_norm", vector_norm},
    AtenRule{"linalg_norm", any_norm},
    AtenRule{"norm", vector_norm},
    AtenRule{"pixel_shuffle", pixel_shuffle},
    AtenRule{"pixel_unshuffle", pixel_shuffle},
    AtenRule{"channel_shuffle", channel_shuffle},
};

}  // namespace

std::span<const AtenRule> aten_composed_rules() { return kComposedRules; }

namespace {

// A part with the axes of the type that it replaces: that of a single place has one less.
std::optional<TensorId> placed(ModelGraph& graph, TensorId part, const ModelType& expected) {
  if (graph.type(part).dtype() != expected.dtype()) return std::nullopt;
  if (graph.type(part).shape() == expected.shape()) return part;
  return reshaped(graph, part, expected);
}

}  // namespace

std::optional<TensorId> overwritten(ModelGraph& graph, const ProgramValue& whole, TensorId part,
                                    const AxisRange& range) {
  const auto extent = static_cast<std::int64_t>(whole.type.shape()[range.axis]);
  const ModelType expected =
      with_extent(whole.type, range.axis, static_cast<std::uint64_t>(range.end - range.start));
  const auto fitting = placed(graph, part, expected);
  if (!fitting) return std::nullopt;
  part = *fitting;
  if (range.start == 0 && range.end == extent) return part;
  if (std::ranges::count(expected.shape(), 0U) != 0) {
    if (whole.tensor != ProgramValue::kNoTensor) return whole.tensor;
    return whole.number ? filled(graph, whole.type, *whole.number) : std::nullopt;
  }
  Inputs parts;
  const auto add = [&](std::int64_t start, std::int64_t end) {
    const auto more = parts_of(graph, whole, {range.axis, start, end});
    if (more) parts.insert(parts.end(), more->begin(), more->end());
    return more.has_value();
  };
  if (range.start > 0 && !add(0, range.start)) return std::nullopt;
  parts.emplace_back(part);
  if (range.end < extent && !add(range.end, extent)) return std::nullopt;
  return graph.op("concat", parts, {along(range.axis)}, whole.type);
}

std::optional<TensorId> updated(ModelGraph& graph, TensorId whole, TensorId part,
                                const AxisRange& range) {
  const ModelType type = graph.type(whole);
  if (range.end <= range.start) return whole;
  const std::uint64_t count = ceil_div(static_cast<std::uint64_t>(range.end - range.start),
                                       static_cast<std::uint64_t>(range.step));
  const auto fitting = placed(graph, part, with_extent(type, range.axis, count));
  const auto places = graph.op("iota", {},
                               {listed("shape", std::vector{static_cast<std::int64_t>(count)}),
                                {.name = "to", .value = std::string(name_of(DType::kI64))},
                                {.name = "first", .value = range.start},
                                {.name = "delta", .value = range.step}},
                               model_type({count}, DType::kI64));
  if (!fitting || !places) return std::nullopt;
  return graph.op("scatter_update", {whole, *places, *fitting}, {along(range.axis)}, type);
}

}  // namespace fusecalc
