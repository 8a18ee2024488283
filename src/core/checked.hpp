#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>

namespace fusecalc {

// Every element and byte count is an unsigned 64-bit number below 2^63, so that a difference of two
// of them always fits a signed one.
inline constexpr std::uint64_t kMaxCount =
    static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());

// Adds or multiplies into `total`; returns false, with `total` unchanged, if the result would
// exceed kMaxCount. The caller knows the location and reports the error.
[[nodiscard]] inline bool checked_add(std::uint64_t& total, std::uint64_t value) {
  std::uint64_t sum = 0;
  if (__builtin_add_overflow(total, value, &sum) || sum > kMaxCount) return false;
  total = sum;
  return true;
}

[[nodiscard]] inline bool checked_multiply(std::uint64_t& total, std::uint64_t factor) {
  std::uint64_t product = 0;
  if (__builtin_mul_overflow(total, factor, &product) || product > kMaxCount) return false;
  total = product;
  return true;
}

// The signed integer that a double is exactly; empty for fractions, infinities, NaN and whatever
// needs more than 64 bits.
inline std::optional<std::int64_t> exact_integer(double number) {
  constexpr double kPastLargest = 0x1p63;
  if (!(number >= -kPastLargest && number < kPastLargest)) return std::nullopt;
  if (number != std::trunc(number)) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

}  // namespace fusecalc
