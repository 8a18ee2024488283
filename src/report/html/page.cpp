#include "report/html/page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "core/embedded.hpp"
#include "core/format.hpp"
#include "core/text.hpp"
#include "version.hpp"

namespace fusecalc {
namespace {

// In the order in which they run.
constexpr std::array<std::string_view, 11> kGraphScripts = {
    "words",    "model", "view",  "layout", "panels", "tables",
    "roofline", "boxes", "graph", "search", "report"};
constexpr std::array<std::string_view, 3> kCurveScripts = {"words", "scale", "curves"};
constexpr std::array<std::string_view, 3> kTimelineScripts = {"words", "scale", "timeline"};

std::span<const std::string_view> scripts_of(PageScripts scripts) {
  switch (scripts) {
    case PageScripts::kGraph: break;
    case PageScripts::kCurves: return kCurveScripts;
    case PageScripts::kTimeline: return kTimelineScripts;
  }
  return kGraphScripts;
}

// The address of any resource is refused, so that the page makes no request whatever it holds.
constexpr std::string_view kPolicy =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; "
    "form-action 'none'";

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  }
  return out;
}

// JSON that no HTML parser takes for markup: "<" occurs within strings only.
std::string inert_json(std::string_view json) {
  std::string out;
  out.reserve(json.size());
  for (const char c : json) {
    if (c == '<') {
      out += "\\u003c";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

std::string html_text(std::string_view text) { return escaped(printable(text, kNoLimit)); }

std::string html_name(std::string_view name) {
  std::string out = "<bdi class=\"name\">";
  for (const char c : html_text(name)) {
    out += c;
    if (c == '.' || c == '/' || c == '+' || c == '_') out += "<wbr>";
  }
  return out + "</bdi>";
}

std::string html_bar(double share, std::string_view tone) {
  return fmt::format(
      "<span class=\"track\" aria-hidden=\"true\"><span class=\"bar {}\" "
      "style=\"width:{:.2f}%\"></span></span>",
      tone, 100 * std::clamp(share, 0.0, 1.0));
}

std::string HtmlTable::html() const {
  std::string out =
      fmt::format("<div class=\"wide\"><table id=\"{}\"><caption>{}</caption>\n", id, caption);
  out += "<thead><tr>";
  for (const HtmlColumn& column : columns) {
    out += fmt::format("<th scope=\"col\"{}>{}</th>", column.number ? " class=\"number\"" : "",
                       html_text(column.name));
  }
  out += "</tr></thead>\n<tbody>\n";
  for (const std::vector<std::string>& row : rows) {
    out += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string_view number = columns[i].number ? " class=\"number\"" : "";
      out += i == 0 ? fmt::format("<th scope=\"row\">{}</th>", row[i])
                    : fmt::format("<td{}>{}</td>", number, row[i]);
    }
    out += "</tr>\n";
  }
  out += "</tbody></table></div>\n";
  if (!rest.empty()) out += fmt::format("<p class=\"rest\">{}</p>\n", html_text(rest));
  return out;
}

std::string html_figures(const std::vector<HtmlFigure>& figures) {
  std::string out = "<dl class=\"figures\">\n";
  for (const HtmlFigure& figure : figures) {
    out += fmt::format("<div{}><dt>{}</dt><dd>{}</dd></div>\n",
                       figure.tone.empty() ? "" : fmt::format(" class=\"{}\"", figure.tone),
                       figure.words, figure.value);
  }
  return out + "</dl>\n";
}

std::string left_out(std::size_t count, std::size_t most, std::string_view noun,
                     std::string_view where) {
  if (count <= most) return "";
  return fmt::format("and {}: {} all", plural(count - most, fmt::format("more {}", noun)), where);
}

std::string html_section(std::string_view id, std::string_view heading, std::string_view content) {
  return fmt::format(
      "<section id=\"{0}\" aria-labelledby=\"{0}-heading\">\n"
      "<h2 id=\"{0}-heading\">{1}</h2>\n{2}</section>\n",
      id, html_text(heading), content);
}

std::string html_report(std::size_t place, std::string_view name, std::string_view subtitle,
                        std::string_view body) {
  return fmt::format(
      "<details class=\"report\" id=\"report-{}\"><summary>{} "
      "<small>{}</small></summary>\n{}</details>\n",
      place, html_name(name), subtitle, body);
}

std::string html_workspace(std::size_t report, const std::string& tables) {
  return fmt::format("<div class=\"workspace\" data-report=\"{}\">\n{}</div>\n", report, tables);
}

void write_page(const HtmlPage& page, Output& output) {
  output.write(
      fmt::format("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                  "<meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n"
                  "<meta name=\"viewport\" content=\"width=device-width, "
                  "initial-scale=1\">\n"
                  "<meta name=\"color-scheme\" content=\"light dark\">\n"
                  "<title>{} - fusecalc</title>\n<style>\n",
                  kPolicy, html_text(page.title)));
  output.write(embedded_page("style"));
  output.write(
      fmt::format("</style>\n</head>\n<body>\n<header>\n<p class=\"brand\">fusecalc</p>\n"
                  "<h1><bdi>{}</bdi></h1>\n<p class=\"subtitle\">{}</p>\n</header>\n"
                  "<main>\n",
                  html_text(page.title), page.subtitle));
  output.write(page.body);
  output.write(fmt::format("</main>\n<footer><p>fusecalc {}</p></footer>\n", kVersion));
  if (page.data) {
    output.write("<script type=\"application/json\" id=\"data\">");
    output.write(inert_json(*page.data));
    output.write("</script>\n<script>\n\"use strict\";\n(() => {\n");
    for (const std::string_view script : scripts_of(page.scripts)) {
      output.write(embedded_page(script));
    }
    output.write("})();\n</script>\n");
  }
  output.write("</body>\n</html>\n");
}

}  // namespace fusecalc
