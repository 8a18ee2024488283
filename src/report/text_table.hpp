#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/output.hpp"
#include "report/formats.hpp"

namespace fusecalc {

// Text in lines of at most so many columns, broken at spaces, but not before the unit of a number;
// words that are longer are cut.
std::vector<std::string> lines_of_words(std::string_view text, std::size_t columns);

// A table for people, at most as wide as its reader's terminal: bars shrink first, then names are
// cut in the middle, so that they stay distinct, and words go on in lines of their own. Terms,
// which a reader types, and numbers are never cut: columns that still find no room, the last ones
// first, are written below each row, with their titles.
class TextTable {
 public:
  enum class Kind {
    kName,    // cut in the middle
    kWords,   // as many lines as it takes
    kTerms,   // the same, but no word of it is cut
    kText,    // whole, flush left
    kNumber,  // whole, flush right
    kBar,     // a share of the cells that are left
  };
  struct Column {
    std::string title;
    Kind kind;
  };
  struct Cell {
    // Not explicit: rows are written as lists of texts and shares.
    Cell(std::string words) : text(std::move(words)) {}
    Cell(const char* words) : text(words) {}
    Cell(std::string_view words) : text(words) {}
    Cell(double part) : share(part) {}
    Cell(std::string words, std::string_view code) : text(std::move(words)), colour(code) {}
    Cell(double part, std::string_view code) : share(part), colour(code) {}

    std::string text{};
    double share = 0;  // of a bar: 0 to 1
    std::string_view colour{};
  };

  // The first title is in bold.
  TextTable(std::vector<Column> columns, const Style& style, std::size_t indent = 2);

  // `colour` is for the whole row; `below` follows it as it is, whole lines.
  void add(std::vector<Cell> cells, std::string_view colour = {}, std::string below = {});
  bool empty() const { return rows_.empty(); }
  void write(Output& output) const;

 private:
  struct Row {
    std::vector<Cell> cells;
    std::string_view colour;
    std::string below;
  };

  std::vector<std::size_t> natural_widths() const;
  std::vector<std::size_t> term_widths() const;
  std::vector<std::size_t> fitted_widths() const;
  void shrink_to_fit(std::vector<std::size_t>& widths) const;
  std::string columns_below(const Row& row, const std::vector<bool>& below) const;
  std::size_t taken_by(const std::vector<std::size_t>& widths) const;
  bool shrink(std::vector<std::size_t>& widths, std::size_t least,
              const std::vector<std::size_t>& terms) const;
  void share_out_to_bars(std::vector<std::size_t>& widths) const;
  std::vector<Row> lines_of(const Row& row, const std::vector<std::size_t>& widths) const;

  std::vector<Column> columns_;
  std::vector<Row> rows_;
  const Style& style_;
  std::size_t indent_;
};

}  // namespace fusecalc
