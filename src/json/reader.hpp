#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>

#include "json/source.hpp"

namespace fusecalc {

enum class JsonKind { kObject, kArray, kString, kNumber, kBoolean, kNull };

// A number as written, so that nothing is rounded unless the caller converts it to a double.
struct JsonNumber {
  std::string_view text;  // valid until the next read
  bool integer = false;   // no fraction, no exponent
  bool negative = false;
  bool fits = false;            // an integer whose magnitude is at most kMaxCount
  std::uint64_t magnitude = 0;  // if it fits
};

// What read_count() says that it wants where a document counts elements.
inline constexpr std::string_view kElementCount = "a whole number of elements";

// Reads one JSON document (RFC 8259, strictly) front to back, driven by the caller, who knows
// what may come next. It holds one chunk and the current path, so its memory depends neither on the
// length nor on the depth of the document; what the caller did not request is refused, not skipped,
// so that a hostile document is rejected at its first deviation.
//
// Every fault is an Error with the document and the location: line and column if the text is not
// JSON, a JSON pointer if it is JSON but not what was requested.
class JsonReader {
 public:
  explicit JsonReader(ByteSource source);

  // The kind of the next value, which stays unread.
  JsonKind peek();

  // Reads an object whose keys are known: calls on_field(index into fields) with the reader at each
  // key's value. Unknown and duplicate keys are refused; those for people and editors
  // (is_annotation) are skipped. Returns the fields seen as a bit set.
  template <typename OnField>
  std::uint64_t read_object(std::span<const std::string_view> fields, OnField on_field) {
    enter(JsonKind::kObject);
    std::uint64_t seen = 0;
    while (next_key()) {
      if (skip_annotation()) continue;
      const std::size_t field = match_key(fields, seen);
      seen |= std::uint64_t{1} << field;
      on_field(field);
    }
    return seen;
  }

  // Reads an object with free keys: calls on_member(key). Duplicate keys are refused.
  template <typename OnMember>
  void read_members(OnMember on_member) {
    enter(JsonKind::kObject);
    std::unordered_set<std::string> seen;
    while (next_key()) on_member(*seen.insert(own_key(seen)).first);
  }

  // Reads an array: calls on_element(index) with the reader at each element.
  template <typename OnElement>
  void read_array(OnElement on_element) {
    enter(JsonKind::kArray);
    while (next_element()) on_element(path_[depth_ - 1].index);
  }

  // Whether a key is one that any object of a document may have: $schema, description, comment.
  static bool is_annotation(std::string_view key);

  std::string read_string();
  void skip_string();
  // A whole value of any kind, for documents that may hold more than the caller wants to know.
  void skip_value();
  bool read_boolean();
  JsonNumber read_number();
  // A whole number from 0 to kMaxCount; `what` names it in the message.
  std::uint64_t read_count(std::string_view what);

  // Refuses anything but white space after the document.
  void expect_end();

  // Throws an Error at the value being read, or just read.
  [[noreturn]] void fail(std::string_view message) const;
  // The same for a value of the wrong kind: "must be a string, not null".
  [[noreturn]] void fail_type(std::string_view expected);
  [[noreturn]] void fail_type(JsonKind expected);

  const std::string& name() const { return source_.name(); }
  // The line of the next value, from 1.
  std::uint64_t next_line();
  // The JSON pointer of the value being read.
  std::string pointer() const;

 private:
  // One level of the path to the current position.
  struct Level {
    JsonKind kind = JsonKind::kArray;
    bool started = false;   // a first key or element was reached
    std::size_t index = 0;  // array: of the element
    std::string_view key;   // object: points into a field table or into owned_key
    std::string owned_key;
  };
  // More than the callers' formats need, independent of the document.
  static constexpr std::size_t kDeepest = 64;

  void enter(JsonKind kind);
  bool next_key();
  bool next_element();
  bool skip_annotation();
  std::size_t match_key(std::span<const std::string_view> fields, std::uint64_t seen);
  const std::string& own_key(const std::unordered_set<std::string>& seen);

  bool fill();
  // Moves (line, column), both from 1, past `text`; a column is a code point.
  static void advance(std::uint64_t& line, std::uint64_t& column, std::string_view text);
  int peek_byte() {
    return position_ != end_ || fill() ? static_cast<unsigned char>(*position_) : -1;
  }
  int skip_space();
  void take(char c, std::string_view expected);
  void append_digits(std::string_view what);
  std::string_view read_string_token();
  [[noreturn]] void fail_long_string();
  int peek_in_string();  // refuses the end of the text
  void read_rest_of_string();
  void read_escape();
  unsigned read_hex4();
  void read_multibyte();
  // A character, which may straddle two chunks; or its first byte, where it is not UTF-8.
  std::string read_character();
  void read_literal();  // true, false or null, into token_
  void read_word();     // letters, digits and _ from here on, into token_
  // Throws an Error `back` columns before the current position, on the same line.
  [[noreturn]] void fail_syntax(std::string_view message, std::uint64_t back = 0);
  [[noreturn]] void fail_expected(std::string_view expected);
  // The same where the reader has just passed `found`.
  [[noreturn]] void fail_found(std::string_view expected, std::string_view found);

  ByteSource source_;
  const char* begin_ = nullptr;
  const char* position_ = nullptr;
  const char* end_ = nullptr;
  // The position of begin_ in the document.
  std::uint64_t line_ = 1;
  std::uint64_t column_ = 1;

  std::array<Level, kDeepest> path_;  // the first depth_ are in use
  std::size_t depth_ = 0;
  std::string_view key_;  // the key just read
  std::string token_;
};

}  // namespace fusecalc
