#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/format.hpp"
#include "core/text.hpp"
#include "report/cells.hpp"
#include "report/listing.hpp"
#include "report/sweep_words.hpp"
#include "report/text_table.hpp"
#include "report/writers.hpp"
#include "sweep/results.hpp"

namespace fusecalc {
namespace {

using Kind = TextTable::Kind;

// More are in the other formats, which need not be read by people.
constexpr std::size_t kMostPoints = 200;
constexpr std::size_t kMostCrossovers = 60;

struct Shown {
  std::vector<PointResult> points;  // the first ones
  std::vector<std::string> plans;   // of any of them
  bool predicted = false;
  bool measured = false;
  SweepSummary summary;
};

Shown read_shown(const SweepFolder& folder) {
  Shown shown;
  shown.summary = read_sweep(folder, [&](const PointResult& point) {
    if (shown.points.size() == kMostPoints) return;
    shown.points.push_back(point);
    shown.points.back().figures = {};
    for (const PlanOfPoint& plan : point.plans) {
      if (std::ranges::find(shown.plans, plan.name) == shown.plans.end()) {
        shown.plans.push_back(plan.name);
      }
      shown.predicted = shown.predicted || plan.predicted_us.has_value();
      shown.measured = shown.measured || plan.measured_us.has_value();
    }
  });
  return shown;
}

// A figure that every plan has a column of.
struct PlanFigure {
  std::string_view title;
  std::string (*cell)(const PlanOfPoint&);
  std::optional<double> PlanOfPoint::*value;
};

// Those that are known, times first.
std::vector<PlanFigure> figures_of(const Shown& shown) {
  std::vector<PlanFigure> figures;
  if (shown.measured) {
    figures.push_back({"measured time",
                       [](const PlanOfPoint& plan) { return time_in_words(plan.measured_us); },
                       &PlanOfPoint::measured_us});
  }
  if (shown.predicted) {
    figures.push_back({"predicted time",
                       [](const PlanOfPoint& plan) { return time_in_words(plan.predicted_us); },
                       &PlanOfPoint::predicted_us});
  }
  figures.push_back({"bytes", bytes_in_words, &PlanOfPoint::bytes});
  return figures;
}

// The plans of which any point has the figure.
std::vector<std::string> plans_with(const Shown& shown, const PlanFigure& figure) {
  std::vector<std::string> plans;
  std::ranges::copy_if(shown.plans, std::back_inserter(plans), [&](const std::string& plan) {
    return std::ranges::any_of(shown.points, [&](const PointResult& point) {
      return std::ranges::any_of(point.plans, [&](const PlanOfPoint& other) {
        return other.name == plan && !figure.cell(other).empty();
      });
    });
  });
  return plans;
}

std::string cell_of(const PointResult& point, const std::string& plan, const PlanFigure& figure) {
  const auto found = std::ranges::find(point.plans, plan, &PlanOfPoint::name);
  return found == point.plans.end() ? std::string() : figure.cell(*found);
}

// The best plans, or what became of a point without a result.
std::string outcome_of(const PointResult& point, const std::vector<std::string>& best) {
  switch (point.state) {
    case PointState::kDone: return fmt::format("{}", fmt::join(best, ", "));
    case PointState::kFailed: return "failed: " + printable(point.error, kNoLimit);
    case PointState::kMissing: return "missing";
  }
  return {};
}

struct Heading {
  bool name;
  bool device;
};

Heading heading_of(const SweepDefinition& sweep) {
  return {.name = sweep.documents.size() > 1, .device = sweep.devices.size() > 1};
}

// A table of one figure: side by side, all of them would be too wide.
TextTable table_of(const SweepDefinition& sweep, const Shown& shown, const PlanFigure& figure,
                   const Style& style) {
  const auto [with_name, with_device] = heading_of(sweep);
  std::vector<TextTable::Column> columns;
  if (with_name) columns.push_back({"name", Kind::kName});
  if (with_device) columns.push_back({"device", Kind::kText});
  for (const SweepAxis& axis : sweep.axes) columns.push_back({printable(axis.name), Kind::kNumber});
  const std::vector<std::string> plans = plans_with(shown, figure);
  for (const std::string& plan : plans) columns.push_back({printable(plan), Kind::kNumber});
  columns.push_back({"best", Kind::kWords});
  TextTable table(std::move(columns), style);
  for (const PointResult& point : shown.points) {
    std::vector<TextTable::Cell> row;
    if (with_name) row.emplace_back(point.name);
    if (with_device) row.emplace_back(printable(point.device));
    for (const DimOverride& dim : sweep.point(point.index).dims) {
      row.emplace_back(std::to_string(dim.extent));
    }
    for (const std::string& plan : plans) row.emplace_back(cell_of(point, plan, figure));
    row.emplace_back(outcome_of(point, plans_with_least(point.plans, figure.value)));
    table.add(std::move(row));
  }
  return table;
}

// All figures side by side.
Listing rows_of(const SweepDefinition& sweep, const Shown& shown) {
  const auto [with_name, with_device] = heading_of(sweep);
  Listing listing;
  if (with_name) listing.columns.emplace_back("name");
  if (with_device) listing.columns.emplace_back("device");
  for (const SweepAxis& axis : sweep.axes) listing.columns.push_back(printable(axis.name));
  std::vector<std::pair<std::string, PlanFigure>> columns;
  for (const PlanFigure& figure : figures_of(shown)) {
    for (std::string& plan : plans_with(shown, figure)) {
      listing.columns.push_back(fmt::format("{}, {}", plan, figure.title));
      columns.emplace_back(std::move(plan), figure);
    }
  }
  listing.columns.emplace_back("best");
  for (const PointResult& point : shown.points) {
    std::vector<Cell>& row = listing.rows.emplace_back();
    if (with_name) row.emplace_back(printable(point.name));
    if (with_device) row.emplace_back(point.device);
    for (const DimOverride& dim : sweep.point(point.index).dims) row.emplace_back(dim.extent);
    for (const auto& [plan, figure] : columns) row.emplace_back(cell_of(point, plan, figure));
    row.emplace_back(outcome_of(point, point.as_good));
  }
  return listing;
}

// What is told below the rows, one line each.
std::vector<std::string> lines_of(const SweepDefinition& sweep, const Shown& shown) {
  const SweepSummary& summary = shown.summary;
  std::vector<std::string> lines;
  const std::size_t points = sweep.size();
  if (points > shown.points.size()) {
    lines.push_back(fmt::format("{} more points: csv and json list all",
                                grouped_digits(points - shown.points.size())));
  }
  lines.push_back(points_in_words(sweep, summary));
  for (const auto& [plan, count] : summary.best) {
    lines.push_back(fmt::format("{} is best at {} of {}", plan, grouped_digits(count),
                                grouped_digits(summary.done)));
  }
  for (const Crossover& crossover : summary.crossovers) {
    if (lines.size() == kMostCrossovers) {
      lines.push_back(
          fmt::format("{} places in all where another plan becomes best: json lists all",
                      grouped_digits(summary.crossovers.size())));
      break;
    }
    lines.push_back(crossover_in_words(sweep, crossover));
  }
  return lines;
}

}  // namespace

SweepSummary write_table(const SweepFolder& folder, const Style& style, Output& output) {
  const Shown shown = read_shown(folder);
  for (const PlanFigure& figure : figures_of(shown)) {
    output.write(coloured(figure.title, "1", style) + "\n");
    table_of(folder.definition(), shown, figure, style).write(output);
    output.write("\n");
  }
  for (const std::string& line : lines_of(folder.definition(), shown)) {
    output.write("  " + printable(line, kNoLimit) + "\n");
  }
  return shown.summary;
}

SweepSummary write_markdown(const SweepFolder& folder, const Style& style, Output& output) {
  const Shown shown = read_shown(folder);
  write_listing(rows_of(folder.definition(), shown), "markdown", style, output);
  output.write("\n");
  for (const std::string& line : lines_of(folder.definition(), shown)) {
    output.write("- " + markdown_text(line) + "\n");
  }
  return shown.summary;
}

}  // namespace fusecalc
