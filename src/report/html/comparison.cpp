// A comparison as a page: the verdict, the plans before and after, what changed, and what
// did not.

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/format.hpp"
#include "core/ratio.hpp"
#include "report/comparison_cells.hpp"
#include "report/html/page.hpp"
#include "report/writers.hpp"

namespace fusecalc {
namespace {

constexpr std::size_t kMostComparisonRows = 2000;

std::string_view tone_of(const Finding& finding) {
  if (finding.failed) return "bad";
  if (finding.judgement == Judgement::kBetter) return "good";
  return finding.changed() ? "doubtful" : "same";
}

// The largest value of each figure of each spec: the full width of its bars, so that plans and
// kernels can be compared with one another, too.
using Scale = std::map<std::pair<std::string, Figure>, std::uint64_t>;

template <typename Wanted>
Scale scale_of(const Comparison& comparison, const Wanted& wanted) {
  Scale scale;
  for (const Finding& finding : comparison.findings) {
    if (!wanted(finding)) continue;
    std::uint64_t& most = scale[{finding.spec, finding.figure}];
    most =
        std::max<std::uint64_t>({most, finding.before.value_or(0), finding.after.value_or(0), 1});
  }
  return scale;
}

// Both values as bars, that before above.
std::string bars_of(const Finding& finding, const Scale& scale) {
  const std::uint64_t most = scale.at({finding.spec, finding.figure});
  std::string bars;
  if (finding.before) bars += html_bar(exact_ratio(*finding.before, most), "faint");
  if (finding.after) {
    bars += html_bar(exact_ratio(*finding.after, most), finding.failed ? "worse" : "after");
  }
  return bars;
}

std::vector<std::string> row_of_finding(const Finding& finding, bool with_spec,
                                        const Scale& scale) {
  std::string what;
  if (with_spec) what += html_name(finding.spec) + " ";
  if (!finding.plan.empty()) what += "<span class=\"plan\">" + html_text(finding.plan) + "</span> ";
  if (!finding.kernel.empty()) what += html_name(finding.kernel);
  if (what.empty()) what = html_name(finding.spec);
  if (!finding.note.empty()) what += "<small>" + html_text(finding.note) + "</small>";
  return {what,
          std::string(row_of(finding.figure).words),
          value_in_words(finding, finding.before),
          value_in_words(finding, finding.after),
          bars_of(finding, scale),
          html_text(delta_in_words(finding)),
          html_text(share_in_words(finding)),
          fmt::format("<span class=\"verdict {}\">{}</span>", tone_of(finding),
                      html_text(verdict_in_words(finding)))};
}

template <typename Wanted>
std::string table_of(const Comparison& comparison, std::string id, std::string caption,
                     const Wanted& wanted) {
  HtmlTable table{.id = std::move(id),
                  .caption = std::move(caption),
                  .columns = {{"what"},
                              {"figure"},
                              {"before", true},
                              {"after", true},
                              {"before over after"},
                              {"delta", true},
                              {"share", true},
                              {"verdict"}}};
  const Scale scale = scale_of(comparison, wanted);
  std::size_t found = 0;
  for (const Finding& finding : comparison.findings) {
    if (!wanted(finding) || ++found > kMostComparisonRows) continue;
    table.rows.push_back(row_of_finding(finding, comparison.specs.size() > 1, scale));
  }
  if (found == 0) return "";
  if (found > kMostComparisonRows) {
    table.rest = fmt::format("and {} more: --format csv or json lists all",
                             grouped_digits(found - kMostComparisonRows));
  }
  return table.html();
}

std::string figures_of(const Comparison& comparison) {
  std::vector<HtmlFigure> figures;
  const bool failed = comparison.failed();
  figures.push_back({.value = failed ? "failed" : "passed",
                     .words = comparison.strict ? "no change is allowed" : "verdict",
                     .tone = failed ? "bad" : "good"});
  for (std::size_t i = 0; i < judgement_names().size(); ++i) {
    const auto judgement = static_cast<Judgement>(i);
    const std::size_t failures = comparison.count_failed(judgement);
    const auto add = [&](std::size_t count, std::string_view tone) {
      if (count == 0) return;
      figures.push_back({.value = grouped_digits(count),
                         .words = std::string(name_of(judgement)),
                         .tone = std::string(tone)});
    };
    add(failures, "bad");
    add(comparison.count(judgement) - failures, judgement == Judgement::kBetter ? "good" : "");
  }
  return html_figures(figures);
}

std::string notes_of(const Comparison& comparison) {
  if (comparison.notes.empty()) return "";
  std::string list = "<ul>\n";
  for (const std::string& note : comparison.notes) {
    list += fmt::format("<li>{}</li>\n", html_text(note));
  }
  return html_section("notes", "Notes", list + "</ul>\n");
}

}  // namespace

void write_html(const Comparison& comparison, const Style& /*style*/, Output& output) {
  HtmlPage page{
      .title = comparison.failed() ? "Comparison: failed" : "Comparison: passed",
      .subtitle = fmt::format("{} → {}", html_name(comparison.base), html_name(comparison.fresh)),
      .body = figures_of(comparison)};
  const auto add = [&](std::string_view id, std::string_view heading, std::string_view caption,
                       const auto& wanted) {
    const std::string table =
        table_of(comparison, std::string(id) + "-table", std::string(caption), wanted);
    if (!table.empty()) page.body += html_section(id, heading, table);
    return !table.empty();
  };
  const auto of_plan = [](const Finding& finding) {
    return !finding.plan.empty() && finding.kernel.empty();
  };
  add("plans", "Plans before and after", "Each plan as a whole", of_plan);
  const auto of_part = [&](const Finding& finding) {
    return finding.changed() && !of_plan(finding);
  };
  if (!add("changed", "What changed", "Kernels and results that differ", of_part)) {
    const bool any = std::ranges::any_of(comparison.findings, &Finding::changed);
    page.body +=
        html_section("changed", "What changed",
                     any ? "<p>The plans above; no kernel of them is known to differ.</p>\n"
                         : "<p>Nothing.</p>\n");
  }
  const std::string same =
      table_of(comparison, "same-table", "Figures within their tolerance",
               [&](const Finding& finding) { return !finding.changed() && !of_plan(finding); });
  if (!same.empty()) {
    page.body += html_section("same", "What stayed the same",
                              "<details><summary>Show</summary>\n" + same + "</details>\n");
  }
  page.body += notes_of(comparison);
  write_page(page, output);
}

}  // namespace fusecalc
