#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/output.hpp"
#include "report/formats.hpp"

namespace fusecalc {

// From `least` to `most`; any number from `least` on where there is no `most`. {"min", "max"} in
// JSON.
struct CountRange {
  std::uint64_t least = 0;
  std::optional<std::uint64_t> most;
};
// A number that depends on shapes; null in JSON.
struct Formula {
  std::string text;
};
// A number that the table shows with its unit; the other formats hold the number alone.
struct NumberWithUnit {
  std::uint64_t value = 0;
  std::string text;
};
using Words = std::vector<std::string>;
using Cell = std::variant<std::string, std::uint64_t, CountRange, Formula, NumberWithUnit, Words>;

// A plain table: what `ops`, `specs` and `devices` print. Its JSON holds cells as what they are,
// numbers as numbers; the other formats hold them as text.
struct Listing {
  std::string schema;  // of its JSON
  std::string rows_key;
  std::vector<std::string> columns;
  std::vector<std::vector<Cell>> rows;
  std::vector<std::string> titles{};  // of the table's columns, where they differ
};

std::vector<std::string_view> listing_formats();
void write_listing(const Listing& listing, std::string_view format, const Style& style,
                   Output& output);

// Text of a document as a field of CSV, quoted where it must be (RFC 4180). Unsafe characters are
// escaped, and text that a spreadsheet would run as a formula gets an apostrophe before it; a
// number stays one.
std::string csv_field(std::string_view text);
// Text escaped to show as it is, on one line, in Markdown.
std::string markdown_text(std::string_view text);

}  // namespace fusecalc
