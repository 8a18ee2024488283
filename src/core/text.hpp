#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace fusecalc {

// Whether a character must not be written as it is, whatever the format: it controls a terminal,
// ends the line, changes the direction of text, is invisible, or is no character at all. The only
// such list; every writer asks it.
bool is_unsafe(char32_t code);

// The code point of a valid UTF-8 sequence.
char32_t code_point(std::string_view sequence);

inline constexpr std::size_t kNoLimit = std::string_view::npos;

// Text that is safe on one line of any output: what is unsafe or is not UTF-8 is escaped, as \u001b
// or \xff, and it is truncated after `limit` bytes.
std::string printable(std::string_view text, std::size_t limit = 200);

// The same in double quotes, with quotes escaped and truncated earlier: for names and values from
// the input.
std::string in_quotes(std::string_view text);

// One token of a JSON pointer (RFC 6901): ~ and / escaped.
std::string pointer_token(std::string_view key);

// "one, two or three".
std::string listed(std::span<const std::string_view> words);

// The number of columns that UTF-8 text takes on a terminal, one per code point.
std::size_t display_width(std::string_view text);

// Bytes of the valid UTF-8 sequence at the start of `text`, or 0 if there is none.
std::size_t utf8_sequence_length(std::string_view text);

}  // namespace fusecalc
