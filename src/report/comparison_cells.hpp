#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "compare/comparison.hpp"

namespace fusecalc {

inline constexpr double kPicosecondsInMicrosecond = 1e6;

// A figure that something is taken from.
std::optional<std::int64_t> as_signed(const std::optional<std::uint64_t>& value);

// The parts of a finding as people read them.
std::string value_in_words(const Finding& finding, const std::optional<std::uint64_t>& value);
std::string delta_in_words(const Finding& finding);    // "+1.024 kB"
std::string share_in_words(const Finding& finding);    // "+33.33 %"; "from 0"
std::string verdict_in_words(const Finding& finding);  // "worse", "split, better"

// "auto of splade_head: bytes 74.19 MB -> 1.074 GB (+1348 %): h is now written (1 GB)".
std::string in_words(const Finding& finding);

// "failed: 2 worse, 1 removed; passed: 1 removed, 14 same".
std::string summary_of(const Comparison& comparison);

}  // namespace fusecalc
