#include "core/ratio.hpp"

#include <doctest/doctest.h>

#include "core/checked.hpp"

using namespace fusecalc;

TEST_CASE("rounding to two decimals follows the double, ties to even") {
  CHECK(round_to_cents(0.125) == 0.12);  // exact in binary: a true tie
  CHECK(round_to_cents(0.375) == 0.38);
  CHECK(round_to_cents(2.675) == 2.67);  // the double lies just below
  CHECK(round_to_cents(66.66666666666666) == 66.67);
  CHECK(round_to_cents(-0.125) == -0.12);
  CHECK(round_to_cents(9.223372036854776e18) == 9.223372036854776e18);
}

TEST_CASE("a ratio of integers is rounded once") {
  CHECK(exact_ratio(1, 8) == 0.125);
  CHECK(exact_ratio(0, 7) == 0.0);
  CHECK(exact_ratio(kMaxCount, 1) == 9223372036854775808.0);
  // 2^53 + 1 has no double of its own; halved and doubled it is still a tie to even.
  CHECK(exact_ratio((1ULL << 53U) + 1, 1) == 9007199254740992.0);
  // (2^63 - 1) / (2^63 - 3) is 1 + 2^-62: rounding both operands first would also give 1, but
  // (2^54 + 3) / 2^54 must not lose its last bit: 1 + 3 * 2^-54 lies nearest to 1 + 2^-52.
  CHECK(exact_ratio((1ULL << 54U) + 3, 1ULL << 54U) == 1.0 + 0x1p-52);
  // 2^53 + 1 + 1/2047 is all but a tie, and lies above it.
  CHECK(exact_ratio(((1ULL << 53U) + 1) * 2047 + 1, 2047) == 9007199254740994.0);
}
