#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/format.hpp"
#include "core/text.hpp"
#include "report/listing.hpp"
#include "report/sweep_words.hpp"
#include "report/writers.hpp"
#include "sweep/results.hpp"

namespace fusecalc {
namespace {

// More are in the other formats, which need not be read by people.
constexpr std::size_t kMostRows = 200;
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
    if (shown.points.size() == kMostRows) return;
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

// For each plan a column of every figure that is known, times first.
struct Column {
  std::string title;
  std::string plan;
  std::string (*cell)(const PlanOfPoint&);
};

std::vector<Column> columns_of(const Shown& shown) {
  std::vector<Column> columns;
  const auto add = [&](std::string_view what, std::string (*cell)(const PlanOfPoint&)) {
    for (const std::string& plan : shown.plans) {
      const bool any = std::ranges::any_of(shown.points, [&](const PointResult& point) {
        return std::ranges::any_of(point.plans, [&](const PlanOfPoint& other) {
          return other.name == plan && !cell(other).empty();
        });
      });
      if (any) columns.push_back({fmt::format("{}{}", plan, what), plan, cell});
    }
  };
  if (shown.measured) {
    add(" (measured)", [](const PlanOfPoint& plan) { return time_in_words(plan.measured_us); });
  }
  if (shown.predicted) {
    add(" (predicted)", [](const PlanOfPoint& plan) { return time_in_words(plan.predicted_us); });
  }
  add("", bytes_in_words);
  return columns;
}

Listing rows_of(const SweepDefinition& sweep, const Shown& shown) {
  const bool with_name = sweep.documents.size() > 1;
  const bool with_device = sweep.devices.size() > 1;
  Listing listing;
  if (with_name) listing.columns.emplace_back("name");
  if (with_device) listing.columns.emplace_back("device");
  for (const SweepAxis& axis : sweep.axes) listing.columns.push_back(printable(axis.name));
  const std::vector<Column> columns = columns_of(shown);
  for (const Column& column : columns) listing.columns.push_back(column.title);
  listing.columns.emplace_back("best");
  for (const PointResult& point : shown.points) {
    std::vector<Cell>& row = listing.rows.emplace_back();
    if (with_name) row.emplace_back(printable(point.name));
    if (with_device) row.emplace_back(point.device);
    for (const DimOverride& dim : sweep.point(point.index).dims) row.emplace_back(dim.extent);
    for (const Column& column : columns) {
      const auto plan = std::ranges::find(point.plans, column.plan, &PlanOfPoint::name);
      row.emplace_back(plan == point.plans.end() ? std::string() : column.cell(*plan));
    }
    switch (point.state) {
      case PointState::kDone: row.emplace_back(point.best); break;
      case PointState::kFailed: row.emplace_back("failed: " + point.error); break;
      case PointState::kMissing: row.emplace_back(std::string("missing")); break;
    }
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

void write_table(const SweepFolder& folder, const Style& /*style*/, Output& output) {
  const Shown shown = read_shown(folder);
  write_listing(rows_of(folder.definition(), shown), "table", output);
  output.write("\n");
  for (const std::string& line : lines_of(folder.definition(), shown)) {
    output.write("  " + printable(line, kNoLimit) + "\n");
  }
}

void write_markdown(const SweepFolder& folder, const Style& /*style*/, Output& output) {
  const Shown shown = read_shown(folder);
  write_listing(rows_of(folder.definition(), shown), "markdown", output);
  output.write("\n");
  for (const std::string& line : lines_of(folder.definition(), shown)) {
    output.write("- " + markdown_text(line) + "\n");
  }
}

}  // namespace fusecalc
