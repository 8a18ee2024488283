// What every HTML report is made of: one self-contained page of text, tables and, for scripts,
// data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/output.hpp"

namespace fusecalc {

// Text from a document as HTML shows it: escaped, printable, and isolated from the direction of the
// text around it.
std::string html_text(std::string_view text);
// The same with `<wbr>` where a long name may be broken into lines.
std::string html_name(std::string_view name);

// A bar of `share` (0 to 1) of its full width. `tone` is a class of the style sheet: "before",
// "after" or "faint".
std::string html_bar(double share, std::string_view tone);

struct HtmlColumn {
  std::string name;  // text
  bool number = false;
};

// A table whose first column names its rows. Cells are HTML.
struct HtmlTable {
  std::string id;
  std::string caption;  // HTML
  std::vector<HtmlColumn> columns{};
  std::vector<std::vector<std::string>> rows{};
  std::string rest{};  // text below: what was left out

  std::string html() const;
};

// A figure in large type and what it is; both are HTML.
struct HtmlFigure {
  std::string value;
  std::string words;
  std::string tone{};
};
std::string html_figures(const std::vector<HtmlFigure>& figures);

// What stands below a table that shows the first `most` of so many: "and 3 more kernels: WHERE
// all". Empty where it shows all.
std::string left_out(std::size_t count, std::size_t most, std::string_view noun,
                     std::string_view where);

// A section with a heading (text) that the page's navigation can reach by its id.
std::string html_section(std::string_view id, std::string_view heading, std::string_view content);

// One of several results of a page, closed until its summary is clicked, or a link to a section in
// it. `name` is text, `subtitle` and `body` are HTML.
std::string html_report(std::size_t place, std::string_view name, std::string_view subtitle,
                        std::string_view body);

// What scripts turn into the drawing of the graph at this place of the data and the tables beside
// it; without scripts it is `tables` (HTML) alone.
std::string html_workspace(std::size_t report, const std::string& tables);

// What the scripts of a page draw: kernels and their tensors, curves of a sweep, or launches one
// after the other.
enum class PageScripts : std::uint8_t { kGraph, kCurves, kTimeline };

struct HtmlPage {
  std::string title;     // text
  std::string subtitle;  // HTML
  std::string body;      // HTML
  // JSON for the scripts; without it the page has none.
  std::optional<std::string> data{};
  PageScripts scripts = PageScripts::kGraph;
};

void write_page(const HtmlPage& page, Output& output);

}  // namespace fusecalc
