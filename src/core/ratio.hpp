#pragma once

#include <cstdint>

namespace fusecalc {

// The double nearest to numerator / denominator, ties to even, for any two 64-bit integers.
// (Converting both to double first would round three times.) The denominator must not be 0.
double exact_ratio(std::uint64_t numerator, std::uint64_t denominator);

// The same of a part of a whole: 0 where there is none.
inline double share_of(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : exact_ratio(part, whole);
}

// Python's round(value, 2): the double nearest to the two-digit decimal nearest to the exact value
// of `value`, ties to even.
double round_to_cents(double value);

}  // namespace fusecalc
