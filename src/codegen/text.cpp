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

std::string literal(double number, ComputeType type) {
  if (type == ComputeType::kBool) return number != 0 ? "true" : "false";
  const std::string_view name = name_of(type);
  if (std::isinf(number)) {
    return fmt::format("{}<{}>()", number < 0 ? "lowest" : "highest", name);
  }
  if (!is_float(type)) {
    const auto whole = static_cast<std::int64_t>(number);
    const std::string text = fmt::format("{}{}", whole, type == ComputeType::kI64 ? "ll" : "");
    return whole < 0 ? fmt::format("({})", text) : text;
  }
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
