#pragma once

#include <cstdint>

namespace fusecalc {

// How many groups of `b` hold `a` things.
constexpr std::uint64_t ceil_div(std::uint64_t a, std::uint64_t b) { return (a + b - 1) / b; }

}  // namespace fusecalc
