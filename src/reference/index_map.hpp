#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/shape.hpp"

namespace fusecalc {

// Evenly spaced elements of a tensor, by their flat index: how an evaluation speaks of rows and
// columns without listing their elements. A single element has the step 0.
struct Run {
  std::uint64_t first = 0;
  std::uint64_t step = 0;
  std::uint64_t count = 1;

  bool operator==(const Run&) const = default;
  // The part [from, from + length).
  Run part(std::uint64_t from, std::uint64_t length) const {
    return {first + from * step, length == 1 ? 0 : step, length};
  }
};

// The same element `times` over, or each of a run once (times 1).
struct Repeated {
  Run run;
  std::uint64_t times = 1;
};

// Where the elements of one tensor come from in another: an affine function of the coordinates.
// Broadcasting, other orders of axes and slices are such maps.
class IndexMap {
 public:
  // `strides`: per axis of `shape`, how far a step along it moves in the source.
  IndexMap(const Shape& shape, std::span<const std::uint64_t> strides, std::uint64_t offset = 0);

  static IndexMap broadcast(const Shape& to, const Shape& from);
  // Axis i of the result is axis perm[i] of the source; perm holds no negative axes.
  static IndexMap permutation(const Shape& from, std::span<const std::int64_t> perm);

  std::uint64_t operator()(std::uint64_t element) const;
  // The source of each element of a run, in order.
  void append(const Run& run, std::vector<Repeated>& sources) const;

 private:
  struct Axis {
    std::uint64_t extent;
    std::uint64_t inner;  // elements of the result within one step along it
    std::uint64_t stride;
  };
  std::vector<Axis> axes_;  // neighbours that move alike are merged
  std::uint64_t offset_ = 0;
};

// A list of elements as runs, in order.
std::vector<Run> runs_of(std::span<const std::uint64_t> elements);

}  // namespace fusecalc
