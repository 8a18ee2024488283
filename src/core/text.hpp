#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace fusecalc {

// Text as it may stand in a one-line message: escaped where it would steer the terminal (control
// characters, line separators, marks of direction) or is not UTF-8, and cut after `limit` bytes.
std::string printable(std::string_view text, std::size_t limit = 200);

// The same in double quotes, with those inside escaped and cut sooner: for names and values out of
// the input.
std::string in_quotes(std::string_view text);

// One token of a JSON pointer (RFC 6901): ~ and / escaped.
std::string pointer_token(std::string_view key);

// "one, two or three".
std::string listed(std::span<const std::string_view> words);

// The number of columns that UTF-8 text takes on a terminal, one per code point.
std::size_t display_width(std::string_view text);

// Bytes of the valid UTF-8 sequence at the start of `text`, or 0 where there is none.
std::size_t utf8_sequence_length(std::string_view text);

}  // namespace fusecalc
