// Strings and their escapes.

#include <fmt/format.h>

#include <array>

#include "core/error.hpp"
#include "core/text.hpp"
#include "json/reader.hpp"

namespace fusecalc {
namespace {

// Strings are held in memory as a whole; they are names.
constexpr std::size_t kLongestString = std::size_t{1} << 20U;

// Bytes that need no handling in a string: ASCII except controls, the quote and the backslash.
constexpr auto kPlainInString = [] {
  std::array<bool, 256> plain{};
  for (std::size_t c = 0x20; c < 0x80; ++c) plain[c] = c != '"' && c != '\\';
  return plain;
}();

void append_utf8(std::string& out, unsigned code) {
  const auto byte = [&](unsigned value) { out += static_cast<char>(value); };
  const auto tail = [&](unsigned shift) { byte(0x80U | ((code >> shift) & 0x3FU)); };
  if (code < 0x80) {
    byte(code);
  } else if (code < 0x800) {
    byte(0xC0U | (code >> 6U));
    tail(0);
  } else if (code < 0x10000) {
    byte(0xE0U | (code >> 12U));
    tail(6);
    tail(0);
  } else {
    byte(0xF0U | (code >> 18U));
    tail(12);
    tail(6);
    tail(0);
  }
}

}  // namespace

std::string_view JsonReader::read_string_token() {
  ++position_;  // the opening quote
  const char* start = position_;
  const char* p = start;
  while (p != end_ && kPlainInString[static_cast<unsigned char>(*p)]) ++p;
  if (static_cast<std::size_t>(p - start) > kLongestString) fail_long_string();
  if (p != end_ && *p == '"') {
    position_ = p + 1;
    return {start, static_cast<std::size_t>(p - start)};
  }
  token_.assign(start, p);
  position_ = p;
  read_rest_of_string();
  return token_;
}

void JsonReader::fail_long_string() {
  std::uint64_t line = line_;
  std::uint64_t column = column_;
  advance(line, column, {begin_, static_cast<std::size_t>(position_ - begin_)});
  throw Error(Fault::kBadInput, fmt::format("{}: line {}: a string of over {} bytes; shorten it",
                                            name(), line, kLongestString));
}

int JsonReader::peek_in_string() {
  const int c = peek_byte();
  if (c < 0) fail_syntax("the text ends inside a string");
  return c;
}

void JsonReader::read_rest_of_string() {
  while (true) {
    const int c = peek_in_string();
    if (c == '"') break;
    if (token_.size() >= kLongestString) fail_long_string();
    if (c == '\\') {
      read_escape();
    } else if (c == '\n') {
      fail_syntax(R"(the line ends inside a string (close it, or write \n))");
    } else if (c < 0x20) {
      fail_syntax(fmt::format("control character in a string (write it as \\u{:04x})", c));
    } else if (c >= 0x80) {
      read_multibyte();
    } else {
      token_ += *position_++;
    }
  }
  ++position_;
}

void JsonReader::read_escape() {
  ++position_;
  constexpr std::string_view kLetters = "\"\\/bfnrt";
  constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
  const int c = peek_in_string();
  const std::size_t letter = kLetters.find(static_cast<char>(c));
  if (letter != std::string_view::npos) {
    token_ += kMeanings[letter];
    ++position_;
    return;
  }
  if (c != 'u')
    fail_syntax(R"(unknown escape in a string (known: \" \\ \/ \b \f \n \r \t \uXXXX))");
  ++position_;
  unsigned code = read_hex4();
  constexpr std::uint64_t kColumns = 6;  // of \uXXXX
  constexpr std::string_view kHalf =
      "half of a surrogate pair in a string (write both, or the character)";
  const auto is_high = [](unsigned unit) { return unit >= 0xD800 && unit < 0xDC00; };
  const auto is_low = [](unsigned unit) { return unit >= 0xDC00 && unit < 0xE000; };
  if (is_high(code)) {
    std::uint64_t read = kColumns;
    for (const char expected : {'\\', 'u'}) {
      if (peek_in_string() != expected) fail_syntax(kHalf, read);
      ++position_;
      ++read;
    }
    const unsigned low = read_hex4();
    if (!is_low(low)) fail_syntax(kHalf, 2 * kColumns);
    code = 0x10000 + ((code - 0xD800) << 10U) + (low - 0xDC00);
  } else if (is_low(code)) {
    fail_syntax(kHalf, kColumns);
  }
  append_utf8(token_, code);
}

unsigned JsonReader::read_hex4() {
  constexpr std::string_view kDigits = "0123456789abcdefABCDEF";
  unsigned code = 0;
  for (int i = 0; i < 4; ++i) {
    const std::size_t digit = kDigits.find(static_cast<char>(peek_in_string()));
    if (digit == std::string_view::npos) fail_syntax("\\u takes four hex digits");
    code = code * 16 + static_cast<unsigned>(digit < 16 ? digit : digit - 6);
    ++position_;
  }
  return code;
}

void JsonReader::read_multibyte() {
  const std::string character = read_character();
  if (utf8_sequence_length(character) == 0) {
    peek_in_string();
    fail_syntax("invalid UTF-8 in a string (save the file as UTF-8)", display_width(character));
  }
  token_ += character;
}

std::string JsonReader::read_character() {
  std::string character;
  do {
    character += *position_++;
  } while (utf8_sequence_length(character) == 0 && character.size() < 4 &&
           (peek_byte() & 0xC0) == 0x80);
  if (utf8_sequence_length(character) == 0) character.resize(1);
  return character;
}

}  // namespace fusecalc
