#include "codegen/text.hpp"

#include <doctest/doctest.h>

#include <limits>

using namespace fusecalc;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

}  // namespace

TEST_CASE("a number in a 32-bit integer expression loses its fraction and saturates") {
  const auto text = [](double number) { return literal(number, ComputeType::kI32); };
  CHECK(text(0) == "0");
  CHECK(text(-0.0) == "0");
  CHECK(text(7) == "7");
  CHECK(text(-7) == "(-7)");
  CHECK(text(2.9) == "2");
  CHECK(text(-2.9) == "(-2)");
  CHECK(text(-0.9) == "0");
  CHECK(text(2147483647) == "2147483647");
  CHECK(text(2147483647.5) == "2147483647");
  CHECK(text(-2147483647) == "(-2147483647)");
  // 2147483648 would be a long literal, and so would be its negation.
  CHECK(text(-2147483648.0) == "lowest<i32>()");
  for (const double number : {2147483648.0, 4294967297.0, 0x1p63, 1e300, kInfinity}) {
    CHECK(text(number) == "highest<i32>()");
    CHECK(text(-number) == "lowest<i32>()");
  }
  CHECK(text(kNan) == "0");
}

TEST_CASE("a number in a 64-bit integer expression loses its fraction and saturates") {
  const auto text = [](double number) { return literal(number, ComputeType::kI64); };
  CHECK(text(-0.0) == "0ll");
  CHECK(text(2147483648.0) == "2147483648ll");
  CHECK(text(-2147483649.5) == "(-2147483649ll)");
  CHECK(text(9223372036854774784.0) == "9223372036854774784ll");  // 2^63 - 1024
  CHECK(text(-9223372036854774784.0) == "(-9223372036854774784ll)");
  for (const double number : {0x1p63, 0x1p64, 1e300, kInfinity}) {
    CHECK(text(number) == "highest<i64>()");
    CHECK(text(-number) == "lowest<i64>()");
  }
  CHECK(text(kNan) == "0ll");
}

TEST_CASE("a number in a floating-point expression keeps its sign, infinity and NaN") {
  CHECK(literal(0, ComputeType::kF32) == "f32(0)");
  CHECK(literal(-0.0, ComputeType::kF32) == "f32(-0.0)");
  CHECK(literal(-0.0, ComputeType::kF64) == "f64(-0.0)");
  CHECK(literal(0.1, ComputeType::kF32) == "f32(0.10000000000000001)");
  CHECK(literal(-3, ComputeType::kF64) == "f64(-3)");
  CHECK(literal(0x1p63, ComputeType::kF32) == "f32(9.2233720368547758e+18)");
  CHECK(literal(1e300, ComputeType::kF64) == "f64(1.0000000000000001e+300)");
  // 2^128 - 2^104 is the largest of single precision; half a step more rounds to infinity.
  CHECK(literal(0x1.fffffep127, ComputeType::kF32) == "f32(3.4028234663852886e+38)");
  CHECK(literal(0x1.fffffefffffffp127, ComputeType::kF32) == "f32(3.4028235677973362e+38)");
  for (const double number : {0x1.ffffffp127, 1e39, 1e300, kInfinity}) {
    CHECK(literal(number, ComputeType::kF32) == "highest<f32>()");
    CHECK(literal(-number, ComputeType::kF32) == "lowest<f32>()");
  }
  CHECK(literal(kInfinity, ComputeType::kF64) == "highest<f64>()");
  CHECK(literal(kNan, ComputeType::kF32) == "f32(__longlong_as_double(-1ll))");
}

TEST_CASE("a number is true unless it is zero") {
  CHECK(literal(-0.0, ComputeType::kBool) == "false");
  CHECK(literal(0.25, ComputeType::kBool) == "true");
  CHECK(literal(1e300, ComputeType::kBool) == "true");
  CHECK(literal(kNan, ComputeType::kBool) == "true");
}
