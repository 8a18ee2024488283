#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "report/formats.hpp"

namespace fusecalc {

inline constexpr std::string_view kBold = "1";
inline constexpr std::string_view kFaint = "2";

// Text in an ANSI colour, if the style has colours and one is given.
std::string coloured(std::string_view text, std::string_view code, const Style& style);

// "+0.02 %", or "" for nothing.
std::string signed_percent(const std::optional<double>& percent);

// 1.23 s, 4.56 ms, 78.9 us.
std::string human_seconds(double seconds);

}  // namespace fusecalc
