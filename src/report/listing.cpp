#include "report/listing.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <charconv>
#include <cmath>

#include "core/text.hpp"
#include "json/writer.hpp"
#include "report/text_table.hpp"

namespace fusecalc {
namespace {

std::string text_of(const Cell& cell) {
  if (const auto* number = std::get_if<std::uint64_t>(&cell)) return std::to_string(*number);
  if (const auto* formula = std::get_if<Formula>(&cell)) return formula->text;
  if (const auto* number_with_unit = std::get_if<NumberWithUnit>(&cell))
    return std::to_string(number_with_unit->value);
  if (const auto* words = std::get_if<Words>(&cell))
    return fmt::format("{}", fmt::join(*words, " "));
  if (const auto* range = std::get_if<CountRange>(&cell)) {
    if (!range->most) return fmt::format("{}+", range->least);
    if (*range->most == range->least) return std::to_string(range->least);
    return fmt::format("{}-{}", range->least, *range->most);
  }
  return std::get<std::string>(cell);
}

std::vector<std::string> texts_of(const std::vector<Cell>& row) {
  std::vector<std::string> texts;
  for (const Cell& cell : row) texts.push_back(text_of(cell));
  return texts;
}

// The first column names the rows. Lists of words, and the last column, go on in further lines.
// Only the last one is cut: the others hold what one types.
TextTable::Kind kind_of(const Listing& listing, std::size_t column) {
  const auto has = [&](auto is_kind) {
    return std::ranges::any_of(listing.rows,
                               [&](const std::vector<Cell>& row) { return is_kind(row[column]); });
  };
  if (column == 0) return TextTable::Kind::kTerms;
  if (has([](const Cell& cell) { return std::holds_alternative<Words>(cell); })) {
    return TextTable::Kind::kTerms;
  }
  if (column + 1 == listing.columns.size()) return TextTable::Kind::kWords;
  return has([](const Cell& cell) { return std::holds_alternative<std::string>(cell); })
             ? TextTable::Kind::kText
             : TextTable::Kind::kNumber;
}

void write_table(const Listing& listing, const Style& style, Output& output) {
  const std::vector<std::string>& titles =
      listing.titles.empty() ? listing.columns : listing.titles;
  std::vector<TextTable::Column> columns;
  for (std::size_t i = 0; i < listing.columns.size(); ++i) {
    columns.push_back({titles[i], kind_of(listing, i)});
  }
  TextTable table(std::move(columns), style, 0);
  for (const std::vector<Cell>& row : listing.rows) {
    std::vector<TextTable::Cell> cells;
    for (const Cell& cell : row) {
      const auto* number_with_unit = std::get_if<NumberWithUnit>(&cell);
      cells.emplace_back(number_with_unit != nullptr ? number_with_unit->text : text_of(cell));
    }
    table.add(std::move(cells));
  }
  table.write(output);
}

void write_cell(JsonWriter& json, const Cell& cell) {
  if (const auto* number = std::get_if<std::uint64_t>(&cell)) {
    json.value(*number);
  } else if (const auto* number_with_unit = std::get_if<NumberWithUnit>(&cell)) {
    json.value(number_with_unit->value);
  } else if (const auto* words = std::get_if<Words>(&cell)) {
    json.begin_array();
    for (const std::string& word : *words) json.value(word);
    json.end();
  } else if (const auto* range = std::get_if<CountRange>(&cell)) {
    json.begin_object().member("min", range->least).key("max");
    if (range->most) {
      json.value(*range->most);
    } else {
      json.null();
    }
    json.end();
  } else if (std::holds_alternative<Formula>(cell)) {
    json.null();
  } else {
    json.value(std::get<std::string>(cell));
  }
}

void write_json(const Listing& listing, const Style& /*style*/, Output& output) {
  JsonWriter json(output);
  json.begin_object().member("schema", listing.schema).key(listing.rows_key).begin_array();
  for (const std::vector<Cell>& row : listing.rows) {
    json.begin_object(JsonWriter::Layout::kInline);
    for (std::size_t i = 0; i < row.size(); ++i) write_cell(json.key(listing.columns[i]), row[i]);
    json.end();
  }
  json.end().end();
}

// RFC 4180: in quotes where it must be.
std::string field_of(const std::string& text) {
  if (text.find_first_of(",\"\n\t") == std::string::npos) return text;
  std::string field = "\"";
  for (const char c : text) {
    if (c == '"') field += '"';
    field += c;
  }
  return field + '"';
}

// The cells are the program's own: one that starts with @ or - is meant so.
void write_csv(const Listing& listing, const Style& /*style*/, Output& output) {
  const auto write_row = [&](const std::vector<std::string>& row) {
    std::string line;
    for (const std::string& cell : row) line += (line.empty() ? "" : ",") + field_of(cell);
    output.write(line + "\n");
  };
  write_row(listing.columns);
  for (const std::vector<Cell>& row : listing.rows) write_row(texts_of(row));
}

void write_markdown(const Listing& listing, const Style& /*style*/, Output& output) {
  const auto write_row = [&](const std::vector<std::string>& row) {
    std::string line = "|";
    for (const std::string& cell : row) line += " " + markdown_text(cell) + " |";
    output.write(line + "\n");
  };
  write_row(listing.columns);
  std::string rule = "|";
  for (std::size_t i = 0; i < listing.columns.size(); ++i) rule += "---|";
  output.write(rule + "\n");
  for (const std::vector<Cell>& row : listing.rows) write_row(texts_of(row));
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
  void (*write)(const Listing&, const Style&, Output&);
};

constexpr std::array kListingFormats = {
    ListingFormat{"table", write_table},
    ListingFormat{"json", write_json},
    ListingFormat{"csv", write_csv},
    ListingFormat{"markdown", write_markdown},
};

}  // namespace

std::vector<std::string_view> listing_formats() {
  std::vector<std::string_view> names;
  for (const ListingFormat& format : kListingFormats) names.push_back(format.name);
  return names;
}

void write_listing(const Listing& listing, std::string_view format, const Style& style,
                   Output& output) {
  const auto* found = std::ranges::find(kListingFormats, format, &ListingFormat::name);
  assert(found != kListingFormats.end());
  found->write(listing, style, output);
}

std::string csv_field(std::string_view text) {
  // A field in quotes may hold several lines, and tabs.
  std::string shown;
  for (std::size_t from = 0; from <= text.size();) {
    const std::size_t to = std::min(text.find_first_of("\n\t", from), text.size());
    shown += printable(text.substr(from, to - from), kNoLimit);
    if (to < text.size()) shown += text[to];
    from = to + 1;
  }
  if (is_formula(shown)) shown.insert(0, 1, '\'');
  return field_of(shown);
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
