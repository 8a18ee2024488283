#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/strided_map.hpp"

namespace fusecalc {

// Evenly spaced elements of a tensor, by flat index: an evaluation represents rows and columns this
// way, without listing their elements. A single element has the step 0.
struct StridedRange {
  std::uint64_t first = 0;
  std::uint64_t step = 0;
  std::uint64_t count = 1;

  bool operator==(const StridedRange&) const = default;
  // The part [from, from + length).
  StridedRange part(std::uint64_t from, std::uint64_t length) const {
    return {first + from * step, length == 1 ? 0 : step, length};
  }
};

// A single element repeated `times`, or each element of a range once (times 1).
struct Repeated {
  StridedRange range;
  std::uint64_t times = 1;
};

// Maps the elements of a tensor to their source elements in another: an affine function of the
// coordinates. Broadcasts, transposes and slices are such maps.
class IndexMap {
 public:
  // `strides`: per axis of `shape`, how far a step along it moves in the source.
  IndexMap(const Shape& shape, std::span<const std::uint64_t> strides, std::uint64_t offset = 0);

  explicit IndexMap(const StridedMap& map);

  std::uint64_t operator()(std::uint64_t element) const;
  // The source of each element of a range, in order.
  void append(const StridedRange& range, std::vector<Repeated>& sources) const;

 private:
  struct Axis {
    std::uint64_t extent;
    std::uint64_t inner;  // elements of the result within one step along it
    std::uint64_t stride;
  };
  std::vector<Axis> axes_;  // adjacent axes with compatible strides are merged
  std::uint64_t offset_ = 0;
};

// A list of elements as ranges, in order.
std::vector<StridedRange> ranges_of(std::span<const std::uint64_t> elements);

}  // namespace fusecalc
