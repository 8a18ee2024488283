#include "codegen/text.hpp"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <cmath>
#include <cstdint>

namespace fusecalc {
namespace {

constexpr std::array<std::string_view, 5> kComputeNames = {"bool", "i32", "i64", "f32", "f64"};

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

}  // namespace

ComputeType compute_type(DType dtype) {
  if (dtype == DType::kF64) return ComputeType::kF64;
  if (is_float(dtype)) return ComputeType::kF32;
  if (dtype == DType::kI64) return ComputeType::kI64;
  return dtype == DType::kBool ? ComputeType::kBool : ComputeType::kI32;
}

std::string_view name_of(ComputeType type) { return kComputeNames[static_cast<std::size_t>(type)]; }

bool is_float(ComputeType type) { return type >= ComputeType::kF32; }

std::string_view stored_type(DType dtype) {
  return dtype == DType::kTf32 ? name_of(DType::kF32) : name_of(dtype);
}

namespace {

// Stored as an integer, a number loses its fraction, and stops at the ends of the type's range.
std::string integer_literal(double number, ComputeType type) {
  if (std::isnan(number)) return literal(0, type);
  const bool wide = type == ComputeType::kI64;
  const double lowest = wide ? -0x1p63 : -0x1p31;
  const double past_highest = -lowest;
  // The lowest of a type has no literal: the minus sign applies to a number past the highest.
  if (number <= lowest) return fmt::format("lowest<{}>()", name_of(type));
  if (number >= past_highest) return fmt::format("highest<{}>()", name_of(type));
  const auto whole = static_cast<std::int64_t>(number);
  const std::string text = fmt::format("{}{}", whole, wide ? "ll" : "");
  return whole < 0 ? fmt::format("({})", text) : text;
}

}  // namespace

std::string literal(double number, ComputeType type) {
  if (type == ComputeType::kBool) return number != 0 ? "true" : "false";
  if (!is_float(type)) return integer_literal(number, type);
  const std::string_view name = name_of(type);
  if (std::isnan(number)) return fmt::format("{}(__longlong_as_double(-1ll))", name);
  // What rounds to 2^128 or more is infinite in 32 bits.
  constexpr double kInfiniteInSingle = 0x1.ffffffp127;
  if (std::isinf(number) || (type == ComputeType::kF32 && std::abs(number) >= kInfiniteInSingle)) {
    return fmt::format("{}<{}>()", number < 0 ? "lowest" : "highest", name);
  }
  // Without a fraction -0 would be the integer 0.
  if (number == 0 && std::signbit(number)) return fmt::format("{}(-0.0)", name);
  return fmt::format("{}({:.17g})", name, number);
}

std::string substitute(std::string_view expression,
                       const std::function<std::string(std::string_view)>& replace) {
  std::string result;
  for (std::size_t i = 0; i < expression.size();) {
    std::size_t end = i;
    if (expression[i] == '$') ++end;
    while (end < expression.size() && is_word(expression[end])) ++end;
    if (end == i) {
      result += expression[i++];
      continue;
    }
    const std::string_view word = expression.substr(i, end - i);
    const bool member = i > 0 && expression[i - 1] == '.';
    const bool candidate = !member && (word.size() == 1 || word[0] == '$');
    const std::string replaced = candidate ? replace(word) : std::string();
    result += replaced.empty() ? std::string(word) : replaced;
    i = end;
  }
  return result;
}

}  // namespace fusecalc
