#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graph/shape.hpp"

namespace fusecalc {

// How the index of an element changes along a group of neighbouring elements of the loop.
enum class Spread : std::uint8_t {
  kUniform,    // not at all
  kUnit,       // by one
  kScattered,  // otherwise
};

// A way from the number of an element of one tensor to that of another: the number is taken apart
// by the extents, and every coordinate counts `stride`.
struct Step {
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
  Spread spread(unsigned width) const;
  // Whether those groups begin at multiples of `width` after the step, too.
  bool aligned(unsigned width) const;
  // In device code, of the number called `index`.
  std::string text(std::string_view index) const;
  bool operator==(const Step&) const = default;
};

// From an element of `to` to the one of `from` that NumPy's broadcasting puts there.
Step broadcast_step(const Shape& from, const Shape& to);
// From an element of a permuted tensor to that of the original.
Step permute_step(const Shape& original, const std::vector<std::int64_t>& perm);

}  // namespace fusecalc
