#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace fusecalc {

// Text that is safe in a one-line message: what would control the terminal (control characters,
// line separators, direction marks) or is not UTF-8 is escaped, and it is truncated after `limit`
// bytes.
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
