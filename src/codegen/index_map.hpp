#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "graph/strided_map.hpp"

namespace fusecalc {

// How the index of an element changes from lane to lane of a group: a group is `width` neighbouring
// elements of the loop, a lane is one of them.
enum class LanePattern : std::uint8_t {
  kUniform,    // the same in every lane
  kUnit,       // by one from lane to lane
  kScattered,  // otherwise
};

// A map of elements as code that computes an index.
struct IndexTransform : StridedMap {
  IndexTransform() = default;
  IndexTransform(StridedMap map) : StridedMap(std::move(map)) {}

  // Of elements that follow each other in groups of `width`, each from a multiple of it.
  LanePattern pattern(unsigned width) const;
  // Whether those groups begin at multiples of `width` after the map, too.
  bool aligned(unsigned width) const;
  // In device code, of the number called `index`.
  std::string text(std::string_view index) const;
  // The same of the number row * period + place; empty where an axis has parts of both.
  std::string text_of_rows(std::uint64_t period, std::string_view row,
                           std::string_view place) const;
};

}  // namespace fusecalc
