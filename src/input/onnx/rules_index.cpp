// Operators whose results depend on where their elements are, scans and resizing.

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "core/checked.hpp"
#include "input/model_shapes.hpp"
#include "input/onnx/rules.hpp"
#include "input/onnx/shapes.hpp"

namespace fusecalc {
namespace {

using Wholes = std::vector<std::int64_t>;

// The number of a constant that has a single one.
std::optional<double> number_of(const Constant* constant) {
  if (constant == nullptr || constant->elements.size() != 1) return std::nullopt;
  return constant->elements[0];
}

WrittenAttribute to_type(DType dtype) {
  return {.name = "to", .value = std::string(name_of(dtype))};
}

bool gather_elements(OnnxImporter& in, const OnnxNode& node) {
  const OnnxKnown* x = in.input(node, 0);
  const OnnxKnown* indices = in.input(node, 1);
  if (indices == nullptr) return false;
  if (in.write(node, "gather_elements", {x, indices},
               {listed("axes", {whole_attribute(node, "axis", 0)})})) {
    return true;
  }
  return in.write_custom(node, OpClass::kMovement, 0, {{indices->type.shape, x->type.dtype}});
}

bool keeps_type(OnnxImporter& in, const OnnxNode& node) {
  return in.write_custom(node, OpClass::kMovement, 0, {in.input(node, 0)->type});
}

// ONNX's reductions have the names of ours.
OnnxImporter::Written scatter_attributes(const OnnxNode& node, std::int64_t axis) {
  OnnxImporter::Written attributes = {listed("axes", {axis})};
  const std::string_view reduction = text_attribute(node, "reduction", "none");
  if (reduction != "none") attributes.push_back({"combine", std::string(reduction)});
  return attributes;
}

// The result is memory of its own: a copy, of which elements are overwritten.
bool scatter_elements(OnnxImporter& in, const OnnxNode& node) {
  const OnnxKnown* indices = in.input(node, 1);
  const OnnxKnown* updates = in.input(node, 2);
  if (indices == nullptr || updates == nullptr) return false;
  const auto copy = in.write_step("copy", {in.input(node, 0)});
  if (copy && in.write(node, "scatter_elements", {&*copy, indices, updates},
                       scatter_attributes(node, whole_attribute(node, "axis", 0)))) {
    return true;
  }
  return keeps_type(in, node);
}

// Rows along the first axis, or along the first axes as one, which tuples of indices name.
bool scatter_tuples(OnnxImporter& in, const OnnxNode& node) {
  const OnnxKnown* indices = in.input(node, 1);
  const OnnxKnown* updates = in.input(node, 2);
  if (indices == nullptr || updates == nullptr) return false;
  Shape places = indices->type.shape;
  const Shape shape = in.input(node, 0)->type.shape;
  if (places.empty() || places.back() == 0 || places.back() > shape.size()) {
    return keeps_type(in, node);
  }
  const std::uint64_t depth = places.back();
  places.pop_back();
  if (depth > 1) {
    const auto copy = in.write_step("copy", {in.input(node, 0)});
    const auto place = place_of_tuples(in, *indices, shape);
    const auto merged =
        copy && place ? in.reshape(*copy, with_merged_axes(shape, depth)) : std::nullopt;
    const auto made = merged ? in.write_step("scatter_update", {&*merged, &*place, updates},
                                             scatter_attributes(node, 0))
                             : std::nullopt;
    const auto result = made ? in.reshape(*made, shape) : std::nullopt;
    if (!result) return keeps_type(in, node);
    in.alias(node, *result);
    return true;
  }
  const auto rows = in.reshape(*indices, places);
  const auto copy = in.write_step("copy", {in.input(node, 0)});
  if (rows && copy &&
      in.write(node, "scatter_update", {&*copy, &*rows, updates}, scatter_attributes(node, 0))) {
    return true;
  }
  return keeps_type(in, node);
}

bool tile(OnnxImporter& in, const OnnxNode& node) {
  const OnnxKnown* x = in.input(node, 0);
  const Constant* repeats = in.constant(node, 1);
  return repeats != nullptr && repeats->elements.size() == x->type.shape.size() &&
         in.write(node, "repeat", {x}, {listed("repeats", repeats->integers())});
}

// Counts before all axes, then counts after them; for all axes or for those that are named.
bool pad(OnnxImporter& in, const OnnxNode& node) {
  const OnnxKnown* x = in.input(node, 0);
  const auto pads = integers_of(node, "pads", in.constant(node, 1));
  const std::size_t rank = x->type.shape.size();
  if (!pads || (in.input(node, 3) != nullptr && in.constant(node, 3) == nullptr)) return false;
  Wholes axes;
  if (const Constant* named = in.constant(node, 3)) {
    axes = named->integers();
  } else {
    for (std::size_t i = 0; i < rank; ++i) axes.push_back(static_cast<std::int64_t>(i));
  }
  if (pads->size() != 2 * axes.size()) return false;
  Wholes before(rank);
  Wholes after(rank);
  Shape shape = x->type.shape;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto place = axis_of(axes[i], rank);
    if (!place) return false;
    before[*place] = (*pads)[i];
    after[*place] = (*pads)[i + axes.size()];
    const std::int64_t extent =
        static_cast<std::int64_t>(shape[*place]) + before[*place] + after[*place];
    if (extent < 0) return false;
    shape[*place] = static_cast<std::uint64_t>(extent);
  }
  const std::optional<double> value = in.input(node, 2) == nullptr
                                          ? real_attribute(node, "value", 0)
                                          : number_of(in.constant(node, 2));
  constexpr std::array kBorders = {std::pair{"reflect", "reflect"}, std::pair{"edge", "replicate"},
                                   std::pair{"wrap", "circular"}};
  const std::string_view mode = text_attribute(node, "mode", "constant");
  OnnxImporter::Written attributes = {listed("before", before), listed("after", after)};
  if (mode == "constant" && value) attributes.push_back({"value", *value});
  for (const auto& [onnx, ours] : kBorders) {
    if (mode == onnx) attributes.push_back({"border", std::string(ours)});
  }
  if (attributes.size() == 3 && in.write(node, "pad", {x}, attributes)) return true;
  return in.write_custom(node, OpClass::kMovement, 0, {{shape, x->type.dtype}});
}

bool triangle(OnnxImporter& in, const OnnxNode& node) {
  const bool upper = whole_attribute(node, "upper", 1) != 0;
  const auto diagonal =
      in.input(node, 1) == nullptr ? std::optional(0.0) : number_of(in.constant(node, 1));
  if (diagonal && in.write(node, upper ? "triu" : "tril", {in.input(node, 0)},
                           {{"diagonal", static_cast<std::int64_t>(*diagonal)}})) {
    return true;
  }
  return keeps_type(in, node);
}

bool range(OnnxImporter& in, const OnnxNode& node) {
  const auto type = in.stated(node, 0);
  const auto first = number_of(in.constant(node, 0));
  const auto delta = number_of(in.constant(node, 2));
  if (!type) return false;
  const Wholes shape(type->shape.begin(), type->shape.end());
  if (first && delta &&
      in.write(
          node, "iota", {},
          {listed("shape", shape), {"first", *first}, {"delta", *delta}, to_type(type->dtype)})) {
    return true;
  }
  return in.write_custom(node, OpClass::kMovement, 0, {*type});
}

bool filled(OnnxImporter& in, const OnnxNode& node) {
  const auto type = in.stated(node, 0);
  if (!type) return false;
  const OnnxAttribute* value = node.find("value");
  std::optional<double> number = 0;
  if (value != nullptr && value->tensor != nullptr) {
    const std::optional<Constant> constant = constant_of(*value->tensor);
    number = number_of(constant ? &*constant : nullptr);
  }
  const Wholes shape(type->shape.begin(), type->shape.end());
  if (number && in.write(node, "full", {},
                         {listed("shape", shape), {"value", *number}, to_type(type->dtype)})) {
    return true;
  }
  return in.write_custom(node, OpClass::kMovement, 0, {*type});
}

// With 0 and 1, made along a last axis.
bool one_hot(OnnxImporter& in, const OnnxNode& node) {
  const OnnxKnown* x = in.input(node, 0);
  const auto depth = number_of(in.constant(node, 1));
  const Constant* values = in.constant(node, 2);
  const std::size_t rank = x->type.shape.size();
  const auto axis = axis_of(whole_attribute(node, "axis", -1), rank + 1);
  if (!depth || !axis || values == nullptr || values->elements != std::vector<double>{0, 1}) {
    return false;
  }
  const OnnxImporter::Written attributes = {{"classes", static_cast<std::int64_t>(*depth)},
                                            to_type(values->type.dtype)};
  if (*axis == rank) return in.write(node, "one_hot", {x}, attributes);
  const auto last = in.write_step("one_hot", {x}, attributes);
  std::vector<std::size_t> perm(rank);
  std::iota(perm.begin(), perm.end(), 0);
  perm.insert(perm.begin() + static_cast<std::ptrdiff_t>(*axis), rank);
  const auto result = last ? in.permute(*last, perm) : std::nullopt;
  if (result) in.alias(node, *result);
  return result.has_value();
}

// Of the elements before each, where they exclude it: less the element itself. From the end on, one
// op: three that move all elements are not what computes it.
bool cumulative_sum(OnnxImporter& in, const OnnxNode& node) {
  const OnnxKnown* x = in.input(node, 0);
  const Constant* axis = in.constant(node, 1);
  const DType dtype = x->type.dtype;
  if (axis != nullptr && axis->elements.size() == 1 && whole_attribute(node, "reverse", 0) == 0) {
    const OnnxImporter::Written attributes = {listed("axes", axis->integers())};
    if (whole_attribute(node, "exclusive", 0) == 0) {
      if (in.write_as(node, "cumsum", {x}, {dtype}, attributes)) return true;
    } else {
      const auto sums = in.write_step_as("cumsum", {x}, dtype, attributes);
      if (sums && in.write_as(node, "sub", {&*sums, x}, {dtype})) return true;
    }
  }
  return in.write_custom(node, OpClass::kOpaque, 0, {x->type});
}

bool top_k(OnnxImporter& in, const OnnxNode& node) {
  const OnnxKnown* x = in.input(node, 0);
  const Constant* k = in.constant(node, 1);
  const auto axis = axis_of(whole_attribute(node, "axis", -1), x->type.shape.size());
  if (k == nullptr || k->elements.size() != 1 || !axis || k->elements[0] < 0) return false;
  if (in.write(node, "topk", {x},
               {{"k", k->integers()[0]},
                listed("axes", {static_cast<std::int64_t>(*axis)}),
                {"largest", whole_attribute(node, "largest", 1) != 0}},
               OnnxImporter::output_count(node))) {
    return true;
  }
  Shape shape = x->type.shape;
  shape[*axis] = static_cast<std::uint64_t>(k->elements[0]);
  return in.write_custom(node, OpClass::kOpaque, 0, {{shape, x->type.dtype}, {shape, DType::kI64}});
}

// Cosines and sines of pairs, by token, or by place, which `position_ids` name. With 3 axes, the
// heads of x are side by side.
bool rotary(OnnxImporter& in, const OnnxNode& node) {
  const OnnxKnown* places = node.inputs.size() > 3 ? in.input(node, 3) : nullptr;
  std::vector<OnnxKnown> tables;
  for (const std::size_t i : {std::size_t{1}, std::size_t{2}}) {
    std::optional<OnnxKnown> table;
    if (const OnnxKnown* given = in.input(node, i)) table = *given;
    if (table && places != nullptr) {
      table = in.write_step("gather", {&*table, places}, {listed("axes", {0})});
    }
    if (!table) return false;
    tables.push_back(std::move(*table));
  }
  return write_rotary(in, node, whole_attribute(node, "num_heads", 0), tables[0], tables[1]);
}

// Resize and Upsample of the axes after the first two, in the ways that a row has.
bool resize(OnnxImporter& in, const OnnxNode& node) {
  const OnnxKnown* x = in.input(node, 0);
  const Shape& from = x->type.shape;
  const auto type = in.stated(node, 0);
  std::optional<Shape> to;
  const bool upsample = node.type == "Upsample";
  const Constant* sizes = upsample ? nullptr : in.constant(node, 3);
  const Constant* factors = in.constant(node, upsample ? 1 : 2);
  if (sizes != nullptr && sizes->elements.size() == from.size()) {
    const std::vector<std::int64_t> extents = sizes->integers();
    to = Shape(extents.begin(), extents.end());
  } else if (factors != nullptr && factors->elements.size() == from.size()) {
    to.emplace();
    for (std::size_t i = 0; i < from.size(); ++i) {
      const double extent = static_cast<double>(from[i]) * factors->elements[i];
      // Other extents have places that depend on the factor itself.
      if (!(extent >= 1 && extent < 0x1p30) || extent != std::floor(extent)) return false;
      to->push_back(static_cast<std::uint64_t>(extent));
    }
  } else if (type) {
    to = type->shape;
  }
  if (!to || to->size() != from.size() || from.size() < 3) return false;
  if ((*to)[0] != from[0] || (*to)[1] != from[1]) return false;
  const std::string_view mode = text_attribute(node, "mode", "nearest");
  const std::string_view places = text_attribute(node, "coordinate_transformation_mode",
                                                 upsample ? "asymmetric" : "half_pixel");
  const bool down =
      text_attribute(node, "nearest_mode", upsample ? "floor" : "round_prefer_floor") == "floor";
  std::vector<std::int64_t> size;
  bool whole_factors = true;
  for (std::size_t i = 2; i < from.size(); ++i) {
    size.push_back(static_cast<std::int64_t>((*to)[i]));
    whole_factors = whole_factors && from[i] != 0 && (*to)[i] % from[i] == 0;
  }
  OnnxImporter::Written attributes = {listed("size", size)};
  // With whole factors the nearest of half pixels are those of whole ones.
  const bool nearest = mode == "nearest" && ((places == "asymmetric" && down) ||
                                             (places == "half_pixel" && whole_factors));
  if (nearest) return in.write(node, "upsample_nearest", {x}, attributes);
  const bool corners = places == "align_corners";
  if (corners) attributes.push_back({"align_corners", true});
  const bool centred = places == "half_pixel" || places == "pytorch_half_pixel";
  if (mode == "linear" && (corners || centred) &&
      in.write_as(node, "upsample_linear", {x}, {x->type.dtype}, attributes)) {
    return true;
  }
  return in.write_custom(node, OpClass::kMovement, 0, {{*to, x->type.dtype}});
}

constexpr std::array kIndexRules = {
    OnnxRuleRow{"GatherElements", gather_elements},
    OnnxRuleRow{"ScatterElements", scatter_elements},
    OnnxRuleRow{"ScatterND", scatter_tuples},
    OnnxRuleRow{"Tile", tile},
    OnnxRuleRow{"Pad", pad},
    OnnxRuleRow{"Trilu", triangle},
    OnnxRuleRow{"RotaryEmbedding", rotary},
    OnnxRuleRow{"Range", range},
    OnnxRuleRow{"ConstantOfShape", filled},
    OnnxRuleRow{"OneHot", one_hot},
    OnnxRuleRow{"CumSum", cumulative_sum},
    OnnxRuleRow{"TopK", top_k},
    OnnxRuleRow{"Resize", resize},
    OnnxRuleRow{"Upsample", resize},
};

}  // namespace

bool write_rotary(OnnxImporter& in, const OnnxNode& node, std::int64_t count,
                  const OnnxKnown& cosines, const OnnxKnown& sines) {
  const OnnxKnown* x = in.input(node, 0);
  const Shape shape = x->type.shape;
  std::optional<OnnxKnown> heads = *x;
  if (shape.size() == 3) {
    const auto apart = static_cast<std::uint64_t>(count);
    if (count < 1 || shape[2] % apart != 0) return false;
    heads = in.reshape(*x, {shape[0], shape[1], apart, shape[2] / apart});
  }
  if (!heads || heads->type.shape.size() != 4) return false;
  std::vector<OnnxKnown> tables;
  for (const OnnxKnown* given : {&cosines, &sines}) {
    if (given->type.shape.size() != 3) return false;
    Shape of_heads = given->type.shape;
    of_heads.insert(of_heads.begin() + (shape.size() == 3 ? 2 : 1), 1);
    auto table = in.reshape(*given, of_heads);
    if (!table) return false;
    tables.push_back(std::move(*table));
  }
  OnnxImporter::Written attributes;
  if (whole_attribute(node, "interleaved", 0) != 0) attributes.push_back({"interleaved", true});
  const std::int64_t rotated = whole_attribute(node, "rotary_embedding_dim", 0);
  if (rotated != 0) attributes.push_back({"rotated", rotated});
  if (shape.size() == 4) {
    return in.write(node, "rotary", {&*heads, &tables[0], &tables[1]}, std::move(attributes));
  }
  const auto turned = in.write_step("rotary", {&*heads, &tables[0], &tables[1]}, attributes);
  const auto result = turned ? in.reshape(*turned, shape) : std::nullopt;
  if (result) in.alias(node, *result);
  return result.has_value();
}

std::span<const OnnxRuleRow> onnx_index_rules() { return kIndexRules; }

}  // namespace fusecalc
