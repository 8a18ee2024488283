#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/text.hpp"
#include "report/cells.hpp"
#include "report/comparison_cells.hpp"
#include "report/text_table.hpp"
#include "report/writers.hpp"

namespace fusecalc {
namespace {

constexpr std::string_view kBad = "31";
constexpr std::string_view kGood = "32";
constexpr std::string_view kDoubtful = "33";
using Kind = TextTable::Kind;

std::string_view colour_of(const Finding& finding) {
  if (finding.failed) return kBad;
  if (finding.judgement == Judgement::kBetter) return kGood;
  return finding.changed() ? kDoubtful : kFaint;
}

TextTable table_of(const Comparison& comparison, const Style& style) {
  const bool with_spec = comparison.specs.size() > 1;
  const bool with_kernel = std::ranges::any_of(
      comparison.findings, [](const Finding& finding) { return !finding.kernel.empty(); });
  std::vector<TextTable::Column> columns;
  if (with_spec) columns.push_back({"spec", Kind::kName});
  columns.push_back({"plan", Kind::kName});
  if (with_kernel) columns.push_back({"kernel", Kind::kName});
  columns.push_back({"figure", Kind::kText});
  for (const char* title : {"before", "after", "delta", "share"}) {
    columns.push_back({title, Kind::kNumber});
  }
  columns.push_back({"verdict", Kind::kText});
  TextTable table(std::move(columns), style);
  for (const Finding& finding : comparison.findings) {
    std::vector<TextTable::Cell> cells;
    if (with_spec) cells.emplace_back(finding.spec);
    cells.emplace_back(finding.plan);
    if (with_kernel) cells.emplace_back(finding.kernel);
    cells.emplace_back(row_of(finding.figure).words);
    cells.emplace_back(value_in_words(finding, finding.before));
    cells.emplace_back(value_in_words(finding, finding.after));
    cells.emplace_back(delta_in_words(finding));
    cells.emplace_back(share_in_words(finding));
    cells.emplace_back(verdict_in_words(finding), colour_of(finding));
    table.add(std::move(cells), {},
              finding.note.empty() ? "" : "      " + printable(finding.note, kNoLimit) + "\n");
  }
  return table;
}

}  // namespace

void write_table(const Comparison& comparison, const Style& style, Output& output) {
  output.write(
      coloured(printable(comparison.base) + " -> " + printable(comparison.fresh), kBold, style) +
      "\n\n");
  const TextTable table = table_of(comparison, style);
  if (!table.empty()) {
    table.write(output);
    output.write("\n");
  }
  output.write("  " + coloured(summary_of(comparison), comparison.failed() ? kBad : kGood, style) +
               "\n");
  for (const std::string& note : comparison.notes) {
    output.write("  note: " + printable(note, kNoLimit) + "\n");
  }
}

}  // namespace fusecalc
