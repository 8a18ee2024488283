#include "reference/element.hpp"

#include <array>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>
#include <limits>

namespace fusecalc {
namespace {

// What a type's bits mean: a float of so many exponent and mantissa bits, or an integer.
struct Encoding {
  std::uint8_t bits;           // in memory
  std::uint8_t exponent_bits;  // 0: an integer
  std::uint8_t mantissa_bits;
  bool is_signed;
  bool has_infinity;
};

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// In the order of DType.
constexpr std::array kEncodings = {
    Encoding{64, 11, 52, true, true},  // f64
    Encoding{32, 8, 23, true, true},   // f32
    Encoding{32, 8, 23, true, true},   // tf32, stored as f32
    Encoding{16, 5, 10, true, true},   // f16
    Encoding{16, 8, 7, true, true},    // bf16
    Encoding{8, 4, 3, true, false},    // fp8_e4m3
    Encoding{8, 5, 2, true, true},     // fp8_e5m2
    Encoding{4, 2, 1, true, false},    // fp4_e2m1
    Encoding{64, 0, 0, true, false},   // i64
    Encoding{32, 0, 0, true, false},   // i32
    Encoding{16, 0, 0, true, false},   // i16
    Encoding{8, 0, 0, true, false},    // i8
    Encoding{8, 0, 0, false, false},   // u8
    Encoding{4, 0, 0, true, false},    // i4
    Encoding{4, 0, 0, false, false},   // u4
    Encoding{8, 0, 0, false, false},   // bool
};
static_assert(kEncodings.size() == static_cast<std::size_t>(DType::kBool) + 1);

const Encoding& encoding_of(DType dtype) { return kEncodings[static_cast<std::size_t>(dtype)]; }

// Significant bits after the leading one; tf32 keeps fewer than its 32 bits of memory could.
int kept_bits(DType dtype) { return dtype == DType::kTf32 ? 10 : encoding_of(dtype).mantissa_bits; }

int bias_of(const Encoding& encoding) { return (1 << (encoding.exponent_bits - 1)) - 1; }

double float_of(const Encoding& encoding, std::uint64_t bits) {
  const unsigned mantissa_bits = encoding.mantissa_bits;
  const std::uint64_t mantissa = bits & ((std::uint64_t{1} << mantissa_bits) - 1);
  const auto top = (std::uint64_t{1} << encoding.exponent_bits) - 1;
  const std::uint64_t exponent = bits >> mantissa_bits & top;
  const double sign = (bits >> (mantissa_bits + encoding.exponent_bits) & 1U) != 0 ? -1 : 1;
  if (exponent == top) {
    if (encoding.has_infinity) return mantissa == 0 ? sign * kInfinity : kNan;
    // e4m3 has one pattern that is no number, e2m1 has none.
    if (encoding.bits == 8 && mantissa == (std::uint64_t{1} << mantissa_bits) - 1) return kNan;
  }
  const std::uint64_t leading = exponent == 0 ? 0 : std::uint64_t{1} << mantissa_bits;
  const int scale = static_cast<int>(exponent == 0 ? 1 : exponent) - bias_of(encoding);
  return sign * std::ldexp(static_cast<double>(mantissa | leading),
                           scale - static_cast<int>(mantissa_bits));
}

double integer_of(const Encoding& encoding, std::uint64_t bits) {
  if (!encoding.is_signed) return static_cast<double>(bits);
  const unsigned unused = 64U - encoding.bits;
  return static_cast<double>(static_cast<std::int64_t>(bits << unused) >> unused);
}

}  // namespace

const Precision& precision_of(DType dtype) {
  static const auto table = [] {
    std::array<Precision, kEncodings.size()> rows;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const Encoding& encoding = kEncodings[i];
      rows[i].highest = highest_of(static_cast<DType>(i));
      rows[i].lowest = encoding.is_signed ? -rows[i].highest : 0;
      if (encoding.exponent_bits == 0) {
        if (encoding.is_signed && encoding.bits < 64) rows[i].lowest -= 1;
        continue;
      }
      const int kept = kept_bits(static_cast<DType>(i));
      rows[i].unit = std::ldexp(1.0, -kept - 1);
      rows[i].smallest = std::ldexp(1.0, 1 - bias_of(encoding) - kept);
    }
    return rows;
  }();
  return table[static_cast<std::size_t>(dtype)];
}

double decode(DType dtype, std::span<const std::byte> bytes, std::uint64_t element) {
  const Encoding& encoding = encoding_of(dtype);
  std::uint64_t bits = 0;
  if (encoding.bits == 4) {
    bits = static_cast<std::uint64_t>(bytes[element / 2]) >> (element % 2 * 4) & 15U;
  } else {
    const std::size_t size = encoding.bits / 8U;
    assert((element + 1) * size <= bytes.size());
    std::memcpy(&bits, bytes.data() + element * size, size);
  }
  return encoding.exponent_bits == 0 ? integer_of(encoding, bits) : float_of(encoding, bits);
}

std::vector<std::byte> encode_integers(DType dtype, std::span<const std::int64_t> values) {
  const Encoding& encoding = encoding_of(dtype);
  assert(encoding.exponent_bits == 0);
  std::vector<std::byte> bytes(bytes_of(dtype, values.size()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto bits = static_cast<std::uint64_t>(values[i]);
    if (encoding.bits == 4) {
      bytes[i / 2] |= static_cast<std::byte>((bits & 15U) << (i % 2 * 4));
    } else {
      std::memcpy(bytes.data() + i * (encoding.bits / 8U), &bits, encoding.bits / 8U);
    }
  }
  return bytes;
}

double cut_to(DType dtype, float value) {
  const Encoding& encoding = encoding_of(dtype);
  assert(encoding.exponent_bits != 0);
  const int kept = kept_bits(dtype);
  if (kept >= 23) return static_cast<double>(value);
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const int exponent = static_cast<int>(bits >> 23U & 0xffU) - 127;
  const int least = 1 - bias_of(encoding);
  if (exponent >= least) {
    const std::uint32_t mask = ~std::uint32_t{0} << static_cast<unsigned>(23 - kept);
    return static_cast<double>(std::bit_cast<float>(bits & mask));
  }
  const int step = least - kept;  // between subnormals
  return std::ldexp(std::trunc(std::ldexp(static_cast<double>(value), -step)), step);
}

}  // namespace fusecalc
