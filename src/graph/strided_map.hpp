#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/shape.hpp"

namespace fusecalc {

// Maps the number of an element of one tensor to that of an element of another: the number is split
// into coordinates by the extents, and each coordinate counts `stride`, after `offset`. Numbers are
// those of contiguous tensors. Slices, permutations and repetitions are such maps.
struct StridedMap {
  struct Axis {
    std::uint64_t extent = 1;
    std::uint64_t stride = 0;  // 0: repeated
    bool operator==(const Axis&) const = default;
  };
  std::vector<Axis> axes;  // outermost first, neighbours merged, none of extent 1
  std::uint64_t offset = 0;

  // The map of a tensor to itself.
  static StridedMap of(std::uint64_t elements);

  void append(std::uint64_t extent, std::uint64_t stride);
  // Whether every element keeps its number. (The other tensor may have more elements.)
  bool identity() const;
  // Whether elements come in another order than in the other tensor, not only with gaps or
  // repetitions.
  bool permutes() const;
  // How many elements of the other tensor it leads to, where its axes do not overlap.
  std::uint64_t distinct() const;
  std::uint64_t operator()(std::uint64_t element) const;
  bool operator==(const StridedMap&) const = default;
};

// From an element of `to` to the one of `from` that NumPy's broadcasting puts there.
StridedMap broadcast_map(const Shape& from, const Shape& to);

// The way back, where every element of the one tensor is one of the other.
StridedMap inverse(const StridedMap& permutation);

// An axis of a tensor, by the number of elements that a step along it moves, as axes of the tensor
// that a map leads to: outermost first. Nothing where its steps are not evenly spaced there, or
// where there is more than one way to count through them along with the axes of smaller steps.
std::optional<std::vector<StridedMap::Axis>> through(const StridedMap::Axis& axis,
                                                     const StridedMap& map);

// `first`, then `second`, as one map: nothing where elements that `first` spaces evenly are not so
// in the tensor that `second` leads to.
std::optional<StridedMap> joined(const StridedMap& first, const StridedMap& second);

}  // namespace fusecalc
