#include "traffic/savings.hpp"

#include <doctest/doctest.h>

using namespace fusecalc;

TEST_CASE("savings are the difference, its share and the ratio") {
  const Savings savings = {.unfused_bytes = 36000, .fused_bytes = 4000};
  CHECK(savings.bytes() == 32000);
  CHECK(savings.percent() == 88.89);  // 88.888...
  CHECK(savings.speedup() == 9.0);
}

TEST_CASE("a fused plan that moves more has negative savings") {
  const Savings savings = {.unfused_bytes = 100, .fused_bytes = 150};
  CHECK(savings.bytes() == -50);
  CHECK(savings.percent() == -50.0);
  CHECK(savings.speedup() == 0.67);  // 0.666...
}

TEST_CASE("a ratio whose divisor is 0 is 0") {
  CHECK(Savings{0, 0}.percent() == 0.0);
  CHECK(Savings{0, 0}.speedup() == 0.0);
  CHECK(Savings{20, 0}.percent() == 100.0);
  CHECK(Savings{20, 0}.speedup() == 0.0);
  CHECK(Savings{0, 20}.bytes() == -20);
  CHECK(Savings{0, 20}.percent() == 0.0);
}

TEST_CASE("a percentage half-way between two decimals takes the even one") {
  CHECK(Savings{1600, 1598}.percent() == 0.12);  // 0.125
  CHECK(Savings{1600, 1594}.percent() == 0.38);  // 0.375
  CHECK(Savings{1600, 1602}.percent() == -0.12);
}

TEST_CASE("a speedup half-way between two decimals takes the even one") {
  CHECK(Savings{9, 8}.speedup() == 1.12);   // 1.125
  CHECK(Savings{11, 8}.speedup() == 1.38);  // 1.375
  CHECK(Savings{5, 8}.speedup() == 0.62);   // 0.625
}

TEST_CASE("the division comes before the multiplication") {
  // 23 / 160 is 14.375 %, but the double nearest to 0.14375, times 100, is 14.374999999999998.
  CHECK(Savings{160, 137}.percent() == 14.37);
  // 49 / 160 is 30.625 %, and there the double lies above: 30.625000000000004.
  CHECK(Savings{160, 111}.percent() == 30.63);
}

TEST_CASE("the largest counts keep their digits") {
  constexpr std::uint64_t kMost = 9223372036854775807U;
  CHECK(Savings{kMost, 1}.bytes() == 9223372036854775806);
  CHECK(Savings{kMost, 1}.speedup() == 9223372036854775808.0);
  CHECK(Savings{0, kMost}.bytes() == -9223372036854775807);
  // Three times this is 2^63 + 1.
  CHECK(Savings{kMost, 3074457345618258603U}.speedup() == 3.0);
  CHECK(Savings{kMost, 3074457345618258603U}.percent() == 66.67);
}
