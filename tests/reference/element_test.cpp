#include "reference/element.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstring>

namespace fusecalc {
namespace {

template <typename... Bytes>
std::vector<std::byte> bytes(Bytes... values) {
  return {static_cast<std::byte>(values)...};
}

TEST_CASE("floats of every width are read from their bits") {
  const double pi = 3.25;
  std::vector<std::byte> wide(8);
  std::memcpy(wide.data(), &pi, 8);
  CHECK(decode(DType::kF64, wide, 0) == 3.25);
  // 1.5 * 2^-1: exponent 126 = 0x7e, top mantissa bit.
  CHECK(decode(DType::kF32, bytes(0, 0, 0x40, 0x3f), 0) == 0.75);
  CHECK(decode(DType::kTf32, bytes(0, 0, 0x40, 0xbf), 0) == -0.75);
  CHECK(decode(DType::kBf16, bytes(0, 0, 0x40, 0x3f), 1) == 0.75);
  CHECK(decode(DType::kF16, bytes(0x00, 0x3a), 0) == 0.75);
  CHECK(decode(DType::kF16, bytes(0x01, 0x80), 0) == -0x1p-24);
  CHECK(decode(DType::kF16, bytes(0xff, 0x7b), 0) == 65504);
  CHECK(decode(DType::kFp8E4m3, bytes(0x7e), 0) == 448);
  CHECK(decode(DType::kFp8E4m3, bytes(0x01), 0) == 0x1p-9);
  CHECK(decode(DType::kFp8E5m2, bytes(0x7b), 0) == 57344);
  const std::vector<std::byte> nibbles = bytes(0x7b, 0x01);
  CHECK(decode(DType::kFp4E2m1, nibbles, 0) == -1.5);  // 1 01 1
  CHECK(decode(DType::kFp4E2m1, nibbles, 1) == 6);     // 0 11 1
  CHECK(decode(DType::kFp4E2m1, nibbles, 2) == 0.5);   // 0 00 1
}

TEST_CASE("infinities and NaN are preserved") {
  CHECK(decode(DType::kF16, bytes(0x00, 0x7c), 0) == INFINITY);
  CHECK(decode(DType::kBf16, bytes(0x80, 0xff), 0) == -INFINITY);
  CHECK(decode(DType::kFp8E5m2, bytes(0xfc), 0) == -INFINITY);
  // Poison.
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kTf32, DType::kF16, DType::kBf16,
                            DType::kFp8E4m3, DType::kFp8E5m2}) {
    CHECK(std::isnan(decode(dtype, std::vector<std::byte>(8, std::byte{0xff}), 0)));
  }
}

TEST_CASE("integers are read with their sign, and what was encoded comes back") {
  CHECK(decode(DType::kI8, bytes(0xfe), 0) == -2);
  CHECK(decode(DType::kU8, bytes(0xfe), 0) == 254);
  CHECK(decode(DType::kI4, bytes(0x9f), 0) == -1);
  CHECK(decode(DType::kI4, bytes(0x9f), 1) == -7);
  CHECK(decode(DType::kU4, bytes(0x9f), 1) == 9);
  const std::array<std::int64_t, 3> values = {5, 0, 7};
  for (const DType dtype :
       {DType::kI64, DType::kI32, DType::kI16, DType::kI8, DType::kU8, DType::kI4, DType::kU4}) {
    const std::vector<std::byte> encoded = encode_integers(dtype, values);
    CHECK(encoded.size() == bytes_of(dtype, 3));
    for (std::size_t i = 0; i < 3; ++i) {
      CHECK(decode(dtype, encoded, i) == static_cast<double>(values[i]));
    }
  }
  CHECK(decode(DType::kI32, encode_integers(DType::kI32, std::array<std::int64_t, 1>{-70000}), 0) ==
        -70000);
}

TEST_CASE("precisions are those of rounding to nearest") {
  CHECK(precision_of(DType::kF32).unit == 0x1p-24);
  CHECK(precision_of(DType::kTf32).unit == 0x1p-11);
  CHECK(precision_of(DType::kF16).unit == 0x1p-11);
  CHECK(precision_of(DType::kBf16).unit == 0x1p-8);
  CHECK(precision_of(DType::kFp8E4m3).unit == 0x1p-4);
  CHECK(precision_of(DType::kFp4E2m1).unit == 0x1p-2);
  CHECK(precision_of(DType::kF16).smallest == 0x1p-24);
  CHECK(precision_of(DType::kI32).unit == 0);
  CHECK(precision_of(DType::kI8).lowest == -128);
  CHECK(precision_of(DType::kU4).highest == 15);
}

}  // namespace
}  // namespace fusecalc
