#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graph/shape.hpp"

namespace fusecalc {

// How the index of an element changes from lane to lane of a group: a group is `width` neighbouring
// elements of the loop, a lane is one of them.
enum class LanePattern : std::uint8_t {
  kUniform,    // the same in every lane
  kUnit,       // by one from lane to lane
  kScattered,  // otherwise
};

// Maps the linear index of an element of one tensor to that of another: the index is split into
// coordinates by the extents, and each coordinate counts `stride`, after `offset`.
struct IndexTransform {
  struct Axis {
    std::uint64_t extent = 1;
    std::uint64_t stride = 0;
    bool operator==(const Axis&) const = default;
  };
  std::vector<Axis> axes;  // outermost first, neighbours merged, none of extent 1
  std::uint64_t offset = 0;

  void append(std::uint64_t extent, std::uint64_t stride);
  bool identity() const;
  // Of elements that follow each other in groups of `width`, each from a multiple of it.
  LanePattern pattern(unsigned width) const;
  // Whether those groups begin at multiples of `width` after the map, too.
  bool aligned(unsigned width) const;
  // In device code, of the number called `index`.
  std::string text(std::string_view index) const;
  bool operator==(const IndexTransform&) const = default;
};

// From an element of `to` to the one of `from` that NumPy's broadcasting puts there.
IndexTransform broadcast_map(const Shape& from, const Shape& to);
// From an element of a permuted tensor to that of the original.
IndexTransform permutation_map(const Shape& original, const std::vector<std::int64_t>& perm);

}  // namespace fusecalc
