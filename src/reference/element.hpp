#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/dtype.hpp"

namespace fusecalc {

// The rounding error and the range of a dtype.
struct Precision {
  double unit = 0;      // relative error of rounding to nearest; 0 for integers
  double smallest = 0;  // the step between the numbers next to 0; 0 for integers
  double lowest = 0;    // of the finite numbers
  double highest = 0;
};
const Precision& precision_of(DType dtype);

// Element i of a tensor's bytes, as they lie in device memory; of two 4-bit elements in a byte, the
// first is in its low half.
double decode(DType dtype, std::span<const std::byte> bytes, std::uint64_t element);

// The bytes of integers or bools; the values must fit.
std::vector<std::byte> encode_integers(DType dtype, std::span<const std::int64_t> values);

// A float cut to the bits that a narrower type keeps, towards zero.
double cut_to(DType dtype, float value);

}  // namespace fusecalc
