// A measurement as a page: limit, analytic, predicted and measured side by side for both plans and
// for every kernel.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "analysis/limit_shares.hpp"
#include "core/format.hpp"
#include "report/cells.hpp"
#include "report/html/graph_data.hpp"
#include "report/html/page.hpp"
#include "report/measurement_rows.hpp"
#include "report/writers.hpp"

namespace fusecalc {
namespace {

constexpr std::size_t kMostMeasurementRows = 300;

class MeasurementPage {
 public:
  MeasurementPage(const MeasurementReport& report, std::size_t place)
      : report_(report), measurement_(report.measurement), place_(place) {}

  std::string subtitle() const {
    std::string text = fmt::format("{} operation{} · {}", grouped_digits(measurement_.operations),
                                   measurement_.operations == 1 ? "" : "s",
                                   html_text(measurement_.gpu.device.name));
    if (measurement_.copy_bytes_per_s) {
      text += fmt::format(", copies at {:.0f} GB/s", *measurement_.copy_bytes_per_s / 1e9);
    }
    return text;
  }

  std::string body() const {
    std::string out = figures();
    out += html_section(id("plans"), "Plans", plans());
    std::string tables;
    for (const PlanMeasurement* plan : ran()) {
      tables += html_section(id("kernels-" + plan->key), "Kernels of " + plan->key, kernels(*plan));
    }
    out += report_.analysis ? html_workspace(place_, tables) : tables;
    return out + notes();
  }

 private:
  using Row = std::vector<std::string>;

  std::array<const PlanMeasurement*, 2> ran() const {
    return {&measurement_.unfused, &measurement_.fused};
  }

  std::string id(const std::string& name) const { return fmt::format("{}-{}", name, place_); }

  std::string figures() const {
    const Savings savings = measurement_.savings();
    std::vector<HtmlFigure> figures;
    figures.push_back({.value = shortest_decimal(savings.percent()) + " %",
                       .words = "of the bytes saved with " + html_text(measurement_.fused.key),
                       .tone = savings.bytes() >= 0 ? "good" : "bad"});
    const std::optional<double> speedup = measurement_.measured_speedup();
    if (speedup) {
      figures.push_back({.value = fmt::format("{:.2f}x", *speedup),
                         .words = "measured speedup",
                         .tone = *speedup >= 1 ? "good" : "bad"});
    }
    figures.push_back({.value = shortest_decimal(savings.speedup()) + "x",
                       .words = "estimated speedup, by bytes"});
    const std::string_view verdict = verdict_word(measurement_);
    figures.push_back({.value = std::string(verdict == "-" ? "not checked" : verdict),
                       .words = "results",
                       .tone = verdict == "ok"      ? "good"
                               : verdict == "WRONG" ? "bad"
                                                    : ""});
    return html_figures(figures);
  }

  static std::vector<HtmlColumn> columns(std::string first) {
    return {{std::move(first)},
            {"limit", true},
            {"analytic", true},
            {"predicted", true},
            {"measured", true},
            {"off by", true},
            {""},
            {"predicted time", true},
            {"time", true},
            {"GB/s", true},
            {"of copy", true}};
  }

  // The figures under columns(), but for the first two. `predicted` is null for a list of sizes.
  void add_figures(Row& row, const Bytes& analytic, const Prediction* predicted,
                   const Observed& observed, std::uint64_t most, std::string_view tone) const {
    row.push_back(human_bytes(analytic.total()));
    row.push_back(predicted == nullptr
                      ? "-"
                      : human_bytes(static_cast<std::uint64_t>(std::llround(predicted->dram()))));
    const std::uint64_t shown = observed.dram ? observed.dram->total() : analytic.total();
    row.push_back(observed.dram ? human_bytes(shown) : "-");
    row.push_back(observed.dram ? signed_percent(error_percent(shown, analytic.total())) : "-");
    row.push_back(
        html_bar(static_cast<double>(shown) / static_cast<double>(std::max<std::uint64_t>(most, 1)),
                 observed.dram ? tone : "faint"));
    row.push_back(predicted == nullptr ? "-" : human_time(predicted->time_us));
    if (!observed.time) {
      row.insert(row.end(), {"-", "-", "-"});
      return;
    }
    const double rate = bytes_per_second(analytic, *observed.time);
    row.push_back(human_seconds(observed.time->median));
    row.push_back(fmt::format("{:.0f}", rate / 1e9));
    row.push_back(measurement_.copy_bytes_per_s
                      ? fmt::format("{:.2f}", rate / *measurement_.copy_bytes_per_s)
                      : "-");
  }

  std::string_view tone_of(const PlanMeasurement& plan) const {
    return &plan == &measurement_.fused ? "after" : "before";
  }

  const PlanAnalysis* analysis_of(const PlanMeasurement& plan) const {
    if (!report_.analysis) return nullptr;
    const bool fused = &plan == &measurement_.fused;
    return &report_.analysis->graph->plan(fused ? report_.analysis->plan : PlanKind::kUnfused);
  }

  std::string limit_in_words() const {
    if (!report_.analysis) return "-";
    return human_bytes(report_.analysis->graph->plan(PlanKind::kLimit).bytes.total());
  }

  std::string plans() const {
    HtmlTable table{.id = id("plan-table"),
                    .caption =
                        "Bytes counted exactly (analytic) and DRAM bytes that the GPU's "
                        "counters saw (measured); limit: what no plan can avoid",
                    .columns = columns("plan")};
    const std::uint64_t most = measurement_.unfused.analytic.total();
    for (const PlanMeasurement* plan : ran()) {
      const std::size_t count = plan->kernels.size();
      const std::array ways = {std::pair{&plan->isolated, "each kernel alone"},
                               std::pair{&plan->pipeline, "back to back"}};
      for (const auto& [observed, way] : ways) {
        if (!observed->dram && !observed->time) continue;
        Row row = {fmt::format("{}<small>{} kernel{}, {}</small>", html_text(plan->key), count,
                               count == 1 ? "" : "s", way),
                   limit_in_words()};
        const PlanAnalysis* analysis = analysis_of(*plan);
        const Prediction* prediction = analysis == nullptr ? nullptr : &analysis->predicted;
        add_figures(row, plan->analytic, prediction, *observed, most, tone_of(*plan));
        table.rows.push_back(std::move(row));
      }
    }
    return table.html();
  }

  std::string kernels(const PlanMeasurement& plan) const {
    HtmlTable table{.id = id("kernel-table-" + plan.key),
                    .caption = fmt::format("Kernels of {}, each alone and from a cold L2, in the "
                                           "order in which they run",
                                           html_text(plan.key)),
                    .columns = columns("kernel")};
    for (const char* name : {"registers", "spill", "occupancy"}) {
      table.columns.push_back({name, true});
    }
    std::uint64_t most = 0;
    for (const KernelMeasurement& kernel : plan.kernels) {
      most = std::max(most, kernel.analytic.total());
    }
    const PlanAnalysis* analysis = analysis_of(plan);
    std::vector<std::uint64_t> limits;
    if (analysis != nullptr) limits = limit_shares(*report_.analysis->graph, *analysis);
    for (std::size_t k = 0; k < std::min(plan.kernels.size(), kMostMeasurementRows); ++k) {
      const KernelMeasurement& kernel = plan.kernels[k];
      std::string name = html_name(kernel.name);
      if (!kernel.schedule.empty()) {
        name += fmt::format("<small>{}</small>", html_text(kernel.schedule));
      }
      Row row = {std::move(name), limits.empty() ? "-" : human_bytes(limits[k])};
      add_figures(row, kernel.analytic,
                  analysis == nullptr ? nullptr : &analysis->kernels[k].predicted, kernel.observed,
                  most, tone_of(plan));
      add_resources(row, kernel);
      table.rows.push_back(std::move(row));
    }
    if (plan.kernels.size() > kMostMeasurementRows) {
      table.rest = fmt::format("and {} more: --format csv or json lists all",
                               plan.kernels.size() - kMostMeasurementRows);
    }
    return table.html();
  }

  // The library tells nothing of its kernels.
  static void add_resources(Row& row, const KernelMeasurement& kernel) {
    if (kernel.schedule.empty() || kernel.resources.registers == 0) {
      row.insert(row.end(), {"-", "-", "-"});
      return;
    }
    row.push_back(std::to_string(kernel.resources.registers));
    row.push_back(std::to_string(kernel.resources.spill_bytes));
    row.push_back(fmt::format("{:.0f} %", kernel.occupancy * 100));
  }

  std::string notes() const {
    const std::vector<std::string> notes = measurement_notes(report_);
    if (notes.empty()) return "";
    std::string list = "<ul>\n";
    for (const std::string& note : notes) list += fmt::format("<li>{}</li>\n", html_text(note));
    return html_section(id("notes"), "Notes", list + "</ul>\n");
  }

  const MeasurementReport& report_;
  const Measurement& measurement_;
  std::size_t place_;
};

// One row for each op list of a suite.
std::string summary_of(std::span<const MeasurementReport> reports) {
  HtmlTable table{.id = "summary-table",
                  .caption = "Every op list: speedup by bytes and by measured time",
                  .columns = {{"op list"},
                              {"bytes saved", true},
                              {"estimated", true},
                              {"measured", true},
                              {""},
                              {"results"}}};
  double most = 1;
  for (const MeasurementReport& report : reports) {
    most = std::max(most, report.measurement.measured_speedup().value_or(1));
  }
  for (std::size_t i = 0; i < reports.size(); ++i) {
    const Measurement& measurement = reports[i].measurement;
    const std::optional<double> speedup = measurement.measured_speedup();
    table.rows.push_back(
        {fmt::format("<a href=\"#plans-{}\">{}</a>", i, html_name(measurement.name)),
         shortest_decimal(measurement.savings().percent()) + " %",
         fmt::format("{:.2f}x", measurement.savings().speedup()),
         speedup ? fmt::format("{:.2f}x", *speedup) : "-",
         html_bar(speedup.value_or(0) / most, speedup.value_or(1) < 1 ? "before" : "after"),
         std::string(verdict_word(measurement))});
  }
  return html_section("summary", "Summary", table.html());
}

}  // namespace

void write_html(std::span<const MeasurementReport> reports, const Style& /*style*/,
                Output& output) {
  HtmlPage page{.title = "Measurements", .subtitle = {}, .body = {}, .data = graph_data(reports)};
  if (reports.size() == 1) {
    const MeasurementPage report(reports[0], 0);
    page.title = reports[0].measurement.name;
    page.subtitle = report.subtitle();
    page.body = report.body();
    return write_page(page, output);
  }
  page.subtitle = fmt::format("{} op lists", reports.size());
  page.body = summary_of(reports);
  for (std::size_t i = 0; i < reports.size(); ++i) {
    const MeasurementPage report(reports[i], i);
    page.body += html_report(i, reports[i].measurement.name, report.subtitle(), report.body());
  }
  write_page(page, output);
}

}  // namespace fusecalc
