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
constexpr std::array<std::string_view, 3> kAnnotations = {"$schema", "description", "comment"};

bool is_digit(int c) { return c >= '0' && c <= '9'; }

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

std::uint64_t JsonReader::next_line() {
  skip_space();
  std::uint64_t line = line_;
  std::uint64_t column = column_;
  advance(line, column, {begin_, static_cast<std::size_t>(position_ - begin_)});
  return line;
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
  return std::ranges::find(kAnnotations, key) != kAnnotations.end();
}

bool JsonReader::skip_annotation() {
  const auto* found = std::ranges::find(kAnnotations, key_);
  if (found == kAnnotations.end()) return false;
  Level& level = path_[depth_ - 1];
  level.key = *found;
  level.started = true;
  // An object has no elements: its index tells as flags which annotations were there.
  const std::size_t flag = std::size_t{1} << static_cast<std::size_t>(found - kAnnotations.begin());
  if ((level.index & flag) != 0) fail("duplicate key; keep one");
  level.index |= flag;
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
