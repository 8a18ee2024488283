#include "report/html/text_patterns.hpp"

#include <charconv>
#include <cstddef>
#include <utility>

namespace fusecalc {
namespace {

// Scripts have numbers of more digits rounded.
constexpr std::size_t kMostDigits = 15;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

struct PatternParts {
  std::string pattern;
  std::vector<std::string_view> numbers;
};

// Digits that a number would not give back stay in the pattern: "007".
PatternParts split(std::string_view text) {
  PatternParts parts;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at;
    while (end < text.size() && is_digit(text[end])) ++end;
    const std::string_view digits = text.substr(at, end - at);
    if (digits.empty()) {
      parts.pattern += text[at++];
      continue;
    }
    const bool exact = digits == "0" || (digits[0] != '0' && digits.size() <= kMostDigits);
    if (exact) parts.numbers.push_back(digits);
    parts.pattern += exact ? std::string_view("\n") : digits;
    at = end;
  }
  return parts;
}

std::uint64_t number_of(std::string_view digits) {
  std::uint64_t number = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return number;
}

}  // namespace

void TextPatterns::count(std::string_view text) {
  PatternParts parts = split(text);
  if (!parts.numbers.empty()) ++patterns_[std::move(parts.pattern)].texts;
}

void TextPatterns::write(JsonWriter& json, std::string_view text) {
  const PatternParts parts = split(text);
  const auto pattern = patterns_.find(parts.pattern);
  const bool shared = pattern != patterns_.end() && pattern->second.texts > 1;
  if (!shared) {
    json.value(text);
    return;
  }
  std::uint64_t& place = pattern->second.place;
  const bool first = place == kNotWritten;
  // Both have a bracket or a quote at each end.
  std::size_t length = std::to_string(first ? written_.size() : place).size();
  for (const std::string_view digits : parts.numbers) length += 1 + digits.size();
  if (length >= text.size()) {
    json.value(text);
    return;
  }
  if (first) {
    place = written_.size();
    written_.push_back(parts.pattern);
  }
  json.begin_array().value(place);
  for (const std::string_view digits : parts.numbers) json.value(number_of(digits));
  json.end();
}

void TextPatterns::write_patterns(JsonWriter& json) const {
  json.key("patterns").begin_array();
  for (const std::string& pattern : written_) json.value(pattern);
  json.end();
}

}  // namespace fusecalc
