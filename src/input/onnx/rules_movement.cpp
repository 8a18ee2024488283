// Operators that move or rename elements.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "core/checked.hpp"
#include "input/onnx/rules.hpp"
#include "input/onnx/shapes.hpp"

namespace fusecalc {
namespace {

std::vector<const Constant*> constants_of(const OnnxImporter& in, const OnnxNode& node) {
  std::vector<const Constant*> result;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) result.push_back(in.constant(node, i));
  return result;
}

// Heads that were repeated along an axis of their own (Unsqueeze, Expand) become a longer axis of
// heads: remember which value they repeat.
void note_repetition(const OnnxKnown& from, OnnxKnown& to) {
  if (!from.expanded_axis || !from.repeated) return;
  const std::size_t axis = *from.expanded_axis;
  const Shape& shape = from.type.shape;
  if (axis == 0) return;
  Shape merged = shape;
  merged[axis - 1] *= merged[axis];
  merged.erase(merged.begin() + static_cast<std::ptrdiff_t>(axis));
  if (to.type.shape != merged) return;
  Shape before = shape;
  before.erase(before.begin() + static_cast<std::ptrdiff_t>(axis));
  if (from.repeated->type.shape == before) to.repeated = from.repeated;
}

bool reshape(OnnxImporter& in, const OnnxNode& node) {
  const OnnxKnown* x = in.input(node, 0);
  const Constant* wanted = in.constant(node, 1);
  const auto target = reshaped_by(node, x->type.shape, wanted);
  if (!target && wanted != nullptr && node.type == "Reshape") {
    in.fail(node, fmt::format("its input of shape {} cannot be read as shape [{}]",
                              to_string(x->type.shape), fmt::join(wanted->integers(), ", ")));
  }
  const auto shape = target               ? target
                     : in.stated(node, 0) ? std::optional(in.stated(node, 0)->shape)
                                          : std::nullopt;
  if (!shape) return false;
  auto result = in.reshape(*x, *shape);
  if (!result) return false;
  note_repetition(*x, *result);
  if (node.type == "Unsqueeze") result->repeated = std::make_shared<const OnnxKnown>(*x);
  in.alias(node, *result);
  return true;
}

bool transpose(OnnxImporter& in, const OnnxNode& node) {
  const OnnxKnown* x = in.input(node, 0);
  const auto perm = permutation_of(node, x->type.shape.size());
  const auto result = perm ? in.permute(*x, *perm) : std::nullopt;
  if (!result) return false;
  in.alias(node, *result);
  return true;
}

// The extent of the blocks that DepthToSpace and SpaceToDepth move.
std::optional<std::uint64_t> block_of(const OnnxNode& node, const Shape& x) {
  constexpr std::int64_t kLargest = 1 << 10;
  const std::int64_t size = whole_attribute(node, "blocksize", 0);
  if (x.size() != 4 || size < 1 || size > kLargest) return std::nullopt;
  if (checked_elements(x).value_or(0) == 0) return std::nullopt;
  return static_cast<std::uint64_t>(size);
}

// The elements of blocks of rows and columns become channels, or the other way round.
bool rearranged(OnnxImporter& in, const OnnxNode& node, const Shape& split,
                const std::vector<std::size_t>& perm, const Shape& shape) {
  const auto parts = in.reshape(*in.input(node, 0), split);
  const auto turned = parts ? in.permute(*parts, perm) : std::nullopt;
  const auto result = turned ? in.reshape(*turned, shape) : std::nullopt;
  if (!result) return false;
  in.alias(node, *result);
  return true;
}

bool depth_to_space(OnnxImporter& in, const OnnxNode& node) {
  const Shape& x = in.input(node, 0)->type.shape;
  const std::uint64_t b = block_of(node, x).value_or(0);
  if (b == 0 || x[1] % (b * b) != 0) return false;
  const std::uint64_t channels = x[1] / (b * b);
  const Shape shape = {x[0], channels, x[2] * b, x[3] * b};
  const OnnxAttribute* mode = node.find("mode");
  if (mode != nullptr && mode->text == "CRD") {
    return rearranged(in, node, {x[0], channels, b, b, x[2], x[3]}, {0, 1, 4, 2, 5, 3}, shape);
  }
  return rearranged(in, node, {x[0], b, b, channels, x[2], x[3]}, {0, 3, 4, 1, 5, 2}, shape);
}

bool space_to_depth(OnnxImporter& in, const OnnxNode& node) {
  const Shape& x = in.input(node, 0)->type.shape;
  const std::uint64_t b = block_of(node, x).value_or(0);
  if (b == 0 || x[2] % b != 0 || x[3] % b != 0) return false;
  return rearranged(in, node, {x[0], x[1], x[2] / b, b, x[3] / b, b}, {0, 3, 5, 1, 2, 4},
                    {x[0], x[1] * b * b, x[2] / b, x[3] / b});
}

bool expand(OnnxImporter& in, const OnnxNode& node) {
  const OnnxKnown* x = in.input(node, 0);
  std::optional<Shape> shape;
  if (const Constant* target = in.constant(node, 1)) {
    Shape wanted;
    for (const std::int64_t extent : target->integers()) {
      if (extent < 0) return false;
      wanted.push_back(static_cast<std::uint64_t>(extent));
    }
    shape = broadcast(x->type.shape, wanted);
  } else if (const auto stated = in.stated(node, 0)) {
    shape = stated->shape;
  }
  if (!shape) return false;
  if (*shape == x->type.shape) {
    in.alias(node, *x);
    return true;
  }
  const std::vector<std::int64_t> extents(shape->begin(), shape->end());
  const std::string_view op = op_named("expand_view") != nullptr ? "expand_view" : "broadcast_to";
  const auto source = std::make_shared<const OnnxKnown>(*x);
  if (!in.write(node, op, {source.get()}, {listed("shape", extents)})) return false;
  if (!source->repeated || shape->size() != source->type.shape.size()) return true;
  std::optional<std::size_t> axis;
  for (std::size_t i = 0; i < shape->size(); ++i) {
    if ((*shape)[i] == source->type.shape[i]) continue;
    if (axis) return true;
    axis = i;
  }
  OnnxKnown result = *in.find(node.outputs[0]);
  result.expanded_axis = axis;
  result.repeated = source->repeated;
  in.alias(node, result);
  return true;
}

// Parts that are empty, as caches are at first, add nothing.
bool concat(OnnxImporter& in, const OnnxNode& node) {
  std::vector<const OnnxKnown*> given;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (in.input(node, i) != nullptr) given.push_back(in.input(node, i));
  }
  std::vector<const OnnxKnown*> parts;
  std::ranges::copy_if(given, std::back_inserter(parts), [](const OnnxKnown* part) {
    return std::ranges::count(part->type.shape, 0U) == 0;
  });
  if (parts.empty()) parts = given;
  if (parts.size() == 1) {
    in.alias(node, *parts[0]);
    return true;
  }
  const std::vector<OnnxImporter::Operand> inputs(parts.begin(), parts.end());
  return in.write(node, "concat", inputs, {listed("axes", {whole_attribute(node, "axis", 0)})});
}

std::string_view slice_op() { return op_named("slice_view") != nullptr ? "slice_view" : "slice"; }

// The elements of a range, read forwards, and the axes along which the result has them backwards.
struct ForwardRange {
  OnnxImporter::Written attributes;  // of a slice; empty where it takes all
  std::vector<std::int64_t> flipped;
};

ForwardRange forwards(const SliceRange& range, const Shape& shape) {
  std::vector<std::int64_t> axes;
  std::vector<std::int64_t> starts;
  std::vector<std::int64_t> ends;
  std::vector<std::int64_t> steps;
  ForwardRange result;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    const auto place = static_cast<std::int64_t>(axis);
    const bool backwards = range.steps[axis] < 0;
    if (backwards) result.flipped.push_back(place);
    if (range.shape[axis] == shape[axis]) continue;
    const auto count = static_cast<std::int64_t>(range.shape[axis]);
    const std::int64_t step = backwards ? -range.steps[axis] : range.steps[axis];
    const std::int64_t reach = count == 0 ? 0 : (count - 1) * step;
    const std::int64_t start = range.starts[axis] - (backwards ? reach : 0);
    axes.push_back(place);
    starts.push_back(start);
    ends.push_back(start + (count == 0 ? 0 : reach + 1));
    steps.push_back(step);
  }
  if (axes.empty()) return result;
  result.attributes = {listed("axes", axes), listed("starts", starts), listed("ends", ends),
                       listed("steps", steps)};
  return result;
}

// Backwards, as a flip of no more elements than are taken.
bool slice(OnnxImporter& in, const OnnxNode& node) {
  const OnnxKnown* x = in.input(node, 0);
  const auto range = sliced_by(node, x->type.shape, constants_of(in, node));
  if (!range) return false;
  const ForwardRange taken = forwards(*range, x->type.shape);
  if (taken.flipped.empty() && taken.attributes.empty()) {
    in.alias(node, *x);
    return true;
  }
  if (taken.flipped.empty()) return in.write(node, slice_op(), {x}, taken.attributes);
  const auto part = taken.attributes.empty() ? std::optional(*x)
                                             : in.write_step(slice_op(), {x}, taken.attributes);
  return part && in.write(node, "flip", {&*part}, {listed("axes", taken.flipped)});
}

bool split(OnnxImporter& in, const OnnxNode& node) {
  const OnnxKnown x = *in.input(node, 0);
  const auto axis = axis_of(whole_attribute(node, "axis", 0), x.type.shape.size());
  if (!axis || (in.input(node, 1) != nullptr && in.constant(node, 1) == nullptr)) return false;
  const auto extent = static_cast<std::int64_t>(x.type.shape[*axis]);
  std::vector<std::int64_t> sizes;
  if (const auto given = integers_of(node, "split", in.constant(node, 1))) {
    sizes = *given;
  } else {
    const auto parts = static_cast<std::int64_t>(node.outputs.size());
    const std::int64_t chunk = (extent + parts - 1) / parts;
    for (std::int64_t i = 0; i < parts; ++i) {
      sizes.push_back(std::clamp(extent - i * chunk, std::int64_t{0}, chunk));
    }
  }
  if (sizes.size() != node.outputs.size()) return false;
  std::int64_t start = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] < 0 || sizes[i] > extent - start) return false;
    const auto part =
        in.write_step(slice_op(), {&x},
                      {listed("axes", {static_cast<std::int64_t>(*axis)}),
                       listed("starts", {start}), listed("ends", {start + sizes[i]})});
    if (!part) return false;
    in.name_output(node, i, *part);
    in.alias(node, *part, i);
    start += sizes[i];
  }
  return true;
}

bool rows(OnnxImporter& in, const OnnxNode& node, const OnnxKnown& indices, std::size_t axis) {
  const OnnxKnown* x = in.input(node, 0);
  if (axis == 0 && x->type.shape.size() == 2 && is_float(x->type.dtype)) {
    return in.write(node, "embedding", {x, &indices});
  }
  return in.write(node, "gather", {x, &indices},
                  {listed("axes", {static_cast<std::int64_t>(axis)})});
}

// Rows that indices name; a single known index is a slice.
bool gather(OnnxImporter& in, const OnnxNode& node) {
  const OnnxKnown* x = in.input(node, 0);
  const OnnxKnown* indices = in.input(node, 1);
  const auto axis = axis_of(whole_attribute(node, "axis", 0), x->type.shape.size());
  if (!axis || indices == nullptr) return false;
  const Constant* known = indices->constant.get();
  if (known != nullptr && known->elements.size() == 1 && known->type.shape.size() <= 1) {
    const auto extent = static_cast<std::int64_t>(x->type.shape[*axis]);
    std::int64_t index = known->integers()[0];
    index += index < 0 ? extent : 0;
    if (index < 0 || index >= extent) return false;
    const auto place = static_cast<std::int64_t>(*axis);
    const auto row = in.write_step(
        slice_op(), {x},
        {listed("axes", {place}), listed("starts", {index}), listed("ends", {index + 1})});
    if (!row) return false;
    Shape shape = row->type.shape;
    if (known->type.shape.empty()) shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(*axis));
    const auto result = in.reshape(*row, shape);
    if (!result) return false;
    in.alias(node, *result);
    return true;
  }
  return rows(in, node, *indices, *axis);
}

// Slices that tuples of indices name: rows of the first axes, which are one axis for tuples of
// several indices. Of each place of a batch, or where elements would have to move to be such rows,
// a custom op reads as many elements as the result has.
bool gather_tuples(OnnxImporter& in, const OnnxNode& node) {
  const OnnxKnown* x = in.input(node, 0);
  const OnnxKnown* indices = in.input(node, 1);
  if (indices == nullptr || indices->type.shape.empty()) return false;
  const auto batch = whole_attribute(node, "batch_dims", 0);
  const std::uint64_t depth = indices->type.shape.back();
  if (batch < 0 || static_cast<std::uint64_t>(batch) + depth > x->type.shape.size()) return false;
  Shape shape(indices->type.shape.begin(), indices->type.shape.end() - 1);
  if (batch == 0 && depth == 1) {
    const auto places = in.reshape(*indices, shape);
    if (places && rows(in, node, *places, 0)) return true;
  } else if (batch == 0 && depth > 1 && x->strides.empty()) {
    const auto places = place_of_tuples(in, *indices, x->type.shape);
    const auto merged =
        places ? in.reshape(*x, with_merged_axes(x->type.shape, depth)) : std::nullopt;
    if (merged && in.write(node, "gather", {&*merged, &*places}, {listed("axes", {0})})) {
      return true;
    }
  }
  shape.insert(shape.end(),
               x->type.shape.begin() + static_cast<std::ptrdiff_t>(batch) +
                   static_cast<std::ptrdiff_t>(depth),
               x->type.shape.end());
  const auto elements = checked_elements(shape);
  if (!elements) return false;
  return in.write_custom(node, OpClass::kMovement, 0, {{shape, x->type.dtype}}, *elements);
}

constexpr std::array kMovementRules = {
    OnnxRuleRow{"Reshape", reshape},
    OnnxRuleRow{"Flatten", reshape},
    OnnxRuleRow{"Squeeze", reshape},
    OnnxRuleRow{"Unsqueeze", reshape},
    OnnxRuleRow{"Transpose", transpose},
    OnnxRuleRow{"DepthToSpace", depth_to_space},
    OnnxRuleRow{"SpaceToDepth", space_to_depth},
    OnnxRuleRow{"Expand", expand},
    OnnxRuleRow{"Concat", concat},
    OnnxRuleRow{"Slice", slice},
    OnnxRuleRow{"Split", split},
    OnnxRuleRow{"Gather", gather},
    OnnxRuleRow{"GatherND", gather_tuples},
};

}  // namespace

Shape with_merged_axes(const Shape& shape, std::size_t count) {
  Shape merged = {elements_between(shape, 0, count)};
  merged.insert(merged.end(), shape.begin() + static_cast<std::ptrdiff_t>(count), shape.end());
  return merged;
}

std::optional<OnnxKnown> place_of_tuples(OnnxImporter& in, const OnnxKnown& tuples,
                                         const Shape& shape) {
  const std::size_t last = tuples.type.shape.size() - 1;
  const Shape each(tuples.type.shape.begin(), tuples.type.shape.end() - 1);
  std::optional<OnnxKnown> place;
  for (std::uint64_t i = 0; i < tuples.type.shape[last]; ++i) {
    const auto at = static_cast<std::int64_t>(i);
    const auto column = in.write_step(slice_op(), {&tuples},
                                      {listed("axes", {static_cast<std::int64_t>(last)}),
                                       listed("starts", {at}), listed("ends", {at + 1})});
    const auto index = column ? in.reshape(*column, each) : std::nullopt;
    if (!index) return std::nullopt;
    const auto extent = static_cast<double>(shape[i]);
    place = place ? in.write_step("fma", {&*place, extent, &*index}) : index;
    if (!place) return std::nullopt;
  }
  return place;
}

std::span<const OnnxRuleRow> onnx_movement_rules() { return kMovementRules; }

}  // namespace fusecalc
