#include "core/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace fusecalc {
namespace {

constexpr std::pair<char32_t, char32_t> kUnsafe[] = {
    {0x00, 0x1F},        // C0: ESC, line breaks, tabs
    {0x7F, 0x9F},        // DEL and C1, among them the one-character form of ESC [
    {0xAD, 0xAD},        // soft hyphen: invisible
    {0x61C, 0x61C},      // Arabic letter mark: direction
    {0x180E, 0x180E},    // Mongolian vowel separator: invisible
    {0x200B, 0x200F},    // spaces without width, joiners, direction marks
    {0x2028, 0x202E},    // line and paragraph separators, direction embeddings and overrides
    {0x2060, 0x206F},    // invisible operators, direction isolates
    {0xFDD0, 0xFDEF},    // not characters
    {0xFEFF, 0xFEFF},    // byte order mark
    {0xFFF9, 0xFFFB},    // interlinear annotations
    {0xE0000, 0xE0FFF},  // tags: invisible text
};

// `special` characters get a backslash before them.
std::string escaped(std::string_view text, std::size_t limit, std::string_view special) {
  std::string out;
  while (!text.empty()) {
    if (out.size() >= limit) return out + "...";
    const std::size_t length = utf8_sequence_length(text);
    if (length == 0) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0]));
    } else if (const char32_t code = code_point(text.substr(0, length)); is_unsafe(code)) {
      const auto number = static_cast<unsigned>(code);
      out += number > 0xFFFF ? fmt::format("\\U{:08x}", number) : fmt::format("\\u{:04x}", number);
    } else {
      if (special.find(text[0]) != std::string_view::npos) out += '\\';
      out += text.substr(0, length);
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out;
}

}  // namespace

bool is_unsafe(char32_t code) {
  if ((code & 0xFFFEU) == 0xFFFE) return true;  // the last two of every plane are no characters
  return std::ranges::any_of(
      kUnsafe, [&](const auto& range) { return code >= range.first && code <= range.second; });
}

char32_t code_point(std::string_view sequence) {
  constexpr unsigned kLeadBits[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
  char32_t code = static_cast<unsigned char>(sequence[0]) & kLeadBits[sequence.size()];
  for (const char c : sequence.substr(1)) {
    code = code << 6U | (static_cast<unsigned char>(c) & 0x3FU);
  }
  return code;
}

std::size_t utf8_sequence_length(std::string_view text) {
  if (text.empty()) return 0;
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto continues = [&](std::size_t i, unsigned low = 0x80, unsigned high = 0xBF) {
    return i < text.size() && byte(i) >= low && byte(i) <= high;
  };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return continues(1) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    // No overlong forms, no surrogates.
    const bool second = continues(1, lead == 0xE0 ? 0xA0 : 0x80, lead == 0xED ? 0x9F : 0xBF);
    return second && continues(2) ? 3 : 0;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    const bool second = continues(1, lead == 0xF0 ? 0x90 : 0x80, lead == 0xF4 ? 0x8F : 0xBF);
    return second && continues(2) && continues(3) ? 4 : 0;
  }
  return 0;
}

std::string printable(std::string_view text, std::size_t limit) { return escaped(text, limit, ""); }

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kLongest = 60;
  return '"' + escaped(text, kLongest, "\"\\") + '"';
}

std::string pointer_token(std::string_view key) {
  std::string token;
  for (const char c : key) {
    if (c == '~') {
      token += "~0";
    } else if (c == '/') {
      token += "~1";
    } else {
      token += c;
    }
  }
  return token;
}

std::string listed(std::span<const std::string_view> words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() ? " or " : ", ";
    text += words[i];
  }
  return text;
}

std::size_t display_width(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  }));
}

}  // namespace fusecalc
