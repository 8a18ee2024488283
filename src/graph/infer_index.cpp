// Shapes and types of ops whose results depend on where their elements are, of scans and of sorts.

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/checked.hpp"
#include "graph/inference.hpp"

namespace fusecalc {
namespace {

// A count for each axis.
void require_counts(const Inference& op, Attribute attribute,
                    const std::vector<std::int64_t>& counts, std::size_t rank) {
  if (counts.size() == rank) return;
  op.fail_attribute(attribute, fmt::format("has {} entr{}, expected one for each of the {} axes of "
                                           "{}",
                                           counts.size(), counts.size() == 1 ? "y" : "ies", rank,
                                           op.describe(0)));
}

Shape stated_shape(const Inference& op) {
  Shape shape;
  for (const std::int64_t extent : op.attributes().shape) {
    if (extent < 0) op.fail_attribute(Attribute::kShape, "must not contain negative extents");
    shape.push_back(static_cast<std::uint64_t>(extent));
  }
  return shape;
}

// The type that is stated, or one that holds the numbers.
DType made_type(const Inference& op, std::initializer_list<double> numbers) {
  if (op.attributes().to) return *op.attributes().to;
  const bool whole =
      std::ranges::all_of(numbers, [](double number) { return exact_integer(number).has_value(); });
  return whole ? op.default_dtype() : op.float_of(op.default_dtype());
}

// The axis that indices name elements along. They have as many axes as x, and no other axis reaches
// beyond x's.
std::size_t named_axis(const Inference& op) {
  op.require_tensors();
  op.require_indices(1);
  const Shape& x = op.shape(0);
  const Shape& indices = op.shape(1);
  if (x.empty()) op.fail_input(0, op.describe(0) + " needs at least 1 axis");
  const std::size_t axis = op.axis(x.size(), 0);
  bool fits = indices.size() == x.size();
  for (std::size_t i = 0; fits && i < x.size(); ++i) fits = i == axis || indices[i] <= x[i];
  if (!fits) {
    op.fail_input(1, fmt::format("{} must have the axes of {}, none longer but axis {}",
                                 op.describe(1), op.describe(0), axis));
  }
  return axis;
}

// The counts of a pad that adds elements of its own: no more than the axis has, for mirrored ones
// less than that.
void require_border(Inference& op) {
  const Attributes& attributes = op.attributes();
  const Border border = attributes.border;
  for (const bool ahead : {true, false}) {
    const std::vector<std::int64_t>& counts = ahead ? attributes.before : attributes.after;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      const std::uint64_t extent = op.shape(0)[i];
      std::uint64_t most = std::numeric_limits<std::int64_t>::max();
      if (border == Border::kCircular || extent == 0) most = extent;
      if (border == Border::kReflect && extent > 0) most = extent - 1;
      if (counts[i] >= 0 && static_cast<std::uint64_t>(counts[i]) <= most) continue;
      op.fail_attribute(ahead ? Attribute::kBefore : Attribute::kAfter,
                        fmt::format("adds {} to axis {} of {}; with this border it may add 0 to {}",
                                    counts[i], i, op.describe(0), most));
    }
  }
}

}  // namespace

void infer_pad(Inference& op) {
  op.require_tensors();
  Shape shape = op.shape(0);
  const Attributes& attributes = op.attributes();
  if (attributes.before.empty() && attributes.after.empty() && !shape.empty()) {
    op.fail("missing attribute \"before\" or \"after\"");
  }
  Shape kept = shape;  // what is not cut off
  for (const bool ahead : {true, false}) {
    const std::vector<std::int64_t>& counts = ahead ? attributes.before : attributes.after;
    if (counts.empty()) continue;
    const Attribute attribute = ahead ? Attribute::kBefore : Attribute::kAfter;
    require_counts(op, attribute, counts, shape.size());
    for (std::size_t i = 0; i < counts.size(); ++i) {
      const auto count = static_cast<std::uint64_t>(counts[i]);
      if (counts[i] >= 0) {
        if (!checked_add(shape[i], count)) op.fail("the result is too large");
        continue;
      }
      const std::uint64_t cut = 0 - count;
      if (cut > kept[i]) {
        op.fail_attribute(attribute, fmt::format("cuts {} from axis {} of {}, which has {} left",
                                                 cut, i, op.describe(0), kept[i]));
      }
      kept[i] -= cut;
      shape[i] -= cut;
    }
  }
  if (attributes.border != Border::kConstant) require_border(op);
  op.reads[0] = elements_between(kept, 0, kept.size());
  op.outputs.push_back({shape, op.dtype(0)});
}

void infer_roll(Inference& op) {
  op.require_tensors();
  const std::size_t rank = op.shape(0).size();
  if (!op.attributes().axes) op.fail("missing attribute \"axes\"");
  op.axes(rank);
  const std::size_t axes = op.attributes().axes->size();
  const std::size_t shifts = op.attributes().shifts.size();
  if (shifts != axes) {
    op.fail_attribute(Attribute::kShifts, fmt::format("has {} entries, expected {}", shifts, axes));
  }
  op.outputs.push_back({op.shape(0), op.dtype(0)});
}

void infer_flip(Inference& op) {
  op.require_tensors();
  op.axes(op.shape(0).size());
  op.outputs.push_back({op.shape(0), op.dtype(0)});
}

void infer_repeat(Inference& op) {
  op.require_tensors();
  const std::vector<std::int64_t>& repeats = op.attributes().repeats;
  Shape shape = op.shape(0);
  if (repeats.size() < shape.size()) {
    op.fail_attribute(Attribute::kRepeats,
                      fmt::format("has {} counts for the {} axes of {}", repeats.size(),
                                  shape.size(), op.describe(0)));
  }
  shape.insert(shape.begin(), repeats.size() - shape.size(), 1);
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (repeats[i] < 0) op.fail_attribute(Attribute::kRepeats, "must not contain negative counts");
    if (!checked_multiply(shape[i], static_cast<std::uint64_t>(repeats[i]))) {
      op.fail("the result is too large");
    }
  }
  op.outputs.push_back({shape, op.dtype(0)});
}

// The cosines and sines are of each pair, or of each element that is turned.
void infer_rotary(Inference& op) {
  op.require_tensors();
  const Shape& x = op.shape(0);
  const Shape& angles = op.shape(1);
  if (x.empty()) op.fail_input(0, op.describe(0) + " needs at least 1 axis");
  const auto length = static_cast<std::int64_t>(x.back());
  const std::int64_t rotated = op.attributes().rotated.value_or(length);
  if (rotated < 2 || rotated % 2 != 0 || rotated > length) {
    const std::string pairs =
        fmt::format("{} elements of {} are no pairs of its last axis", rotated, op.describe(0));
    if (op.attributes().rotated) op.fail_attribute(Attribute::kRotated, pairs);
    op.fail_input(0, pairs);
  }
  const auto whole = static_cast<std::uint64_t>(rotated);
  bool fits = !angles.empty() && angles.size() <= x.size() &&
              (angles.back() == whole || angles.back() == whole / 2);
  for (std::size_t i = 0; fits && i + 1 < angles.size(); ++i) {
    fits = angles[i] == 1 || angles[i] == x[x.size() - angles.size() + i];
  }
  if (!fits) {
    op.fail_input(1, fmt::format("{} must broadcast to {}, with {} or {} elements along its last "
                                 "axis",
                                 op.describe(1), op.describe(0), whole, whole / 2));
  }
  if (op.shape(2) != angles) {
    op.fail_input(2, fmt::format("{} must have the shape of {}", op.describe(2), op.describe(1)));
  }
  op.outputs.push_back({x, op.float_of(op.dtype(0))});
}

void infer_triangle(Inference& op) {
  op.require_tensors();
  if (op.shape(0).size() < 2) op.fail_input(0, op.describe(0) + " needs at least 2 axes");
  op.outputs.push_back({op.shape(0), op.dtype(0)});
}

void infer_one_hot(Inference& op) {
  op.require_tensors();
  op.require_indices(0);
  const std::int64_t classes = op.attributes().classes;
  if (classes < 1) op.fail_attribute(Attribute::kClasses, "must be at least 1");
  Shape shape = op.shape(0);
  shape.push_back(static_cast<std::uint64_t>(classes));
  op.outputs.push_back({shape, op.attributes().to.value_or(DType::kI64)});
}

void infer_iota(Inference& op) {
  const Attributes& attributes = op.attributes();
  op.outputs.push_back({stated_shape(op), made_type(op, {attributes.first, attributes.delta})});
}

void infer_full(Inference& op) {
  op.outputs.push_back({stated_shape(op), made_type(op, {op.attributes().value})});
}

void infer_gather_elements(Inference& op) {
  named_axis(op);
  op.reads[0] = std::min(op.elements(0), op.elements(1));
  op.outputs.push_back({op.shape(1), op.dtype(0)});
}

void infer_scatter_elements(Inference& op) {
  const std::size_t axis = named_axis(op);
  if (op.shape(2) != op.shape(1)) {
    op.fail_input(2, fmt::format("{} must have the shape {} of the indices", op.describe(2),
                                 to_string(op.shape(1))));
  }
  // All indices along the axis may be the same.
  const std::uint64_t along = op.shape(1)[axis];
  update_part(op, along == 0 ? 0 : op.elements(1) / along);
}

void infer_scan(Inference& op) {
  op.require_tensors();
  op.axis(op.shape(0).size(), -1);
  const DType dtype = op.dtype(0);
  op.outputs.push_back({op.shape(0), is_float(dtype) ? dtype : DType::kI64});
}

void infer_sort(Inference& op) {
  op.require_tensors();
  Shape shape = op.shape(0);
  const std::size_t axis = op.axis(shape.size(), -1);
  const bool picks = (op.row().attributes & only(Attribute::kK)) != 0;
  const std::int64_t k = op.attributes().k.value_or(-1);
  if (picks && !op.attributes().k) op.fail("missing attribute \"k\"");
  if (picks && (k < 0 || static_cast<std::uint64_t>(k) > shape[axis])) {
    op.fail_attribute(Attribute::kK,
                      fmt::format("{} is not in [0, {}], the extent of axis {} of {}", k,
                                  shape[axis], axis, op.describe(0)));
  }
  if (picks) shape[axis] = static_cast<std::uint64_t>(k);
  op.work = op.elements(0);
  op.outputs.push_back({shape, op.dtype(0)});
  if (op.output_count() == 2) op.outputs.push_back({shape, DType::kI64});
}

}  // namespace fusecalc
