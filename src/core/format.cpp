#include "core/format.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <string_view>

namespace fusecalc {

std::string human_bytes(std::uint64_t bytes) {
  if (bytes < 1000) return fmt::format("{} B", bytes);
  constexpr std::array<std::string_view, 6> kUnits = {"kB", "MB", "GB", "TB", "PB", "EB"};
  double value = static_cast<double>(bytes) / 1e3;
  std::size_t unit = 0;
  // 999.95 and more would print as 1000.0 of the smaller unit.
  while (value >= 999.95 && unit + 1 < kUnits.size()) {
    value /= 1e3;
    ++unit;
  }
  const int digits = value < 9.9995 ? 3 : value < 99.995 ? 2 : 1;
  return fmt::format("{:.{}f} {}", value, digits, kUnits[unit]);
}

std::string human_time(double microseconds) {
  struct TimeUnit {
    double microseconds;
    std::string_view name;
  };
  constexpr std::array kUnits = {TimeUnit{1e6, "s"}, TimeUnit{1e3, "ms"}, TimeUnit{1, "us"}};
  const auto* unit = std::ranges::find_if(
      kUnits, [&](const TimeUnit& each) { return microseconds >= each.microseconds * 0.99995; });
  if (unit == kUnits.end()) --unit;
  const double value = microseconds / unit->microseconds;
  const int decimals = value < 9.9995 ? 3 : value < 99.995 ? 2 : value < 999.95 ? 1 : 0;
  return fmt::format("{:.{}f} {}", value, decimals, unit->name);
}

std::string grouped_digits(std::uint64_t value) {
  std::string digits = std::to_string(value);
  for (auto i = static_cast<std::ptrdiff_t>(digits.size()) - 3; i > 0; i -= 3) {
    digits.insert(static_cast<std::size_t>(i), ",");
  }
  return digits;
}

std::string plural(std::uint64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", grouped_digits(count), noun, count == 1 ? "" : "s");
}

std::string shortest_decimal(double value) {
  const double size = std::abs(value);
  const bool plain = size == 0 || (size >= 1e-4 && size < 1e16);
  std::array<char, 32> text{};
  const auto printed =
      std::to_chars(text.data(), text.data() + text.size(), value,
                    plain ? std::chars_format::fixed : std::chars_format::scientific);
  std::string decimal(text.data(), printed.ptr);
  if (decimal.find_first_of(".e") == std::string::npos) decimal += ".0";
  return decimal;
}

}  // namespace fusecalc
