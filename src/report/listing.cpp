#include "report/listing.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <charconv>
#include <cmath>

#include "core/text.hpp"
#include "json/writer.hpp"

namespace fusecalc {
namespace {

void write_table(const Listing& listing, Output& output) {
  std::vector<std::size_t> widths;
  for (const std::string& column : listing.columns) widths.push_back(display_width(column));
  for (const auto& row : listing.rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], display_width(row[i]));
    }
  }
  const auto write_row = [&](const std::vector<std::string>& row) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += row[i];
      if (i + 1 < row.size()) line.append(widths[i] - display_width(row[i]) + 2, ' ');
    }
    output.write(line + "\n");
  };
  write_row(listing.columns);
  for (const auto& row : listing.rows) write_row(row);
}

void write_json(const Listing& listing, Output& output) {
  JsonWriter json(output);
  json.begin_object().member("schema", listing.schema).key(listing.rows_key).begin_array();
  for (const auto& row : listing.rows) {
    json.begin_object(JsonWriter::Layout::kInline);
    for (std::size_t i = 0; i < row.size(); ++i) json.member(listing.columns[i], row[i]);
    json.end();
  }
  json.end().end();
}

void write_csv(const Listing& listing, Output& output) {
  const auto write_row = [&](const std::vector<std::string>& row) {
    std::string line;
    for (const std::string& cell : row) line += (line.empty() ? "" : ",") + csv_field(cell);
    output.write(line + "\n");
  };
  write_row(listing.columns);
  for (const auto& row : listing.rows) write_row(row);
}

void write_markdown(const Listing& listing, Output& output) {
  const auto write_row = [&](const std::vector<std::string>& row) {
    std::string line = "|";
    for (const std::string& cell : row) line += " " + markdown_text(cell) + " |";
    output.write(line + "\n");
  };
  write_row(listing.columns);
  std::string rule = "|";
  for (std::size_t i = 0; i < listing.columns.size(); ++i) rule += "---|";
  output.write(rule + "\n");
  for (const auto& row : listing.rows) write_row(row);
}

// Spreadsheets take these for the start of a formula, also in their full-width forms.
bool is_formula(const std::string& text) {
  constexpr std::string_view kStarts[] = {"=",      "+",      "-",      "@",
                                          "\uFF1D", "\uFF0B", "\uFF0D", "\uFF20"};
  if (std::ranges::none_of(kStarts, [&](std::string_view s) { return text.starts_with(s); })) {
    return false;
  }
  const char* begin = text.data() + (text.starts_with('+') && !text.starts_with("+-") ? 1 : 0);
  const char* end = text.data() + text.size();
  double number = 0;
  const auto parsed = std::from_chars(begin, end, number);
  return parsed.ec != std::errc{} || parsed.ptr != end || !std::isfinite(number);
}

struct ListingFormat {
  std::string_view name;
  void (*write)(const Listing&, Output&);
};

constexpr std::array kFormats = {
    ListingFormat{"table", write_table},
    ListingFormat{"json", write_json},
    ListingFormat{"csv", write_csv},
    ListingFormat{"markdown", write_markdown},
};

}  // namespace

std::vector<std::string_view> listing_formats() {
  std::vector<std::string_view> names;
  for (const ListingFormat& format : kFormats) names.push_back(format.name);
  return names;
}

void write_listing(const Listing& listing, std::string_view format, Output& output) {
  const auto* found = std::ranges::find(kFormats, format, &ListingFormat::name);
  assert(found != kFormats.end());
  found->write(listing, output);
}

std::string csv_field(std::string_view text) {
  std::string shown = printable(text, kNoLimit);
  if (is_formula(shown)) shown.insert(0, 1, '\'');
  if (shown.find_first_of(",\"") == std::string::npos) return shown;
  std::string field = "\"";
  for (const char c : shown) {
    if (c == '"') field += '"';
    field += c;
  }
  return field + '"';
}

std::string markdown_text(std::string_view text) {
  std::string out;
  for (const char c : printable(text)) {
    if (std::string_view("\\`*_{}[]<>#|~&$").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

}  // namespace fusecalc
