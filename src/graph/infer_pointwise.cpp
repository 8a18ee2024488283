// Shapes and types of pointwise ops and of data movement.

#include <fmt/format.h>

#include <algorithm>

#include "core/checked.hpp"
#include "graph/inference.hpp"

namespace fusecalc {
namespace {

Shape broadcast_inputs(const Inference& op, std::size_t first = 0) {
  Shape shape;
  std::size_t widest = op.input_count();
  for (std::size_t i = first; i < op.input_count(); ++i) {
    if (op.is_number(i)) continue;
    const std::optional<Shape> joined = broadcast(shape, op.shape(i));
    if (!joined) {
      op.fail_input(i, fmt::format("{} does not broadcast with {}", op.describe(i),
                                   widest == i ? "the inputs before it" : op.describe(widest)));
    }
    if (widest == op.input_count() || op.elements(i) > op.elements(widest)) widest = i;
    shape = *joined;
  }
  if (widest == op.input_count()) {
    op.fail(std::string(op.row().name) + " needs at least one tensor input");
  };
  return shape;
}

void require_integers(const Inference& op) {
  for (std::size_t i = 0; i < op.input_count(); ++i) {
    const bool fraction = op.is_number(i) && op.number(i) != std::trunc(op.number(i));
    if (fraction) op.fail_input(i, fmt::format("{} takes integers", op.row().name));
    if (op.is_number(i) || !is_float(op.dtype(i))) continue;
    op.fail_input(i, fmt::format("{} takes integers, but {} is {}", op.row().name, op.describe(i),
                                 name_of(op.dtype(i))));
  }
}

DType promote_inputs(const Inference& op, std::size_t first) {
  std::optional<DType> dtype;
  bool fraction = false;
  for (std::size_t i = first; i < op.input_count(); ++i) {
    if (op.is_number(i)) {
      fraction = fraction || !exact_integer(op.number(i));
    } else {
      dtype = dtype ? promote(*dtype, op.dtype(i)) : op.dtype(i);
    }
  }
  for (const std::optional<double>& bound : {op.attributes().min, op.attributes().max}) {
    fraction = fraction || !exact_integer(bound.value_or(0));
  }
  // Numbers take the tensors' type, or the default where there is no tensor, unless that cannot
  // hold them.
  const DType result = dtype.value_or(op.default_dtype());
  const bool needs_float = op.row().type_rule == TypeRule::kFloat || fraction;
  return needs_float ? op.float_of(result) : result;
}

}  // namespace

void infer_pointwise(Inference& op) {
  const Shape shape = broadcast_inputs(op);
  if (op.row().type_rule == TypeRule::kBits) require_integers(op);
  const DType dtype = op.row().type_rule == TypeRule::kBool ? DType::kBool : promote_inputs(op, 0);
  op.outputs.push_back({shape, dtype});
}

void infer_where(Inference& op) {
  op.outputs.push_back({broadcast_inputs(op), promote_inputs(op, 1)});
}

void infer_cast(Inference& op) {
  op.require_tensors();
  if (!op.attributes().to) op.fail("missing attribute \"to\" (the dtype to cast to)");
  op.outputs.push_back({op.shape(0), *op.attributes().to});
}

void infer_dropout(Inference& op) {
  op.require_tensors();
  const double p = op.attributes().p;
  if (!(p >= 0 && p < 1)) op.fail_attribute(Attribute::kP, "must be in [0, 1)");
  // What it keeps is scaled.
  op.outputs.push_back({op.shape(0), op.float_of(op.dtype(0))});
  if (op.attributes().save_mask != (op.output_count() == 2)) {
    op.fail("dropout has a second output, its mask, if and only if save_mask is true");
  }
  if (op.output_count() == 2) op.outputs.push_back({op.shape(0), DType::kBool});
}

void infer_transpose(Inference& op) {
  op.require_tensors();
  const Shape& shape = op.shape(0);
  std::vector<std::int64_t> perm = op.attributes().perm;
  if (perm.empty()) {
    for (std::size_t i = shape.size(); i > 0; --i) perm.push_back(static_cast<std::int64_t>(i) - 1);
  }
  const std::vector<std::uint64_t> strides = strides_of(shape);
  std::vector<bool> used(shape.size(), false);
  Shape permuted;
  StridedMap source;
  for (const std::int64_t axis : perm) {
    const auto rank = static_cast<std::int64_t>(shape.size());
    const std::int64_t i = axis < 0 ? axis + rank : axis;
    const bool fits = i >= 0 && i < rank && !used[static_cast<std::size_t>(i)];
    if (!fits || perm.size() != shape.size()) {
      op.fail_attribute(Attribute::kPerm, fmt::format("must name each of the {} axes of {} once",
                                                      shape.size(), op.describe(0)));
    }
    used[static_cast<std::size_t>(i)] = true;
    permuted.push_back(shape[static_cast<std::size_t>(i)]);
    source.append(permuted.back(), strides[static_cast<std::size_t>(i)]);
  }
  op.sources.push_back(std::move(source));
  op.outputs.push_back({permuted, op.dtype(0)});
}

void infer_concat(Inference& op) {
  op.require_tensors();
  Shape shape = op.shape(0);
  const std::size_t axis = op.axis(shape.size(), 0);
  DType dtype = op.dtype(0);
  for (std::size_t i = 1; i < op.input_count(); ++i) {
    Shape expected = shape;
    const bool same_rank = op.shape(i).size() == shape.size();
    if (same_rank) expected[axis] = op.shape(i)[axis];
    if (expected != op.shape(i)) {
      op.fail_input(i, fmt::format("{} cannot be concatenated to {} along axis {}", op.describe(i),
                                   op.describe(0), axis));
    }
    if (!checked_add(shape[axis], op.shape(i)[axis])) op.fail("the result is too large");
    dtype = promote(dtype, op.dtype(i));
  }
  op.outputs.push_back({shape, dtype});
}

void infer_slice(Inference& op) {
  op.require_tensors();
  Shape shape = op.shape(0);
  const Attributes& attributes = op.attributes();
  const std::size_t count = std::max(attributes.starts.size(), attributes.ends.size());
  if (count == 0) op.fail("missing attribute \"starts\" or \"ends\"");
  std::vector<std::int64_t> axes;
  if (attributes.axes) {
    axes = *attributes.axes;
  } else {
    for (std::size_t i = 0; i < count; ++i) axes.push_back(static_cast<std::int64_t>(i));
  }
  const auto check_count = [&](Attribute attribute, std::size_t size) {
    if (size != count) {
      op.fail_attribute(attribute, fmt::format("has {} entries, expected {}", size, count));
    }
  };
  check_count(Attribute::kAxes, axes.size());
  if (!attributes.starts.empty()) check_count(Attribute::kStarts, attributes.starts.size());
  if (!attributes.ends.empty()) check_count(Attribute::kEnds, attributes.ends.size());
  if (!attributes.steps.empty()) check_count(Attribute::kSteps, attributes.steps.size());
  StridedMap source;
  std::vector<std::uint64_t> strides = strides_of(shape);
  std::vector<bool> cut(shape.size(), false);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t axis = op.normalised_axis(axes[i], shape.size());
    if (cut[axis]) {
      op.fail_attribute(Attribute::kAxes, fmt::format("axis {} is named twice", axes[i]));
    }
    cut[axis] = true;
    std::uint64_t& extent = shape[axis];
    const auto size = static_cast<std::int64_t>(extent);
    const auto from_end = [&](std::int64_t index) { return index < 0 ? index + size : index; };
    const std::int64_t start = attributes.starts.empty() ? 0 : from_end(attributes.starts[i]);
    const std::int64_t end = attributes.ends.empty() ? size : from_end(attributes.ends[i]);
    const std::int64_t step = attributes.steps.empty() ? 1 : attributes.steps[i];
    if (step < 1) op.fail_attribute(Attribute::kSteps, "must be at least 1");
    if (start < 0 || start > end || end > size) {
      // Indices are printed as written: one from the end is negative in the document.
      op.fail(fmt::format("slice takes [{}, {}) of axis {}, whose extent is {}",
                          attributes.starts.empty() ? 0 : attributes.starts[i],
                          attributes.ends.empty() ? size : attributes.ends[i], axes[i], size));
    }
    extent = static_cast<std::uint64_t>((end - start) / step + ((end - start) % step != 0 ? 1 : 0));
    source.offset += static_cast<std::uint64_t>(start) * strides[axis];
    strides[axis] *= static_cast<std::uint64_t>(step);
  }
  for (std::size_t i = 0; i < shape.size(); ++i) source.append(shape[i], strides[i]);
  op.sources.push_back(std::move(source));
  op.reads[0] = elements_between(shape, 0, shape.size());
  op.outputs.push_back({shape, op.dtype(0)});
}

void infer_split(Inference& op) {
  op.require_tensors();
  Shape shape = op.shape(0);
  const std::size_t axis = op.axis(shape.size(), 0);
  const std::uint64_t extent = shape[axis];
  const std::uint64_t inner = strides_of(shape)[axis];
  const std::vector<std::int64_t>& sizes = op.attributes().sizes;
  const std::size_t parts = op.output_count();
  if (!sizes.empty() && sizes.size() != parts) {
    op.fail_attribute(Attribute::kSizes,
                      fmt::format("has {} entries for {} outputs", sizes.size(), parts));
  }
  if (sizes.empty() && extent % parts != 0) {
    op.fail(fmt::format("axis {} of {} cannot be split into {} equal parts; give \"sizes\"", axis,
                        op.describe(0), parts));
  }
  std::uint64_t first = 0;
  for (std::size_t i = 0; i < parts; ++i) {
    const std::int64_t size = sizes.empty() ? static_cast<std::int64_t>(extent / parts) : sizes[i];
    if (size < 0 || static_cast<std::uint64_t>(size) > extent - first) {
      op.fail_attribute(Attribute::kSizes,
                        fmt::format("must be parts of axis {}, whose extent is {}", axis, extent));
    }
    shape[axis] = static_cast<std::uint64_t>(size);
    StridedMap source;
    source.offset = first * inner;
    source.append(elements_between(shape, 0, axis), extent * inner);
    source.append(shape[axis] * inner, 1);
    op.sources.push_back(std::move(source));
    op.outputs.push_back({shape, op.dtype(0)});
    first += shape[axis];
  }
  if (first != extent) {
    op.fail_attribute(
        Attribute::kSizes,
        fmt::format("add up to {}, but the extent of axis {} is {}", first, axis, extent));
  }
}

namespace {

// shape with `axis` replaced by the axes of the indices.
Shape gathered_shape(const Shape& table, std::size_t axis, const Shape& indices) {
  Shape shape(table.begin(), table.begin() + static_cast<std::ptrdiff_t>(axis));
  shape.insert(shape.end(), indices.begin(), indices.end());
  shape.insert(shape.end(), table.begin() + static_cast<std::ptrdiff_t>(axis) + 1, table.end());
  return shape;
}

void gather_rows(Inference& op, std::size_t table, std::size_t indices, std::size_t axis) {
  op.require_indices(indices);
  const Shape shape = gathered_shape(op.shape(table), axis, op.shape(indices));
  const std::optional<std::uint64_t> elements = checked_elements(shape);
  if (!elements) op.fail("the result is too large");
  op.reads[table] = std::min(op.elements(table), *elements);
  op.outputs.push_back({shape, op.dtype(table)});
}

}  // namespace

void infer_gather(Inference& op) {
  op.require_tensors();
  gather_rows(op, 0, 1, op.axis(op.shape(0).size(), 0));
}

void infer_embedding(Inference& op) {
  op.require_tensors();
  const std::size_t table = table_input(op.row().family, op.dtype(0), op.dtype(1));
  if (op.shape(table).size() != 2) {
    op.fail_input(table, op.describe(table) + " must be a table of rows, with two axes");
  }
  gather_rows(op, table, 1 - table, 0);
}

void update_part(Inference& op, std::uint64_t least) {
  const std::uint64_t most = std::min(op.elements(0), op.elements(2));
  const Combine combine = op.attributes().combine;
  // What is combined with an update is read first.
  op.reads[0] = combine == Combine::kReplace ? 0 : most;
  op.flops = combine == Combine::kAdd || combine == Combine::kMul ? 1 : 0;
  op.partial_write = {.most = most, .least = std::min(op.elements(0), least)};
  op.inplace_input = 0;
  op.work = op.elements(2);
  op.outputs.push_back({op.shape(0), op.dtype(0)});
}

void infer_scatter(Inference& op) {
  op.require_tensors();
  op.require_indices(1);
  const std::size_t axis = op.axis(op.shape(0).size(), 0);
  const Shape expected = gathered_shape(op.shape(0), axis, op.shape(1));
  if (op.shape(2) != expected) {
    op.fail_input(2, fmt::format("{} must have the shape {} of the rows that it replaces",
                                 op.describe(2), to_string(expected)));
  }
  // All indices may name the same row.
  const std::uint64_t row = op.elements(1) == 0 ? 0 : op.elements(2) / op.elements(1);
  update_part(op, row);
}

void infer_broadcast_to(Inference& op) {
  op.require_tensors();
  Shape target;
  for (const std::int64_t extent : op.attributes().shape) {
    if (extent < 0) op.fail_attribute(Attribute::kShape, "must not contain negative extents");
    target.push_back(static_cast<std::uint64_t>(extent));
  }
  const std::optional<Shape> joined = broadcast(op.shape(0), target);
  if (!joined || *joined != target) {
    op.fail_attribute(Attribute::kShape, fmt::format("{} does not broadcast to {}", op.describe(0),
                                                     to_string(target)));
  }
  op.sources.push_back(broadcast_map(op.shape(0), target));
  op.outputs.push_back({target, op.dtype(0)});
}

void infer_reshape(Inference& op) {
  op.require_tensors();
  Shape shape;
  std::optional<std::size_t> open;
  for (const std::int64_t extent : op.attributes().shape) {
    if (extent < -1 || (extent == -1 && open)) {
      op.fail_attribute(Attribute::kShape, "may contain one -1 and no other negative extent");
    }
    if (extent == -1) open = shape.size();
    shape.push_back(extent == -1 ? 1 : static_cast<std::uint64_t>(extent));
  }
  const std::optional<std::uint64_t> known = checked_elements(shape);
  if (open && known && *known != 0) shape[*open] = op.elements(0) / *known;
  if (!known || checked_elements(shape) != op.elements(0)) {
    op.fail_attribute(Attribute::kShape,
                      fmt::format("{} has {} elements and cannot be reshaped to {}", op.describe(0),
                                  op.elements(0), to_string(shape)));
  }
  op.sources.push_back(StridedMap::of(op.elements(0)));
  op.outputs.push_back({shape, op.dtype(0)});
}

}  // namespace fusecalc
