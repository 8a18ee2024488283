// The error messages of JsonReader.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "core/error.hpp"
#include "core/text.hpp"
#include "json/reader.hpp"

namespace fusecalc {
namespace {

// Common mistakes, and how to fix them.
struct Slip {
  std::string_view found;
  std::string_view fix;
};
constexpr Slip kSlips[] = {
    {"'", "strings take double quotes"},
    {"\u2018", "strings take straight double quotes"},
    {"\u2019", "strings take straight double quotes"},
    {"\u201C", "strings take straight double quotes"},
    {"\u201D", "strings take straight double quotes"},
    {"\u00A0", "a no-break space; use plain spaces"},
    {"\uFEFF", "a byte order mark may only come first"},
    {{"\0", 1}, "save the file as UTF-8"},
    {"/", "JSON has no comments"},
    {"#", "JSON has no comments"},
    {"+", "numbers take no plus sign"},
    {".", "write a digit before the point"},
    {"NaN", "NaN and Infinity are not JSON"},
    {"nan", "NaN and Infinity are not JSON"},
    {"Infinity", "NaN and Infinity are not JSON"},
    {"inf", "NaN and Infinity are not JSON"},
    {"True", "write true"},
    {"False", "write false"},
    {"None", "write null"},
};

std::string_view describe(JsonKind kind) {
  switch (kind) {
    case JsonKind::kObject: return "an object";
    case JsonKind::kArray: return "an array";
    case JsonKind::kString: return "a string";
    case JsonKind::kNumber: return "a number";
    case JsonKind::kBoolean: return "a boolean";
    case JsonKind::kNull: return "null";
  }
  return "";
}

}  // namespace

void JsonReader::advance(std::uint64_t& line, std::uint64_t& column, std::string_view text) {
  const auto lines = static_cast<std::uint64_t>(std::count(text.begin(), text.end(), '\n'));
  if (lines > 0) {
    line += lines;
    column = 1;
    text.remove_prefix(text.rfind('\n') + 1);
  }
  column += display_width(text);
}

void JsonReader::read_literal() {
  read_word();
  if (token_ != "true" && token_ != "false" && token_ != "null") fail_found("a value", token_);
}

void JsonReader::read_word() {
  constexpr std::size_t kLongestWord = 20;
  token_.clear();
  int c = peek_byte();
  while ((std::isalnum(c) != 0 || c == '_') && token_.size() < kLongestWord) {
    token_ += *position_++;
    c = peek_byte();
  }
}

std::string JsonReader::pointer() const {
  std::string pointer;
  for (std::size_t i = 0; i < depth_; ++i) {
    const Level& level = path_[i];
    // A container that was entered but has no key or element yet is itself the location.
    if (!level.started) break;
    pointer += '/';
    pointer +=
        level.kind == JsonKind::kArray ? std::to_string(level.index) : pointer_token(level.key);
  }
  return pointer;
}

void JsonReader::fail(std::string_view message) const {
  const std::string place = printable(pointer());
  throw Error(Fault::kBadInput,
              fmt::format("{}: {}{}{}", name(), place, place.empty() ? "" : ": ", message));
}

void JsonReader::fail_type(std::string_view expected) {
  const JsonKind kind = peek();
  if (kind == JsonKind::kBoolean || kind == JsonKind::kNull) read_literal();
  fail(fmt::format("must be {}, not {}", expected, describe(kind)));
}

void JsonReader::fail_type(JsonKind expected) { fail_type(describe(expected)); }

void JsonReader::fail_syntax(std::string_view message, std::uint64_t back) {
  std::uint64_t line = line_;
  std::uint64_t column = column_;
  advance(line, column, {begin_, static_cast<std::size_t>(position_ - begin_)});
  throw Error(Fault::kBadInput, fmt::format("{}: line {}, column {}: not JSON: {}", name(), line,
                                            column - back, message));
}

void JsonReader::fail_expected(std::string_view expected) {
  const int c = peek_byte();
  if (c < 0) {
    const bool empty = line_ == 1 && column_ == 1 && begin_ == position_ && depth_ == 0;
    fail_syntax(empty ? "the document is empty"
                      : fmt::format("the text ends where {} should be", expected));
  }
  if (std::isalpha(c) != 0) {
    read_word();
    fail_found(expected, token_);
  }
  fail_found(expected, read_character());
}

void JsonReader::fail_found(std::string_view expected, std::string_view found) {
  const bool bad_byte = utf8_sequence_length(found) == 0;
  const auto* slip = std::ranges::find(kSlips, found, &Slip::found);
  const std::string_view fix = bad_byte                   ? "save the file as UTF-8"
                               : slip == std::end(kSlips) ? ""
                                                          : slip->fix;
  const std::string shown =
      found == "\"" ? R"('"')"
      : bad_byte    ? fmt::format("the byte 0x{:02x}", static_cast<unsigned char>(found.front()))
                    : in_quotes(found);
  fail_syntax(fmt::format("expected {}, found {}{}{}{}", expected, shown, fix.empty() ? "" : " (",
                          fix, fix.empty() ? "" : ")"),
              display_width(found));
}

}  // namespace fusecalc
