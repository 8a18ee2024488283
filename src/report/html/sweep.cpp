// A sweep as a page: curves of every plan along its dims, drawn by scripts; where another plan
// becomes the best, in words; the points as a table.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/format.hpp"
#include "report/html/page.hpp"
#include "report/html/sweep_data.hpp"
#include "report/sweep_words.hpp"
#include "report/writers.hpp"
#include "sweep/results.hpp"

namespace fusecalc {
namespace {

// Of each table and list.
constexpr std::size_t kMostSweepRows = 500;

class SweepPage {
 public:
  explicit SweepPage(const SweepFolder& folder) : sweep_(folder.definition()), curves_(sweep_) {
    summary_ = read_sweep(folder, [&](const PointResult& point) {
      curves_.add(point);
      if (point.state == PointState::kFailed && failed_.size() < kMostSweepRows) {
        failed_.emplace_back(point.index, point.error);
      }
      if (points_.size() == kMostSweepRows) return;
      points_.push_back(point);
      points_.back().figures = {};
      for (const PlanOfPoint& plan : point.plans) {
        if (std::ranges::find(plans_, plan.name) == plans_.end()) plans_.push_back(plan.name);
      }
    });
  }

  const SweepSummary& summary() const { return summary_; }

  HtmlPage page() const {
    HtmlPage page{.title = title(), .subtitle = subtitle(), .body = figures()};
    page.body += curves();
    page.body += html_section("crossovers", "Where another plan becomes the best", crossovers());
    page.body += failures();
    page.body += html_section("points", "Points", points());
    if (!curves_.drawable()) return page;
    page.data = curves_.json();
    page.scripts = PageScripts::kCurves;
    return page;
  }

 private:
  using Row = std::vector<std::string>;

  std::string title() const {
    if (sweep_.documents.size() > 1) {
      return fmt::format("Sweep of {} op lists", grouped_digits(sweep_.documents.size()));
    }
    return "Sweep of " + sweep_.documents.front().name;
  }

  std::string subtitle() const {
    std::string text = points_in_words(sweep_, summary_);
    for (const SweepAxis& axis : sweep_.axes) {
      text += fmt::format(" · {} = {}", html_name(axis.name), axis.values.front());
      if (axis.values.size() > 1) {
        text += fmt::format(" to {} ({} values)", axis.values.back(),
                            grouped_digits(axis.values.size()));
      }
    }
    if (sweep_.measured) return text + " · measured";
    std::string devices;
    for (const std::string& device : sweep_.devices) {
      devices += (devices.empty() ? " · on " : ", ") + html_text(device);
    }
    return text + devices;
  }

  std::string figures() const {
    std::vector<HtmlFigure> figures;
    for (const auto& [plan, count] : summary_.best) {
      figures.push_back(
          {.value = fmt::format("{} of {}", grouped_digits(count), grouped_digits(summary_.done)),
           .words = "points where " + html_text(plan) + " is best"});
    }
    if (summary_.failed + summary_.missing > 0) {
      figures.push_back({.value = grouped_digits(summary_.failed + summary_.missing),
                         .words = "points without a result",
                         .tone = "bad"});
    }
    return html_figures(figures);
  }

  std::string curves() const {
    if (!curves_.drawable()) return "";
    std::string text = "<div class=\"curves\"></div>\n";
    if (const std::string drawn = curves_.drawn_in_words(); !drawn.empty()) {
      text += fmt::format(
          "<p class=\"left-out\">The sweep is large: the curves show {}; csv and json have all "
          "points.</p>\n",
          html_text(drawn));
    }
    text += "<noscript><p>Curves are drawn by scripts; the tables need none.</p></noscript>\n";
    return html_section("curves", "Curves", text);
  }

  std::string crossovers() const {
    if (summary_.crossovers.empty()) {
      return "<p>Nowhere: along each dim the same plan is best at every value.</p>\n";
    }
    std::string list = "<ul>\n";
    const std::size_t shown = std::min(summary_.crossovers.size(), kMostSweepRows);
    for (std::size_t i = 0; i < shown; ++i) {
      list += fmt::format("<li>{}</li>\n",
                          html_text(crossover_in_words(sweep_, summary_.crossovers[i])));
    }
    list += "</ul>\n";
    const std::string more =
        left_out(summary_.crossovers.size(), kMostSweepRows, "place", "csv and json list");
    return more.empty() ? list : list + fmt::format("<p class=\"rest\">{}</p>\n", more);
  }

  std::string failures() const {
    if (failed_.empty()) return "";
    HtmlTable table{
        .id = "failed-table",
        .caption = "Points that failed; the same command tries them again",
        .columns = {{"point"}, {"error"}},
        .rest = left_out(summary_.failed, kMostSweepRows, "point", "csv and json list")};
    for (const auto& [point, error] : failed_) {
      table.rows.push_back({html_name(sweep_.label(point)), html_text(error)});
    }
    return html_section("failed", "Failed", table.html());
  }

  // The figure that plans are ranked by leads.
  static std::string cell_of(const PlanOfPoint& plan, bool best) {
    std::vector<std::string> lines;
    const std::string measured = time_in_words(plan.measured_us);
    const std::string predicted = time_in_words(plan.predicted_us);
    if (!measured.empty()) lines.push_back(measured);
    if (!predicted.empty()) lines.push_back((measured.empty() ? "" : "predicted ") + predicted);
    lines.push_back(bytes_in_words(plan));
    std::string cell = best ? "<b class=\"best\">" + lines.front() + "</b>" : lines.front();
    for (std::size_t i = 1; i < lines.size(); ++i) cell += "<small>" + lines[i] + "</small>";
    return cell;
  }

  Row row_of(const PointResult& point, bool with_name, bool with_device) const {
    Row row;
    const SweepPoint at = sweep_.point(point.index);
    if (with_name) row.push_back(html_name(sweep_.documents[at.document].name));
    if (with_device) row.push_back(html_text(sweep_.devices[at.device]));
    for (const DimOverride& dim : at.dims) row.push_back(std::to_string(dim.extent));
    for (const std::string& name : plans_) {
      const auto plan = std::ranges::find(point.plans, name, &PlanOfPoint::name);
      row.push_back(plan == point.plans.end() ? "" : cell_of(*plan, name == point.best));
    }
    switch (point.state) {
      case PointState::kDone: row.push_back(html_text(point.best)); break;
      case PointState::kFailed:
        row.emplace_back("<span class=\"verdict bad\">failed</span>");
        break;
      case PointState::kMissing: row.emplace_back("missing"); break;
    }
    return row;
  }

  std::string points() const {
    HtmlTable table{.id = "point-table",
                    .caption = sweep_.measured
                                   ? "Measured time of each plan at each point, back to "
                                     "back, with its predicted time and its bytes"
                                   : "Predicted time of each plan at each point, and "
                                     "its bytes",
                    .columns = {},
                    .rest = left_out(sweep_.size(), kMostSweepRows, "point", "csv and json list")};
    // A table names its rows by its first column.
    const bool with_device = sweep_.devices.size() > 1;
    const bool with_name = sweep_.documents.size() > 1 || (!with_device && sweep_.axes.empty());
    if (with_name) table.columns.push_back({"op list"});
    if (with_device) table.columns.push_back({"device"});
    for (const SweepAxis& axis : sweep_.axes) table.columns.push_back({axis.name, true});
    for (const std::string& plan : plans_) table.columns.push_back({plan, true});
    table.columns.push_back({"best"});
    for (const PointResult& point : points_) {
      table.rows.push_back(row_of(point, with_name, with_device));
    }
    return table.html();
  }

  const SweepDefinition& sweep_;
  CurveData curves_;
  std::vector<PointResult> points_;  // the first ones
  std::vector<std::string> plans_;   // of any of them
  std::vector<std::pair<std::size_t, std::string>> failed_;
  SweepSummary summary_;
};

}  // namespace

SweepSummary write_html(const SweepFolder& folder, const Style& /*style*/, Output& output) {
  const SweepPage page(folder);
  write_page(page.page(), output);
  return page.summary();
}

}  // namespace fusecalc
