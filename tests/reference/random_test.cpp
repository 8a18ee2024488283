#include "reference/random.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/random_bits.hpp"
#include "reference/element.hpp"

namespace fusecalc {
namespace {

double drawn(DType dtype, std::uint64_t seed, std::uint64_t i, double low = -1, double high = 1) {
  return random_value({.dtype = dtype, .low = low, .high = high, .seed = seed}, i);
}

TEST_CASE("random bits are splitmix64's") {
  // The first outputs of the published generator for seed 0.
  CHECK(random_bits(0, 0) == 0xe220a8397b1dcdafU);
  CHECK(random_bits(0, 1) == 0x6e789e6aa1b965f4U);
  CHECK(random_bits(0, 2) == 0x06c45d188009454fU);
}

// Worked out with exact fractions.
TEST_CASE("a draw is rounded to f32 and cut to its type, towards zero") {
  CHECK(drawn(DType::kF64, 0, 0) == 0x1.8882a0e5ec772p-1);
  CHECK(drawn(DType::kF32, 0, 0) == 0x1.8882ap-1);
  CHECK(drawn(DType::kTf32, 0, 0) == 0x1.888p-1);
  CHECK(drawn(DType::kF16, 0, 0) == 0.7666015625);
  CHECK(drawn(DType::kBf16, 0, 0) == 0.765625);
  CHECK(drawn(DType::kFp8E4m3, 0, 0) == 0.75);
  CHECK(drawn(DType::kFp8E5m2, 0, 0) == 0.75);
  CHECK(drawn(DType::kFp4E2m1, 0, 0) == 0.5);
  CHECK(drawn(DType::kF32, 0, 1) == -0x1.18761ap-3);
  CHECK(drawn(DType::kTf32, 0, 1) == -0x1.184p-3);
  CHECK(drawn(DType::kF16, 0, 1) == -0.1368408203125);
  CHECK(drawn(DType::kFp8E4m3, 0, 1) == -0.125);
  CHECK(drawn(DType::kFp4E2m1, 0, 1) == 0);
  CHECK(drawn(DType::kF32, 42, 1'000'000'007) == 0x1.45c5f8p-1);
  CHECK(drawn(DType::kF32, 42, 5, 0.25, 1) == 0x1.cd664ap-1);
  CHECK(drawn(DType::kBf16, 42, 5, 0.25, 1) == 0.8984375);
  // Subnormals keep what bits they have.
  CHECK(drawn(DType::kF16, 3, 0, 0, 0x1p-13) == 1.3828277587890625e-05);
  CHECK(drawn(DType::kFp8E4m3, 3, 0, 0, 0x1p-7) == 0);
}

TEST_CASE("draws of integers are rounded down, draws of bools are the first bit") {
  const std::array<double, 4> small = {-2, -8, 6, 1};
  const std::array<double, 4> rows = {11898, 512, 27493, 17792};
  const std::array<double, 4> flags = {0, 0, 1, 1};
  for (std::size_t i = 0; i < 4; ++i) {
    for (const DType dtype : {DType::kI64, DType::kI32, DType::kI16, DType::kI8, DType::kI4}) {
      CHECK(drawn(dtype, 7, i, -8, 8) == small[i]);
    }
    CHECK(drawn(DType::kI32, 7, i, 0, 30522) == rows[i]);
    CHECK(drawn(DType::kBool, 7, i, -3, 100) == flags[i]);
  }
}

TEST_CASE("every type holds what is drawn for it") {
  for (std::size_t t = 0; t <= static_cast<std::size_t>(DType::kBool); ++t) {
    const auto dtype = static_cast<DType>(t);
    CAPTURE(name_of(dtype));
    double least = 1;
    double most = -1;
    for (std::uint64_t i = 0; i < 2000; ++i) {
      const double value = drawn(dtype, 5, i, 0, 4);
      const bool whole = !is_float(dtype);
      if (whole) REQUIRE(value == std::floor(value));
      if (!whole && dtype != DType::kF64) {
        REQUIRE(cut_to(dtype, static_cast<float>(value)) == value);
      }
      least = std::min(least, value);
      most = std::max(most, value);
    }
    CHECK(least < 0.51);
    CHECK(most >= (dtype == DType::kBool ? 1 : 3));
    CHECK(most < 4);
  }
}

TEST_CASE("an input's data overrides its fill") {
  const std::array<std::int64_t, 3> rows = {4, 2, 9};
  InputData input{.fill = {.dtype = DType::kI32, .low = 0, .high = 10, .seed = 1}};
  CHECK(input.value(2) == drawn(DType::kI32, 1, 2, 0, 10));
  input.data = encode_integers(DType::kI32, rows);
  CHECK(input.value(2) == 9);
}

}  // namespace
}  // namespace fusecalc
