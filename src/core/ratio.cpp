#include "core/ratio.hpp"

#include <array>
#include <bit>
#include <cassert>
#include <charconv>
#include <cmath>
#include <limits>

namespace fusecalc {

double exact_ratio(std::uint64_t numerator, std::uint64_t denominator) {
  assert(denominator != 0);
  if (numerator == 0) return 0.0;
  __extension__ using Wide = unsigned __int128;
  // Scale (by 0 bits or more) so that the integer quotient has 63 or 64 bits. A remainder can only
  // break a tie, so it survives as the lowest bit, well below the 53 bits that a double keeps.
  const auto bits = [](std::uint64_t value) { return static_cast<int>(std::bit_width(value)); };
  const int shift = 63 + bits(denominator) - bits(numerator);
  const Wide scaled = static_cast<Wide>(numerator) << shift;
  auto quotient = static_cast<std::uint64_t>(scaled / denominator);
  if (scaled % denominator != 0) quotient |= 1U;
  return std::ldexp(static_cast<double>(quotient), -shift);
}

double round_to_cents(double value) {
  // Decimal printing is exact and rounds ties to even, as Python's does.
  std::array<char, std::numeric_limits<double>::max_exponent10 + 8> text{};
  const auto printed =
      std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed, 2);
  assert(printed.ec == std::errc{});
  double rounded = 0;
  std::from_chars(text.data(), printed.ptr, rounded);
  return rounded;
}

}  // namespace fusecalc
