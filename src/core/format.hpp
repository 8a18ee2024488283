#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace fusecalc {

// 999 B, 1.000 kB, 8.796 GB: four digits, decimal units.
std::string human_bytes(std::uint64_t bytes);

// 3.700 us, 1.281 ms, 2.500 s: four digits.
std::string human_time(double microseconds);

// 1234567 becomes 1,234,567.
std::string grouped_digits(std::uint64_t value);

// 1 kernel, 1,234 kernels.
std::string plural(std::uint64_t count, std::string_view noun);

// The shortest decimal that reads back as the same (finite) double, as Python's repr writes it:
// always with a point or an exponent, the latter below 1e-4 and from 1e16.
std::string shortest_decimal(double value);

}  // namespace fusecalc
