#include "report/text_table.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "core/short_names.hpp"
#include "core/text.hpp"
#include "report/cells.hpp"

namespace fusecalc {
namespace {

constexpr std::size_t kGap = 2;
constexpr std::size_t kLeastBar = 6;
constexpr std::size_t kMostBar = 24;
constexpr std::size_t kLeastText = 24;  // while there are bars
constexpr std::size_t kLeastTextAtAll = 10;

// A bar of `share` of its full width; never empty for a share above 0. To an eighth of a cell where
// the terminal shows such characters.
std::string bar(double share, std::size_t cells, bool utf8) {
  constexpr std::string_view kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const double whole = std::clamp(share, 0.0, 1.0) * static_cast<double>(cells);
  const auto least = static_cast<std::size_t>(share > 0);
  if (!utf8) {
    return std::string(std::max(static_cast<std::size_t>(std::lround(whole)), least), '#');
  }
  const std::size_t eighths = std::max(static_cast<std::size_t>(std::lround(whole * 8)), least);
  std::string text;
  for (std::size_t i = 0; i < eighths / 8; ++i) text += "█";
  return text.append(kEighths[eighths % 8]);
}

// Where the first word of a text ends: behind the unit, if it is a number that has one.
std::size_t word_end(std::string_view text) {
  constexpr std::array<std::string_view, 8> kUnits = {"B", "kB", "MB", "GB", "TB", "us", "ms", "s"};
  const std::size_t end = std::min(text.find(' '), text.size());
  const bool number = end > 0 && text[0] >= '0' && text[0] <= '9';
  if (!number || end == text.size()) return end;
  const std::string_view rest = text.substr(end + 1);
  const std::string_view unit = rest.substr(0, rest.find_first_of(" ,;:)"));
  if (std::ranges::find(kUnits, unit) == kUnits.end()) return end;
  return std::min(text.find(' ', end + 1), text.size());
}

bool may_be_cut(TextTable::Kind kind) {
  return kind == TextTable::Kind::kName || kind == TextTable::Kind::kWords ||
         kind == TextTable::Kind::kTerms;
}

std::size_t longest_word(std::string_view text) {
  std::size_t longest = 0;
  while (!text.empty()) {
    const std::size_t end = word_end(text);
    longest = std::max(longest, display_width(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return longest;
}

}  // namespace

std::vector<std::string> lines_of_words(std::string_view text, std::size_t columns) {
  std::vector<std::string> lines(1);
  std::size_t used = 0;
  while (!text.empty()) {
    const std::size_t end = word_end(text);
    std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::size_t width = display_width(word);
    if (used > 0 && used + 1 + width > columns) {
      lines.emplace_back();
      used = 0;
    }
    if (used > 0) lines.back() += ' ';
    used += (used > 0 ? 1 : 0) + width;
    while (used > columns) {
      std::size_t part = 0;
      for (std::size_t i = 0; i < columns; ++i) part += utf8_sequence_length(word.substr(part));
      lines.back() += word.substr(0, part);
      word.remove_prefix(part);
      lines.emplace_back();
      used -= columns;
    }
    lines.back() += word;
  }
  return lines;
}

TextTable::TextTable(std::vector<Column> columns, const Style& style, std::size_t indent)
    : columns_(std::move(columns)), style_(style), indent_(indent) {}

void TextTable::add(std::vector<Cell> cells, std::string_view colour, std::string below) {
  cells.resize(columns_.size(), Cell(""));
  rows_.push_back({std::move(cells), colour, std::move(below)});
}

// What every text takes, and nothing for the bars.
std::vector<std::size_t> TextTable::natural_widths() const {
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    std::size_t width = 0;
    if (columns_[i].kind != Kind::kBar) {
      width = display_width(columns_[i].title);
      for (const Row& row : rows_) width = std::max(width, display_width(row.cells[i].text));
    }
    widths.push_back(width);
  }
  return widths;
}

// Of each column, the longest term.
std::vector<std::size_t> TextTable::term_widths() const {
  std::vector<std::size_t> widths(columns_.size(), 0);
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    if (columns_[i].kind != Kind::kTerms) continue;
    widths[i] = display_width(columns_[i].title);
    for (const Row& row : rows_) {
      widths[i] = std::max(widths[i], longest_word(row.cells[i].text));
    }
  }
  return widths;
}

// The columns of a line; one without a width is not there.
std::size_t TextTable::taken_by(const std::vector<std::size_t>& widths) const {
  std::size_t taken = indent_;
  for (const std::size_t width : widths) {
    if (width > 0) taken += width + (taken > indent_ ? kGap : 0);
  }
  return taken;
}

// Takes one column from the widest text that may be cut.
bool TextTable::shrink(std::vector<std::size_t>& widths, std::size_t least,
                       const std::vector<std::size_t>& terms) const {
  std::size_t widest = columns_.size();
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    if (!may_be_cut(columns_[i].kind) || widths[i] <= std::max(least, terms[i])) continue;
    if (widest == columns_.size() || widths[i] > widths[widest]) widest = i;
  }
  if (widest == columns_.size()) return false;
  --widths[widest];
  return true;
}

void TextTable::share_out_to_bars(std::vector<std::size_t>& widths) const {
  const auto is_bar = [](const Column& column) { return column.kind == Kind::kBar; };
  const auto bars = static_cast<std::size_t>(std::ranges::count_if(columns_, is_bar));
  const std::size_t taken = taken_by(widths);
  if (bars == 0 || taken >= style_.width) return;
  const std::size_t each = (style_.width - taken) / bars;
  if (each < kLeastBar + kGap) return;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    if (is_bar(columns_[i])) widths[i] = std::min(each - kGap, kMostBar);
  }
}

void TextTable::shrink_to_fit(std::vector<std::size_t>& widths) const {
  const auto bars =
      static_cast<std::size_t>(std::ranges::count(columns_, Kind::kBar, &Column::kind));
  const std::size_t for_bars = bars * (kLeastBar + kGap);
  const std::vector<std::size_t> terms = term_widths();
  while (taken_by(widths) + for_bars > style_.width && shrink(widths, kLeastText, terms)) {
  }
  while (taken_by(widths) > style_.width && shrink(widths, kLeastTextAtAll, terms)) {
  }
}

// The first column always stays in its row.
std::vector<std::size_t> TextTable::fitted_widths() const {
  std::vector<std::size_t> natural = natural_widths();
  std::vector<std::size_t> widths = natural;
  shrink_to_fit(widths);
  for (std::size_t last = columns_.size(); taken_by(widths) > style_.width && last-- > 1;) {
    if (natural[last] == 0) continue;
    natural[last] = 0;
    widths = natural;
    shrink_to_fit(widths);
  }
  share_out_to_bars(widths);
  return widths;
}

// Lines of "title value", as many of them in one as it holds.
std::string TextTable::columns_below(const Row& row, const std::vector<bool>& below) const {
  const std::string indent(indent_ + 2 * kGap, ' ');
  const std::size_t room = std::max(style_.width, indent.size() + kLeastTextAtAll) - indent.size();
  std::string text;
  std::size_t used = 0;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const Cell& cell = row.cells[i];
    if (!below[i] || cell.text.empty()) continue;
    const std::string& title = columns_[i].title;
    for (const std::string& part :
         lines_of_words(title + (title.empty() ? "" : " ") + cell.text, room)) {
      const std::size_t width = display_width(part);
      const bool fits = used > 0 && used + kGap + width <= room;
      if (!fits) text += (used > 0 ? "\n" : "") + indent;
      text += std::string(fits ? kGap : 0, ' ') +
              coloured(part, row.colour.empty() ? cell.colour : row.colour, style_);
      used = (fits ? used + kGap : 0) + width;
    }
  }
  return used > 0 ? text + "\n" : text;
}

// The row, and a line for each that its words go on.
std::vector<TextTable::Row> TextTable::lines_of(const Row& row,
                                                const std::vector<std::size_t>& widths) const {
  std::vector<Row> lines = {row};
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const bool words_wrap = columns_[i].kind == Kind::kWords || columns_[i].kind == Kind::kTerms;
    if (!words_wrap || widths[i] == 0) continue;
    std::vector<std::string> words = lines_of_words(row.cells[i].text, widths[i]);
    const Row next = {std::vector<Cell>(columns_.size(), Cell("")), row.colour, ""};
    if (lines.size() < words.size()) lines.resize(words.size(), next);
    for (std::size_t k = 0; k < words.size(); ++k) {
      lines[k].cells[i] = Cell(std::move(words[k]), row.cells[i].colour);
    }
  }
  return lines;
}

void TextTable::write(Output& output) const {
  const std::vector<std::size_t> widths = fitted_widths();
  const std::vector<std::size_t> natural = natural_widths();
  std::vector<bool> below;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    below.push_back(widths[i] == 0 && natural[i] > 0);
  }
  std::vector<ShortNames> names;
  for (const std::size_t width : widths) names.emplace_back(width);
  // Colours do not count; spaces at the end of a line are left out.
  const auto line = [&](const auto& text_of, std::string_view row_colour) {
    std::string text(indent_, ' ');
    std::size_t owed = 0;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      if (widths[i] == 0) continue;
      const auto [shown, colour] = text_of(i);
      const std::size_t space = widths[i] - std::min(widths[i], display_width(shown));
      const bool right = columns_[i].kind == Kind::kNumber;
      if (!shown.empty()) {
        text.append(owed + (right ? space : 0), ' ').append(coloured(shown, colour, style_));
      }
      owed = kGap + (shown.empty() ? owed + widths[i] : right ? 0 : space);
    }
    output.write((row_colour.empty() ? text : coloured(text, row_colour, style_)) + "\n");
  };
  using Shown = std::pair<std::string, std::string_view>;
  const auto titled = [](const Column& column) { return !column.title.empty(); };
  if (std::ranges::any_of(columns_, titled)) {
    line(
        [&](std::size_t i) {
          return Shown(columns_[i].title, i == 0 ? kBold : std::string_view());
        },
        {});
  }
  for (const Row& row : rows_) {
    for (const Row& part : lines_of(row, widths)) {
      line(
          [&](std::size_t i) {
            const Cell& cell = part.cells[i];
            switch (columns_[i].kind) {
              case Kind::kBar: return Shown(bar(cell.share, widths[i], style_.utf8), cell.colour);
              case Kind::kName: return Shown(names[i].of(cell.text), cell.colour);
              default: return Shown(cell.text, cell.colour);
            }
          },
          row.colour);
    }
    output.write(columns_below(row, below) + row.below);
  }
}

}  // namespace fusecalc
