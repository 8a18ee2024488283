#pragma once

#include <cstdint>

namespace fusecalc {

// The double nearest to numerator / denominator, ties to even, for any two 64-bit integers.
// (Converting both to double first would round three times.) The denominator must not be 0.
double exact_ratio(std::uint64_t numerator, std::uint64_t denominator);

// Python's round(value, 2): the double nearest to the two-digit decimal nearest to the exact value
// of `value`, ties to even.
double round_to_cents(double value);

}  // namespace fusecalc
