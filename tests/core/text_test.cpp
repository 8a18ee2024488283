#include "core/text.hpp"

#include <doctest/doctest.h>

#include <array>

using namespace fusecalc;

TEST_CASE("text in messages is escaped only where it would control the terminal") {
  CHECK(printable("layer norm λ→😀") == "layer norm λ→😀");
  CHECK(printable("a\nb\tc") == "a\\u000ab\\u0009c");
  CHECK(printable("\x1b[2J") == "\\u001b[2J");
  CHECK(printable("\x7f") == "\\u007f");
  CHECK(printable("\u009b2J") == "\\u009b2J");  // the one-character form of ESC [
  CHECK(printable("\u2028") == "\\u2028");      // a line end to some readers of logs
  CHECK(printable("\u202e") == "\\u202e");      // turns what follows right to left
  CHECK(printable("\u00a0\u00e9") == "\u00a0\u00e9");
  CHECK(printable(std::string_view("a\0b", 3)) == "a\\u0000b");
}

TEST_CASE("what is unsafe is one list of characters, with nothing beside it") {
  for (const char32_t code :
       {0x00U,   0x09U,   0x0AU,   0x0DU,   0x1BU,   0x1FU,    0x7FU,    0x80U,    0x85U,
        0x9BU,   0x9FU,   0xADU,   0x61CU,  0x180EU, 0x200BU,  0x200DU,  0x200EU,  0x200FU,
        0x2028U, 0x2029U, 0x202AU, 0x202EU, 0x2060U, 0x2066U,  0x2069U,  0xFDD0U,  0xFDEFU,
        0xFEFFU, 0xFFF9U, 0xFFFBU, 0xFFFEU, 0xFFFFU, 0x1FFFEU, 0xE0001U, 0xE0020U, 0x10FFFFU}) {
    CAPTURE(static_cast<unsigned>(code));
    CHECK(is_unsafe(code));
  }
  for (const char32_t code :
       {0x20U, 0x7EU, 0xA0U, 0xACU, 0xAEU, 0x3BBU, 0x2010U, 0x2027U, 0x202FU, 0x2192U, 0x4E2DU,
        0xE000U, 0xFDCFU, 0xFDF0U, 0xFFFCU, 0xFFFDU, 0x10000U, 0x1F600U, 0xE1000U}) {
    CAPTURE(static_cast<unsigned>(code));
    CHECK_FALSE(is_unsafe(code));
  }
  CHECK(printable("\uFFFE\u200B\U000E0041") == "\\ufffe\\u200b\\U000e0041");
  CHECK(printable("\\u001b") == "\\u001b");  // printing twice changes nothing
}

TEST_CASE("bytes that are not UTF-8 are shown in hex") {
  CHECK(printable("caf\xe9") == "caf\\xe9");
  CHECK(printable("\xc0\xaf") == "\\xc0\\xaf");
  CHECK(printable("\xe2\x82") == "\\xe2\\x82");
}

TEST_CASE("long text is truncated, but never inside a character") {
  CHECK(printable("abcdef", 6) == "abcdef");
  CHECK(printable("abcdefg", 6) == "abcdef...");
  CHECK(printable("abcdeλλ", 6) == "abcdeλ...");
}

TEST_CASE("quotes and backslashes inside quotes are escaped") {
  CHECK(in_quotes("relu") == "\"relu\"");
  CHECK(in_quotes("a\"b\\c") == "\"a\\\"b\\\\c\"");
  CHECK(in_quotes("") == "\"\"");
  CHECK(in_quotes(std::string(61, 'k')) == "\"" + std::string(60, 'k') + "...\"");
}

TEST_CASE("a JSON pointer escapes ~ and / in keys") {
  CHECK(pointer_token("input_size") == "input_size");
  CHECK(pointer_token("a/b~c") == "a~1b~0c");
  CHECK(pointer_token("~1") == "~01");
}

TEST_CASE("words are listed as in a sentence") {
  constexpr std::array<std::string_view, 3> kWords = {"bash", "zsh", "fish"};
  const std::span<const std::string_view> words = kWords;
  CHECK(listed(words) == "bash, zsh or fish");
  CHECK(listed(words.first(2)) == "bash or zsh");
  CHECK(listed(words.first(1)) == "bash");
}

TEST_CASE("width counts characters, not bytes") {
  CHECK(display_width("") == 0);
  CHECK(display_width("relu") == 4);
  CHECK(display_width("λ→😀") == 3);
}

TEST_CASE("a UTF-8 sequence has one to four bytes") {
  CHECK(utf8_sequence_length("ab") == 1);
  CHECK(utf8_sequence_length("\u00e9x") == 2);
  CHECK(utf8_sequence_length("\u20ac") == 3);
  CHECK(utf8_sequence_length("\U0001f600") == 4);
  CHECK(utf8_sequence_length("\U0010ffff") == 4);
}

TEST_CASE("invalid UTF-8 has no sequence length") {
  CHECK(utf8_sequence_length("") == 0);
  CHECK(utf8_sequence_length("\x80") == 0);              // a continuation first
  CHECK(utf8_sequence_length("\xc1\xbf") == 0);          // overlong
  CHECK(utf8_sequence_length("\xe0\x9f\xbf") == 0);      // overlong
  CHECK(utf8_sequence_length("\xed\xa0\x80") == 0);      // U+D800, a surrogate
  CHECK(utf8_sequence_length("\xf0\x8f\xbf\xbf") == 0);  // overlong
  CHECK(utf8_sequence_length("\xf4\x90\x80\x80") == 0);  // past U+10FFFF
  CHECK(utf8_sequence_length("\xe2\x82") == 0);          // cut short
  CHECK(utf8_sequence_length("\xff") == 0);
}
