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
