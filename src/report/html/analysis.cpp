// An analysis as a page: what fusion saves, every plan, and for a graph its kernels, its tensors
// and the reasons for its boundaries. Scripts add the drawing and make the tables follow the plan.

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "analysis/limit_shares.hpp"
#include "analysis/reasons.hpp"
#include "analysis/repeats.hpp"
#include "core/format.hpp"
#include "core/ratio.hpp"
#include "report/html/graph_data.hpp"
#include "report/html/page.hpp"
#include "report/writers.hpp"

namespace fusecalc {
namespace {

// Rows of the tables of a page, which its op lists share; scripts show the others.
constexpr std::size_t kMostAnalysisRows = 200;
constexpr std::size_t kFewestAnalysisRows = 5;

std::string_view fused_name_of(const Analysis& analysis) {
  return analysis.graph ? name_of(analysis.plan) : std::string_view("fused");
}

// One op list of a page, which has `count` of them.
class AnalysisPage {
 public:
  AnalysisPage(const Analysis& analysis, std::size_t place, std::size_t count)
      : analysis_(analysis),
        place_(place),
        alone_(count == 1),
        most_rows_(std::max(kMostAnalysisRows / count, kFewestAnalysisRows)) {}

  bool has_graph() const { return analysis_.graph && analysis_.operations > 0; }

  std::string subtitle() const {
    std::string text = plural(analysis_.operations, "operation");
    if (!analysis_.graph)
      return text + ", " + plural(analysis_.dtype_bytes, "byte") + " an element";
    for (const auto& [name, extent] : analysis_.graph->graph.dims) {
      text += fmt::format(" · {} = {}", html_name(name), grouped_digits(extent));
    }
    return fmt::format("{} · predicted for {}", text, html_text(analysis_.graph->device.name));
  }

  std::string body() const {
    std::string out;
    if (analysis_.operations > 0) out += figures();
    out += html_section(id("plans"), "Plans", plans());
    if (has_graph()) out += html_workspace(place_, kernels() + tensors() + reasons());
    return out;
  }

 private:
  std::string id(std::string_view name) const {
    return alone_ ? std::string(name) : fmt::format("{}-{}", name, place_);
  }

  const PlanAnalysis& headline() const { return analysis_.graph->plan(analysis_.plan); }
  std::string_view fused_name() const { return fused_name_of(analysis_); }

  std::string figures() const {
    const Savings savings = analysis_.savings();
    const bool less = savings.bytes() >= 0;
    const auto size = static_cast<std::uint64_t>(less ? savings.bytes() : -savings.bytes());
    std::vector<HtmlFigure> figures;
    figures.push_back(
        {.value = human_bytes(size),
         .words = fmt::format("{} bytes moved with {}", less ? "fewer" : "more", fused_name()),
         .tone = less ? "good" : "bad"});
    figures.push_back({.value = shortest_decimal(savings.percent()) + " %",
                       .words = "of the bytes saved",
                       .tone = less ? "good" : "bad"});
    if (const std::optional<double> speedup = analysis_.predicted_speedup()) {
      figures.push_back({.value = fmt::format("{:.2f}x", *speedup),
                         .words = "predicted speedup on " + html_text(analysis_.graph->device.name),
                         .tone = *speedup >= 1 ? "good" : "bad"});
    }
    figures.push_back({.value = shortest_decimal(savings.speedup()) + "x",
                       .words = "estimated speedup, by bytes"});
    if (analysis_.graph) {
      const std::size_t before = analysis_.graph->plan(PlanKind::kUnfused).kernels.size();
      figures.push_back({.value = fmt::format("{} → {}", grouped_digits(before),
                                              grouped_digits(headline().kernels.size())),
                         .words = "kernels"});
    }
    return html_figures(figures);
  }

  std::vector<std::string> plan_row(std::string_view name, std::string_view summary,
                                    const std::string& kernels, const Bytes& bytes,
                                    const std::string& time, std::uint64_t most,
                                    std::string_view tone) const {
    std::string head = fmt::format("{}", html_text(name));
    if (!summary.empty()) head += fmt::format("<small>{}</small>", html_text(summary));
    const std::uint64_t unfused = analysis_.unfused.total();
    return {head,
            kernels,
            time,
            human_bytes(bytes.read),
            human_bytes(bytes.write),
            human_bytes(bytes.total()),
            fmt::format("{:.1f} %", 100 * share_of(bytes.total(), unfused)),
            html_bar(share_of(bytes.total(), most), tone)};
  }

  // With the range that holds the measured time nine times in ten.
  static std::string time_of(const Prediction& predicted) {
    if (predicted.time_us <= 0) return "-";
    return fmt::format("{}<small>{} to {}</small>", human_time(predicted.time_us),
                       human_time(predicted.time_range.low), human_time(predicted.time_range.high));
  }

  std::string plans() const {
    HtmlTable table{.id = id("plan-table"),
                    .caption = analysis_.graph
                                   ? "Bytes of each plan, counted exactly, and its predicted time"
                                   : "Bytes of each plan, counted exactly",
                    .columns = {{"plan"},
                                {"kernels", true},
                                {analysis_.graph ? "time" : "", true},
                                {"read", true},
                                {"written", true},
                                {"total", true},
                                {"of unfused", true},
                                {"", false}}};
    std::uint64_t most = std::max(analysis_.unfused.total(), analysis_.fused.total());
    if (!analysis_.graph) {
      const bool any = analysis_.operations > 0;
      table.rows.push_back(plan_row("unfused", "one kernel per operation",
                                    grouped_digits(analysis_.operations), analysis_.unfused, "",
                                    most, "before"));
      table.rows.push_back(plan_row("auto (fused)", "all operations in one kernel", any ? "1" : "0",
                                    analysis_.fused, "", most, "after"));
      return table.html();
    }
    for (const PlanAnalysis& plan : analysis_.graph->plans) {
      most = std::max(most, plan.bytes.total());
    }
    for (const PlanAnalysis& plan : analysis_.graph->plans) {
      const bool limit = plan.kind == PlanKind::kLimit;
      const std::string_view tone = plan.kind == analysis_.plan       ? "after"
                                    : plan.kind == PlanKind::kUnfused ? "before"
                                                                      : "faint";
      const PlanWords& words = kPlanWords[static_cast<std::size_t>(plan.kind)];
      table.rows.push_back(plan_row(words.name, words.summary,
                                    limit ? "-" : grouped_digits(plan.kernels.size()), plan.bytes,
                                    time_of(plan.predicted), most, tone));
    }
    return table.html();
  }

  // Those of repeated layers once, the largest first.
  std::string kernels() const {
    struct Row {
      KernelId kernel;
      std::uint32_t count;
    };
    const std::vector<KernelAnalysis>& all = headline().kernels;
    const auto bytes = [&](const Row& row) { return all[row.kernel].traffic.bytes.total(); };
    std::vector<Row> rows;
    std::uint64_t most = 0;
    for (const Repeat& repeat : repeats_of(analysis_.graph->graph, headline())) {
      for (std::uint32_t place = 0; place < repeat.period; ++place) {
        rows.push_back({repeat.at(place, 0), repeat.count});
        most = std::max(most, bytes(rows.back()));
      }
    }
    std::ranges::stable_sort(rows, std::greater<>(), bytes);
    const std::vector<std::uint64_t> limits = limit_shares(*analysis_.graph, headline());
    HtmlTable table{.id = id("kernel-table"),
                    .caption = fmt::format("Kernels of {}", fused_name()),
                    .columns = {{"kernel"},
                                {"times", true},
                                {"ops", true},
                                {"read", true},
                                {"written", true},
                                {"total", true},
                                {"", false},
                                {"limit", true},
                                {"time", true},
                                {"bound"},
                                {"flops", true}},
                    .rows = {},
                    .rest = left_out(rows.size(), most_rows_, "kernel", "--format json lists")};
    for (std::size_t i = 0; i < std::min(rows.size(), most_rows_); ++i) {
      const KernelAnalysis& kernel = all[rows[i].kernel];
      const Bytes& moved = kernel.traffic.bytes;
      table.rows.push_back(
          {html_name(kernel.name), rows[i].count == 1 ? "" : "x " + grouped_digits(rows[i].count),
           grouped_digits(kernel.ops.size()), human_bytes(moved.read), human_bytes(moved.write),
           human_bytes(moved.total()), html_bar(share_of(moved.total(), most), "after"),
           human_bytes(limits[rows[i].kernel]), human_time(kernel.predicted.time_us),
           std::string(name_of(kernel.predicted.bound)), grouped_digits(kernel.traffic.flops)});
    }
    return html_section(id("kernels"), "Kernels", table.html());
  }

  std::string tensors() const {
    const std::vector<SavedTensor> saved = saved_tensors(*analysis_.graph, headline());
    if (saved.empty()) return "";
    HtmlTable table{
        .id = id("tensor-table"),
        .caption = fmt::format("Tensors of which {} moves fewer bytes than unfused, or more",
                               fused_name()),
        .columns = {{"tensor"}, {"bytes saved", true}, {"", false}, {"", false}},
        .rows = {},
        .rest = left_out(saved.size(), most_rows_, "tensor", "--format json lists")};
    for (std::size_t i = 0; i < std::min(saved.size(), most_rows_); ++i) {
      table.rows.push_back({html_name(analysis_.graph->graph.tensors[saved[i].tensor].name),
                            (saved[i].moved_more ? "-" : "") + human_bytes(saved[i].bytes),
                            html_bar(share_of(saved[i].bytes, saved.front().bytes),
                                     saved[i].moved_more ? "before" : "after"),
                            std::string(saved[i].note())});
    }
    return html_section(id("tensors"), "Tensors saved", table.html());
  }

  // What reads alike but for numbers, as the layers of a model do, is told once.
  std::string reasons() const {
    HtmlTable table{
        .id = id("reason-table"),
        .caption = fmt::format("Kernels of {} that share a tensor and are not fused", fused_name()),
        .columns = {{"kernel"}, {"not fused with"}, {"they share"}, {"because"}}};
    if (!headline().boundaries) return "";
    const GraphAnalysis& details = *analysis_.graph;
    std::set<std::string> told;
    for (KernelId k = 0; k < headline().kernels.size(); ++k) {
      for (const Boundary& boundary : headline().boundaries->of(k)) {
        const std::string& from = headline().kernels[k].name;
        const std::string& to = headline().kernels[boundary.with].name;
        const std::string& tensor = details.graph.tensors[boundary.tensor].name;
        const std::string reason = full_reason_of(details, boundary);
        if (!told.insert(without_numbers(from + '\n' + to + '\n' + tensor) + reason).second) {
          continue;
        }
        if (told.size() > most_rows_) continue;
        table.rows.push_back(
            {html_name(from), html_name(to), html_name(tensor), html_text(reason)});
      }
    }
    if (told.empty()) return "";
    table.rest = left_out(told.size(), most_rows_, "reason", "--format json lists");
    return html_section(id("reasons"), "Why kernels end where they do", table.html());
  }

  const Analysis& analysis_;
  std::size_t place_;
  bool alone_;
  std::size_t most_rows_;
};

std::string summary_of(std::span<const Analysis> analyses) {
  HtmlTable table{.id = "summary-table",
                  .caption =
                      "Every op list: what its plan saves, and the speedup by bytes and by "
                      "predicted time",
                  .columns = {{"op list"},
                              {"operations", true},
                              {"plan"},
                              {"unfused", true},
                              {"with the plan", true},
                              {"saved", true},
                              {""},
                              {"by bytes", true},
                              {"predicted", true}}};
  for (std::size_t i = 0; i < analyses.size(); ++i) {
    const Analysis& analysis = analyses[i];
    const Savings savings = analysis.savings();
    const std::optional<double> predicted = analysis.predicted_speedup();
    table.rows.push_back({fmt::format("<a href=\"#plans-{}\">{}</a>", i, html_name(analysis.name)),
                          grouped_digits(analysis.operations), std::string(fused_name_of(analysis)),
                          human_bytes(analysis.unfused.total()),
                          human_bytes(analysis.fused.total()),
                          shortest_decimal(savings.percent()) + " %",
                          html_bar(std::max(savings.percent(), 0.0) / 100, "after"),
                          analysis.operations > 0 ? fmt::format("{:.2f}x", savings.speedup()) : "-",
                          predicted ? fmt::format("{:.2f}x", *predicted) : "-"});
  }
  return html_section("summary", "Summary", table.html());
}

}  // namespace

void write_html(const Analysis& analysis, const Style& style, Output& output) {
  write_html(std::span(&analysis, 1), style, output);
}

void write_html(std::span<const Analysis> analyses, const Style& /*style*/, Output& output) {
  HtmlPage page{.title = "Analyses",
                .subtitle = fmt::format("{} op lists", analyses.size()),
                .body = summary_of(analyses)};
  bool graphs = false;
  for (std::size_t i = 0; i < analyses.size(); ++i) {
    const AnalysisPage report(analyses[i], i, analyses.size());
    graphs = graphs || report.has_graph();
    if (analyses.size() == 1) {
      page = {.title = analyses[i].name, .subtitle = report.subtitle(), .body = report.body()};
    } else {
      page.body += html_report(i, analyses[i].name, report.subtitle(), report.body());
    }
  }
  // The tables of many op lists take room from their drawings.
  const std::size_t tables = analyses.size() == 1 ? 0 : page.body.size();
  if (graphs) page.data = graph_data(analyses, kMostGraphBytes - std::min(kMostGraphBytes, tables));
  write_page(page, output);
}

}  // namespace fusecalc
