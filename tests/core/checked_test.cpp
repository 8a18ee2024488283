#include "core/checked.hpp"

#include <doctest/doctest.h>

using namespace fusecalc;

namespace {

constexpr std::uint64_t kMost = 9223372036854775807U;  // 2^63 - 1
constexpr std::uint64_t kWrapsToZero = 1ULL << 32U;    // squared it is 2^64

}  // namespace

TEST_CASE("a sum may reach 2^63 - 1 and no more") {
  std::uint64_t total = kMost - 5;
  CHECK(checked_add(total, 5));
  CHECK(total == kMost);
  CHECK(checked_add(total, 0));
  CHECK_FALSE(checked_add(total, 1));
  CHECK(total == kMost);
}

TEST_CASE("a sum past 2^64 is refused, not wrapped") {
  std::uint64_t total = 10;
  CHECK_FALSE(checked_add(total, 18446744073709551615U));  // 10 + 2^64 - 1 wraps to 9
  CHECK(total == 10);
}

TEST_CASE("a product may reach 2^63 - 1 and no more") {
  std::uint64_t total = 3037000499;  // its square is 9223372030926249001
  CHECK(checked_multiply(total, 3037000499));
  CHECK(total == 9223372030926249001U);
  total = 3037000500;  // its square is 9223372037000250000, past 2^63 but not 2^64
  CHECK_FALSE(checked_multiply(total, 3037000500));
  CHECK(total == 3037000500);
}

TEST_CASE("a product past 2^64 is refused, not wrapped") {
  std::uint64_t total = kWrapsToZero;
  CHECK_FALSE(checked_multiply(total, kWrapsToZero));
  CHECK(total == kWrapsToZero);
}

TEST_CASE("anything may be multiplied by 0 or 1") {
  std::uint64_t total = kMost;
  CHECK(checked_multiply(total, 1));
  CHECK(total == kMost);
  CHECK(checked_multiply(total, 0));
  CHECK(total == 0);
}

TEST_CASE("a double is an integer where it is whole and has 64 bits at most") {
  CHECK(exact_integer(0) == 0);
  CHECK(exact_integer(-0.0) == 0);
  CHECK(exact_integer(-3) == -3);
  CHECK(exact_integer(9007199254740994.0) == 9007199254740994);        // 2^53 + 2
  CHECK(exact_integer(9223372036854774784.0) == 9223372036854774784);  // 2^63 - 1024
  CHECK(exact_integer(-0x1p63) == std::numeric_limits<std::int64_t>::min());
  for (const double number : {0.5, -0.5, 0x1p63, -0x1.0000000000001p63, 1e300, -1e300}) {
    CHECK_FALSE(exact_integer(number));
  }
  CHECK_FALSE(exact_integer(std::numeric_limits<double>::infinity()));
  CHECK_FALSE(exact_integer(-std::numeric_limits<double>::infinity()));
  CHECK_FALSE(exact_integer(std::numeric_limits<double>::quiet_NaN()));
}
