#include <algorithm>
#include <string>
#include <vector>

#include "core/text.hpp"
#include "report/cells.hpp"
#include "report/comparison_cells.hpp"
#include "report/writers.hpp"

namespace fusecalc {
namespace {

constexpr std::string_view kBold = "1";
constexpr std::string_view kBad = "31";
constexpr std::string_view kGood = "32";
constexpr std::string_view kDoubtful = "33";
constexpr std::string_view kFaint = "2";
constexpr std::size_t kLongestName = 40;

using Row = std::vector<std::string>;

std::string_view colour_of(const Finding& finding) {
  if (finding.failed) return kBad;
  if (finding.judgement == Judgement::kBetter) return kGood;
  return finding.changed() ? kDoubtful : kFaint;
}

Row row_of_finding(const Finding& finding, bool with_spec) {
  Row row;
  if (with_spec) row.push_back(printable(finding.spec, kLongestName));
  row.push_back(printable(finding.plan, kLongestName));
  row.push_back(printable(finding.kernel, kLongestName));
  row.emplace_back(row_of(finding.figure).words);
  row.push_back(value_in_words(finding, finding.before));
  row.push_back(value_in_words(finding, finding.after));
  row.push_back(delta_in_words(finding));
  row.push_back(share_in_words(finding));
  return row;
}

// Cells beside each other, those from `first_number` on flush right.
std::string aligned(const Row& row, const std::vector<std::size_t>& widths,
                    std::size_t first_number) {
  std::string text;
  for (std::size_t i = 0; i < row.size(); ++i) {
    const std::string padding(widths[i] - display_width(row[i]), ' ');
    text += "  " + (i < first_number ? row[i] + padding : padding + row[i]);
  }
  return text;
}

}  // namespace

void write_table(const Comparison& comparison, const Style& style, Output& output) {
  const bool with_spec = comparison.specs.size() > 1;
  const bool with_kernel = std::ranges::any_of(
      comparison.findings, [](const Finding& finding) { return !finding.kernel.empty(); });
  std::vector<Row> rows = {{"plan", "kernel", "figure", "before", "after", "delta", "share"}};
  if (with_spec) rows.front().insert(rows.front().begin(), "spec");
  for (const Finding& finding : comparison.findings) {
    rows.push_back(row_of_finding(finding, with_spec));
  }
  if (!with_kernel) {
    for (Row& row : rows) row.erase(row.begin() + (with_spec ? 2 : 1));
  }
  std::vector<std::size_t> widths(rows.front().size());
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], display_width(row[i]));
    }
  }
  constexpr std::size_t kNumbers = 4;
  const std::size_t first_number = widths.size() - kNumbers;
  output.write(
      coloured(printable(comparison.base) + " -> " + printable(comparison.fresh), kBold, style) +
      "\n\n");
  if (rows.size() > 1) output.write(aligned(rows.front(), widths, first_number) + "  verdict\n");
  for (std::size_t i = 1; i < rows.size(); ++i) {
    const Finding& finding = comparison.findings[i - 1];
    output.write(aligned(rows[i], widths, first_number) + "  " +
                 coloured(verdict_in_words(finding), colour_of(finding), style) + "\n");
    if (!finding.note.empty()) output.write("      " + printable(finding.note, kNoLimit) + "\n");
  }
  output.write((rows.size() > 1 ? "\n  " : "  ") +
               coloured(summary_of(comparison), comparison.failed() ? kBad : kGood, style) + "\n");
  for (const std::string& note : comparison.notes) {
    output.write("  note: " + printable(note, kNoLimit) + "\n");
  }
}

}  // namespace fusecalc
