#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "measure/backend.hpp"

namespace fusecalc {

// What element i of a buffer holds once GpuBackend::fill() has filled it; the fill must have a
// type. A float is the draw rounded to f32 and then cut to the type's bits, an integer the largest
// one below the draw, a bool the draw's first bit.
double random_value(const RandomFill& fill, std::uint64_t element);

// What a graph input holds: the bytes, where there are any, or what the fill makes of it.
struct InputData {
  RandomFill fill;                // always with a type
  std::vector<std::byte> data{};  // the whole tensor, to be uploaded

  double value(std::uint64_t element) const;
};

}  // namespace fusecalc
