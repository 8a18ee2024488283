#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/dtype.hpp"

namespace fusecalc {

// Uniform in [low, high) of a type, or random bits if none is given; a bool is 0 or 1 regardless
// of the range. The same seed gives the same bytes on every device, those of random_value().
struct RandomFill {
  std::optional<DType> dtype{};
  double low = 0;
  double high = 1;
  std::uint64_t seed = 0;
  std::uint64_t period = 0;  // element i + period equals element i; 0: none repeats
};

// What element i of a buffer holds once GpuBackend::fill() has filled it; the fill must have a
// type. A float is the draw rounded to f32 and then cut to the type's bits, an integer the largest
// one below the draw, a bool the draw's first bit.
double random_value(const RandomFill& fill, std::uint64_t element);

// The contents of a graph input: the given bytes, or else random values.
struct InputData {
  RandomFill fill;                // always with a type
  std::vector<std::byte> data{};  // the whole tensor, to be uploaded

  double value(std::uint64_t element) const;
};

}  // namespace fusecalc
