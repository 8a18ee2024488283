#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/output.hpp"

namespace fusecalc {

// A plain table of text: what `ops` and `specs` print.
struct Listing {
  std::string schema;  // of its JSON
  std::string rows_key;
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;
};

std::vector<std::string_view> listing_formats();
void write_listing(const Listing& listing, std::string_view format, Output& output);

// RFC 4180, quoted where it must be. Unsafe characters are escaped, and text that a spreadsheet
// would run as a formula gets an apostrophe before it; a number stays one.
std::string csv_field(std::string_view text);
// Text escaped to show as it is, on one line, in Markdown.
std::string markdown_text(std::string_view text);

}  // namespace fusecalc
