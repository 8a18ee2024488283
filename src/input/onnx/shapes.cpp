#include "input/onnx/shapes.hpp"

#include <algorithm>
#include <numeric>

namespace fusecalc {
namespace {

std::optional<Shape> reshape_target(const OnnxNode& node, const Shape& shape,
                                    const std::vector<std::int64_t>& target) {
  const bool allow_zero = whole_attribute(node, "allowzero", 0) != 0;
  Shape result;
  std::optional<std::size_t> open;
  for (std::size_t i = 0; i < target.size(); ++i) {
    if (target[i] == 0 && !allow_zero) {
      if (i >= shape.size()) return std::nullopt;
      result.push_back(shape[i]);
    } else if (target[i] == -1) {
      if (open) return std::nullopt;
      open = i;
      result.push_back(1);
    } else if (target[i] < 0) {
      return std::nullopt;
    } else {
      result.push_back(static_cast<std::uint64_t>(target[i]));
    }
  }
  const std::optional<std::uint64_t> have = checked_elements(shape);
  const std::optional<std::uint64_t> known = checked_elements(result);
  if (!have || !known) return std::nullopt;
  if (!open) return *known == *have ? std::optional(result) : std::nullopt;
  if (*known == 0 || *have % *known != 0) return std::nullopt;
  result[*open] = *have / *known;
  return result;
}

std::optional<Shape> squeezed(const Shape& shape, const std::vector<std::int64_t>& axes) {
  std::vector<bool> drop(shape.size(), axes.empty());
  for (const std::int64_t axis : axes) {
    const auto place = axis_of(axis, shape.size());
    if (!place || shape[*place] != 1) return std::nullopt;
    drop[*place] = true;
  }
  Shape result;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (!drop[i] || shape[i] != 1) result.push_back(shape[i]);
  }
  return result;
}

std::optional<Shape> unsqueezed(const Shape& shape, const std::vector<std::int64_t>& axes) {
  const std::size_t rank = shape.size() + axes.size();
  std::vector<bool> added(rank, false);
  for (const std::int64_t axis : axes) {
    const auto place = axis_of(axis, rank);
    if (!place || added[*place]) return std::nullopt;
    added[*place] = true;
  }
  Shape result;
  std::size_t next = 0;
  for (std::size_t i = 0; i < rank; ++i) result.push_back(added[i] ? 1 : shape[next++]);
  return result;
}

std::optional<Shape> flattened(const Shape& shape, std::int64_t axis) {
  const auto rank = static_cast<std::int64_t>(shape.size());
  if (axis < -rank || axis > rank) return std::nullopt;
  const auto split = static_cast<std::size_t>(axis < 0 ? axis + rank : axis);
  return Shape{elements_between(shape, 0, split), elements_between(shape, split, shape.size())};
}

}  // namespace

std::int64_t whole_attribute(const OnnxNode& node, std::string_view name, std::int64_t fallback) {
  const OnnxAttribute* attribute = node.find(name);
  return attribute != nullptr ? attribute->whole.value_or(fallback) : fallback;
}

double real_attribute(const OnnxNode& node, std::string_view name, double fallback) {
  const OnnxAttribute* attribute = node.find(name);
  return attribute != nullptr ? attribute->real.value_or(fallback) : fallback;
}

std::string_view text_attribute(const OnnxNode& node, std::string_view name,
                                std::string_view fallback) {
  const OnnxAttribute* attribute = node.find(name);
  return attribute != nullptr ? attribute->text.value_or(fallback) : fallback;
}

std::optional<std::vector<std::int64_t>> integers_of(const OnnxNode& node, std::string_view name,
                                                     const Constant* constant) {
  if (const OnnxAttribute* attribute = node.find(name)) return attribute->wholes;
  if (constant != nullptr) return constant->integers();
  return std::nullopt;
}

std::optional<Shape> reshaped_by(const OnnxNode& node, const Shape& shape,
                                 const Constant* argument) {
  if (node.type == "Flatten") return flattened(shape, whole_attribute(node, "axis", 1));
  if (node.type == "Reshape") {
    if (argument == nullptr) return std::nullopt;
    return reshape_target(node, shape, argument->integers());
  }
  // Opsets before 13 have the axes as an attribute.
  const auto axes = integers_of(node, "axes", argument);
  if (node.type == "Squeeze") return squeezed(shape, axes.value_or(std::vector<std::int64_t>{}));
  if (!axes) return std::nullopt;
  return unsqueezed(shape, *axes);
}

std::optional<std::vector<std::size_t>> permutation_of(const OnnxNode& node, std::size_t rank) {
  std::vector<std::size_t> perm(rank);
  std::iota(perm.rbegin(), perm.rend(), 0);
  const OnnxAttribute* given = node.find("perm");
  if (given == nullptr) return perm;
  if (given->wholes.size() != rank) return std::nullopt;
  std::vector<bool> seen(rank, false);
  for (std::size_t i = 0; i < rank; ++i) {
    const auto axis = axis_of(given->wholes[i], rank);
    if (!axis || seen[*axis]) return std::nullopt;
    seen[*axis] = true;
    perm[i] = *axis;
  }
  return perm;
}

std::optional<SliceRange> sliced_by(const OnnxNode& node, const Shape& shape,
                                    std::span<const Constant* const> inputs) {
  const auto input = [&](std::size_t i) { return i < inputs.size() ? inputs[i] : nullptr; };
  const auto starts = integers_of(node, "starts", input(1));
  const auto ends = integers_of(node, "ends", input(2));
  if (!starts || !ends || starts->size() != ends->size()) return std::nullopt;
  std::vector<std::int64_t> axes(starts->size());
  std::iota(axes.begin(), axes.end(), 0);
  axes = integers_of(node, "axes", input(3)).value_or(axes);
  const auto steps =
      integers_of(node, "steps", input(4)).value_or(std::vector<std::int64_t>(starts->size(), 1));
  if (axes.size() != starts->size() || steps.size() != starts->size()) return std::nullopt;
  SliceRange range{shape, std::vector<std::int64_t>(shape.size(), 0),
                   std::vector<std::int64_t>(shape.size(), 1)};
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto axis = axis_of(axes[i], shape.size());
    if (!axis || steps[i] == 0) return std::nullopt;
    const auto extent = static_cast<std::int64_t>(shape[*axis]);
    const std::int64_t step = steps[i];
    const std::int64_t lowest = step > 0 ? 0 : -1;
    const auto within = [&](std::int64_t bound, std::int64_t least) {
      const std::int64_t place = bound < 0 ? std::max(bound, -extent - 1) + extent : bound;
      return std::clamp(place, least, step > 0 ? extent : extent - 1);
    };
    const std::int64_t start = within((*starts)[i], 0);
    const std::int64_t end = within((*ends)[i], lowest);
    const std::int64_t distance = step > 0 ? end - start : start - end;
    // Steps may be as far from 0 as integers go.
    const std::uint64_t stride = step > 0 ? static_cast<std::uint64_t>(step)
                                          : std::uint64_t{0} - static_cast<std::uint64_t>(step);
    range.shape[*axis] =
        distance <= 0 ? 0 : (static_cast<std::uint64_t>(distance) - 1) / stride + 1;
    range.starts[*axis] = start;
    range.steps[*axis] = range.shape[*axis] > 1 ? step : 1;
  }
  return range;
}

}  // namespace fusecalc
