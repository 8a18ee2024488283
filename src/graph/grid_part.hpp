#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "graph/shape.hpp"
#include "graph/strided_map.hpp"

namespace fusecalc {

// Elements of a tensor at evenly spaced places along each of its axes: what a view or a slice shows
// of it.
struct GridPart {
  struct Axis {
    std::uint64_t first = 0;
    std::uint64_t step = 1;
    std::uint64_t count = 1;
    std::uint64_t end() const { return first + (count - 1) * step + 1; }
    auto operator<=>(const Axis&) const = default;
  };
  std::vector<Axis> axes;  // as many as the tensor has

  std::uint64_t elements() const;
  auto operator<=>(const GridPart&) const = default;
};

// The part of a tensor of this shape, not empty, that a map leads to. Nothing where its elements
// are no grid there.
std::optional<GridPart> grid_part(const StridedMap& map, const Shape& shape);

// From the number of an element of the part, in order, to that in the tensor of this shape.
StridedMap map_of(const GridPart& part, const Shape& shape);

// What of a part lies within a range of an axis, as a part of the tensor that this range is.
// Nothing where there is nothing.
std::optional<GridPart> part_within(GridPart part, std::size_t axis, std::uint64_t begin,
                                    std::uint64_t length);

// How many elements are in at least one of the parts of a tensor. Nothing where that takes long to
// tell: where there are more than 64, or where their steps have a large common multiple.
std::optional<std::uint64_t> elements_of_union(std::span<const GridPart* const> parts);

}  // namespace fusecalc
