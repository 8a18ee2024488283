#include "core/format.hpp"

#include <doctest/doctest.h>

using namespace fusecalc;

TEST_CASE("bytes show four digits in decimal units") {
  CHECK(human_bytes(0) == "0 B");
  CHECK(human_bytes(999) == "999 B");
  CHECK(human_bytes(1000) == "1.000 kB");
  CHECK(human_bytes(1001) == "1.001 kB");
  CHECK(human_bytes(8796093022208) == "8.796 TB");
  CHECK(human_bytes(2000000000) == "2.000 GB");
  CHECK(human_bytes(3000000000000000) == "3.000 PB");
  CHECK(human_bytes(9223372036854775807) == "9.223 EB");
}

TEST_CASE("a number has four digits at any size") {
  CHECK(human_bytes(9999) == "9.999 kB");
  CHECK(human_bytes(10000) == "10.00 kB");
  CHECK(human_bytes(9999499) == "9.999 MB");
  CHECK(human_bytes(9999500) == "10.00 MB");
  CHECK(human_bytes(99994) == "99.99 kB");
  CHECK(human_bytes(99996) == "100.0 kB");
}

TEST_CASE("a value that would round to a thousand takes the next unit") {
  CHECK(human_bytes(999949) == "999.9 kB");
  CHECK(human_bytes(999950) == "1.000 MB");
  CHECK(human_bytes(999999) == "1.000 MB");
  CHECK(human_bytes(999949999) == "999.9 MB");
  CHECK(human_bytes(999950000) == "1.000 GB");
}

TEST_CASE("digits are grouped by three") {
  CHECK(grouped_digits(0) == "0");
  CHECK(grouped_digits(999) == "999");
  CHECK(grouped_digits(1000) == "1,000");
  CHECK(grouped_digits(123456) == "123,456");
  CHECK(grouped_digits(1234567) == "1,234,567");
  CHECK(grouped_digits(9223372036854775807) == "9,223,372,036,854,775,807");
}

TEST_CASE("a double is printed as short as possible and always recognisable as one") {
  CHECK(shortest_decimal(0.0) == "0.0");
  CHECK(shortest_decimal(-0.0) == "-0.0");
  CHECK(shortest_decimal(88.89) == "88.89");
  CHECK(shortest_decimal(-50.0) == "-50.0");
  CHECK(shortest_decimal(0.1 + 0.2) == "0.30000000000000004");
  CHECK(shortest_decimal(9007199254740992.0) == "9007199254740992.0");  // 2^53
}

TEST_CASE("an exponent is written only where Python writes one") {
  CHECK(shortest_decimal(100000.0) == "100000.0");
  CHECK(shortest_decimal(1e15) == "1000000000000000.0");
  CHECK(shortest_decimal(1e16) == "1e+16");
  CHECK(shortest_decimal(9223372036854775808.0) == "9.223372036854776e+18");  // 2^63
  CHECK(shortest_decimal(0.0001) == "0.0001");
  CHECK(shortest_decimal(0.00001) == "1e-05");
}
