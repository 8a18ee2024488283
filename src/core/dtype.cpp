#include "core/dtype.hpp"

#include <algorithm>
#include <array>
#include <cassert>

#include "core/checked.hpp"

namespace fusecalc {
namespace {

enum class Family : std::uint8_t { kBool, kInteger, kFloat };

struct Row {
  std::string_view name;
  std::uint8_t bits;
  Family family;
  std::uint8_t rank;  // within the family: the higher one wins a promotion
  double highest;
};

constexpr std::array kRows = {
    Row{"f64", 64, Family::kFloat, 9, 0x1.fffffffffffffp1023},
    Row{"f32", 32, Family::kFloat, 8, 0x1.fffffep127},
    Row{"tf32", 32, Family::kFloat, 7, 0x1.ffcp127},
    Row{"f16", 16, Family::kFloat, 5, 65504},
    Row{"bf16", 16, Family::kFloat, 6, 0x1.fep127},
    Row{"fp8_e4m3", 8, Family::kFloat, 3, 448},
    Row{"fp8_e5m2", 8, Family::kFloat, 2, 57344},
    Row{"fp4_e2m1", 4, Family::kFloat, 1, 6},
    Row{"i64", 64, Family::kInteger, 7, 0x1p63},
    Row{"i32", 32, Family::kInteger, 6, 2147483647},
    Row{"i16", 16, Family::kInteger, 5, 32767},
    Row{"i8", 8, Family::kInteger, 4, 127},
    Row{"u8", 8, Family::kInteger, 3, 255},
    Row{"i4", 4, Family::kInteger, 2, 7},
    Row{"u4", 4, Family::kInteger, 1, 15},
    Row{"bool", 8, Family::kBool, 0, 1},
};
static_assert(kRows.size() == static_cast<std::size_t>(DType::kBool) + 1);

constexpr auto kNames = [] {
  std::array<std::string_view, kRows.size()> names{};
  for (std::size_t i = 0; i < kRows.size(); ++i) names[i] = kRows[i].name;
  return names;
}();

const Row& row_of(DType dtype) { return kRows[static_cast<std::size_t>(dtype)]; }

}  // namespace

std::string_view name_of(DType dtype) { return row_of(dtype).name; }

std::optional<DType> dtype_named(std::string_view name) {
  const auto* found = std::ranges::find(kNames, name);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<DType>(found - kNames.begin());
}

std::span<const std::string_view> dtype_names() { return kNames; }

bool is_float(DType dtype) { return row_of(dtype).family == Family::kFloat; }

double highest_of(DType dtype) { return row_of(dtype).highest; }

bool is_fp8(DType dtype) { return dtype == DType::kFp8E4m3 || dtype == DType::kFp8E5m2; }

std::optional<std::uint64_t> checked_bytes_of(DType dtype, std::uint64_t elements) {
  const std::uint64_t bits = row_of(dtype).bits;
  if (bits == 4) return elements / 2 + elements % 2;
  if (!checked_multiply(elements, bits / 8)) return std::nullopt;
  return elements;
}

std::uint64_t bytes_of(DType dtype, std::uint64_t elements) {
  const auto bytes = checked_bytes_of(dtype, elements);
  assert(bytes.has_value());
  return bytes.value_or(0);
}

bool is_packed(DType dtype) { return bytes_of(dtype, 2) == 1; }

DType promote(DType a, DType b) {
  const auto is_half = [](DType t) { return t == DType::kF16 || t == DType::kBf16; };
  if (a != b && is_half(a) && is_half(b)) return DType::kF32;
  const Row& left = row_of(a);
  const Row& right = row_of(b);
  if (left.family != right.family) return left.family > right.family ? a : b;
  const auto is_unsigned = [](DType t) { return t == DType::kU8 || t == DType::kU4; };
  const Row& without_sign = is_unsigned(a) ? left : right;
  if (is_unsigned(a) != is_unsigned(b) && without_sign.bits >= std::max(left.bits, right.bits)) {
    return without_sign.bits == 4 ? DType::kI8 : DType::kI16;
  }
  return left.rank >= right.rank ? a : b;
}

}  // namespace fusecalc
