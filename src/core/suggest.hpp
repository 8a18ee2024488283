#pragma once

#include <span>
#include <string>
#include <string_view>

namespace fusecalc {

// The candidate that a misspelt `word` most likely meant, or an empty view if none is close.
std::string_view nearest(std::string_view word, std::span<const std::string_view> candidates);

// ` (did you mean "x"?)`, or nothing.
std::string did_you_mean(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace fusecalc
