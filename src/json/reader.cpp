#include "json/reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <utility>

#include "core/checked.hpp"
#include "core/error.hpp"
#include "core/suggest.hpp"
#include "core/text.hpp"

namespace fusecalc {
namespace {

constexpr std::size_t kLongestNumber = 1000;
// Strings are held in memory as a whole; they are names.
constexpr std::size_t kLongestString = std::size_t{1} << 20U;

// Bytes that need no handling in a string: ASCII except controls, the quote and the backslash.
constexpr auto kPlainInString = [] {
  std::array<bool, 256> plain{};
  for (std::size_t c = 0x20; c < 0x80; ++c) plain[c] = c != '"' && c != '\\';
  return plain;
}();

bool is_digit(int c) { return c >= '0' && c <= '9'; }

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

JsonReader::JsonReader(ByteSource source) : source_(std::move(source)) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (peek_byte() != static_cast<unsigned char>(kByteOrderMark[0])) return;
  const std::string character = read_character();
  if (character != kByteOrderMark) fail_found("a value", character);
  begin_ = position_;
  column_ = 1;
}

bool JsonReader::fill() {
  advance(line_, column_, {begin_, static_cast<std::size_t>(position_ - begin_)});
  const std::string_view chunk = source_.next();
  begin_ = position_ = chunk.data();
  end_ = begin_ + chunk.size();
  return !chunk.empty();
}

int JsonReader::skip_space() {
  int c = peek_byte();
  while (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
    ++position_;
    c = peek_byte();
  }
  return c;
}

void JsonReader::take(char c, std::string_view expected) {
  if (skip_space() != static_cast<unsigned char>(c)) fail_expected(expected);
  ++position_;
}

JsonKind JsonReader::peek() {
  const int c = skip_space();
  switch (c) {
    case '{': return JsonKind::kObject;
    case '[': return JsonKind::kArray;
    case '"': return JsonKind::kString;
    case 't':
    case 'f': return JsonKind::kBoolean;
    case 'n': return JsonKind::kNull;
    default: break;
  }
  if (c == '-' || is_digit(c)) return JsonKind::kNumber;
  fail_expected("a value");
}

void JsonReader::enter(JsonKind kind) {
  if (peek() != kind) fail_type(kind);
  if (depth_ == kDeepest) {
    fail(fmt::format("must not be nested more than {} levels deep", kDeepest));
  }
  ++position_;
  Level& level = path_[depth_++];
  level.kind = kind;
  level.started = false;
  level.index = 0;
}

bool JsonReader::next_key() {
  Level& level = path_[depth_ - 1];
  int c = skip_space();
  if (c == '}') {
    ++position_;
    --depth_;
    return false;
  }
  if (level.started) {
    take(',', R"("," or "}")");
    c = skip_space();
    if (c == '}') fail_syntax(R"(found "}" after a comma; remove the comma)");
  }
  if (c != '"') {
    fail_expected(level.started ? "a key in double quotes" : R"(a key in double quotes or "}")");
  }
  key_ = read_string_token();
  // The value may refill the chunk that a short key lies in, and white space may do so even here.
  if (position_ == end_ || *position_ != ':') {
    if (key_.data() != token_.data()) token_.assign(key_);
    key_ = token_;
    take(':', R"(":" after the key)");
  } else {
    ++position_;
  }
  return true;
}

bool JsonReader::next_element() {
  Level& level = path_[depth_ - 1];
  int c = skip_space();
  if (c == ']') {
    ++position_;
    --depth_;
    return false;
  }
  if (level.started) {
    take(',', R"("," or "]")");
    c = skip_space();
    if (c == ']') fail_syntax(R"(found "]" after a comma; remove the comma)");
    ++level.index;
  }
  level.started = true;
  return true;
}

std::size_t JsonReader::match_key(std::span<const std::string_view> fields, std::uint64_t seen) {
  assert(fields.size() <= 64);
  Level& level = path_[depth_ - 1];
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (fields[i] != key_) continue;
    level.key = fields[i];
    level.started = true;
    if ((seen >> i & 1U) != 0) fail("duplicate key; keep one");
    return i;
  }
  level.owned_key.assign(key_);
  level.key = level.owned_key;
  level.started = true;
  std::string known = did_you_mean(key_, fields);
  if (known.empty()) known = " (known: " + listed(fields) + ")";
  fail("unknown key " + in_quotes(key_) + known);
}

bool JsonReader::is_annotation(std::string_view key) {
  return key == "$schema" || key == "description" || key == "comment";
}

bool JsonReader::skip_annotation() {
  if (!is_annotation(key_)) return false;
  Level& level = path_[depth_ - 1];
  level.owned_key.assign(key_);
  level.key = level.owned_key;
  level.started = true;
  skip_value();
  return true;
}

const std::string& JsonReader::own_key(const std::unordered_set<std::string>& seen) {
  Level& level = path_[depth_ - 1];
  level.owned_key.assign(key_);
  level.key = level.owned_key;
  level.started = true;
  if (seen.contains(level.owned_key)) fail("duplicate key; keep one");
  return level.owned_key;
}

std::string JsonReader::read_string() {
  if (peek() != JsonKind::kString) fail_type("a string");
  return std::string(read_string_token());
}

void JsonReader::skip_string() {
  if (peek() != JsonKind::kString) fail_type("a string");
  read_string_token();
}

void JsonReader::skip_value() {
  const JsonKind kind = peek();
  switch (kind) {
    case JsonKind::kObject: return read_members([&](const std::string&) { skip_value(); });
    case JsonKind::kArray: return read_array([&](std::size_t) { skip_value(); });
    case JsonKind::kString: return skip_string();
    case JsonKind::kNumber: read_number(); return;
    case JsonKind::kBoolean:
    case JsonKind::kNull: read_literal(); return;
  }
}

bool JsonReader::read_boolean() {
  if (peek() != JsonKind::kBoolean) fail_type("true or false");
  read_literal();
  return token_ == "true";
}

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
  unsigned code = 0;
  for (int i = 0; i < 4; ++i) {
    const int c = peek_in_string();
    const int lower = c | 0x20;
    if (!is_digit(c) && (lower < 'a' || lower > 'f')) fail_syntax("\\u takes four hex digits");
    code = code * 16 + static_cast<unsigned>(is_digit(c) ? c - '0' : lower - 'a' + 10);
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

void JsonReader::append_digits(std::string_view what) {
  if (!is_digit(peek_byte())) fail_expected(what);
  while (is_digit(peek_byte())) {
    token_ += *position_++;
    if (token_.size() > kLongestNumber) fail("must not be a number of over 1000 characters");
  }
}

JsonNumber JsonReader::read_number() {
  if (peek() != JsonKind::kNumber) fail_type("a number");
  token_.clear();
  const auto take_any = [&](std::string_view choice) {
    const int c = peek_byte();
    if (c < 0 || choice.find(static_cast<char>(c)) == std::string_view::npos) return false;
    token_ += *position_++;
    return true;
  };
  JsonNumber number;
  number.negative = take_any("-");
  if (take_any("0")) {
    if (is_digit(peek_byte())) fail_syntax("a number must not start with 0; remove it");
  } else {
    append_digits("a digit");
  }
  number.integer = true;
  if (take_any(".")) {
    number.integer = false;
    append_digits("a digit after the point");
  }
  if (take_any("eE")) {
    number.integer = false;
    take_any("+-");
    append_digits("a digit in the exponent");
  }
  number.text = token_;
  number.fits = number.integer;
  if (number.integer) {
    for (const char c : number.text.substr(number.negative ? 1 : 0)) {
      number.fits = number.fits && checked_multiply(number.magnitude, 10) &&
                    checked_add(number.magnitude, static_cast<std::uint64_t>(c - '0'));
    }
  }
  return number;
}

std::uint64_t JsonReader::read_count(std::string_view what) {
  // Fast path: up to 18 digits that end within the chunk.
  skip_space();
  constexpr std::ptrdiff_t kShort = 18;
  if (end_ - position_ > kShort && *position_ >= '1' && *position_ <= '9') {
    const char* p = position_;
    std::uint64_t value = 0;
    while (p != position_ + kShort && is_digit(*p)) {
      value = value * 10 + static_cast<std::uint64_t>(*p++ - '0');
    }
    if (*p == ',' || *p == '}' || *p == ' ' || *p == '\n') {
      position_ = p;
      return value;
    }
  }
  if (peek() != JsonKind::kNumber) fail_type(what);
  const JsonNumber number = read_number();
  if (!number.integer) {
    fail(fmt::format("must be {} in plain digits, not {}", what, printable(number.text, 40)));
  }
  const bool zero = number.fits && number.magnitude == 0;
  if (number.negative && !zero) {
    fail(fmt::format("must not be negative, but is {}", printable(number.text, 40)));
  }
  if (!number.fits) {
    fail(fmt::format("{} is too large (the maximum is {})", printable(number.text, 40), kMaxCount));
  }
  return number.magnitude;
}

void JsonReader::expect_end() {
  if (skip_space() >= 0) fail_expected("the end of the document");
}

}  // namespace fusecalc
