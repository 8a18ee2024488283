// A comparison as CSV and Markdown.

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "core/format.hpp"
#include "core/text.hpp"
#include "report/comparison_cells.hpp"
#include "report/listing.hpp"
#include "report/writers.hpp"

namespace fusecalc {
namespace {

std::string raw_value(const Finding& finding, const std::optional<std::int64_t>& value) {
  if (!value) return "";
  if (row_of(finding.figure).unit != Unit::kPicoseconds) return std::to_string(*value);
  return shortest_decimal(static_cast<double>(*value) / kPicosecondsInMicrosecond);
}

void write_markdown_table(const Comparison& comparison, std::size_t most, bool only_changed,
                          Output& output) {
  std::size_t rows = 0;
  std::size_t left_out = 0;
  for (const Finding& finding : comparison.findings) {
    if (only_changed && !finding.changed()) continue;
    if (rows == most) {
      ++left_out;
      continue;
    }
    if (rows++ == 0) {
      output.write(
          "| verdict | spec | plan | kernel | figure | before | after | delta | share | why |\n"
          "|---|---|---|---|---|---:|---:|---:|---:|---|\n");
    }
    const std::string verdict = verdict_in_words(finding);
    output.write(fmt::format(
        "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n",
        finding.failed ? "**" + verdict + "**" : verdict, markdown_text(finding.spec),
        markdown_text(finding.plan), markdown_text(finding.kernel), row_of(finding.figure).words,
        value_in_words(finding, finding.before), value_in_words(finding, finding.after),
        delta_in_words(finding), share_in_words(finding), markdown_text(finding.note)));
  }
  if (rows > 0) output.write("\n");
  if (left_out > 0) output.write(fmt::format("and {} more.\n\n", grouped_digits(left_out)));
  for (const std::string& note : comparison.notes) output.write("- " + markdown_text(note) + "\n");
}

}  // namespace

void write_csv(const Comparison& comparison, const Style& /*style*/, Output& output) {
  output.write(
      "spec,plan,kernel,change,figure,unit,before,after,delta,share_pct,verdict,failed,note\n");
  constexpr std::string_view kUnits[] = {"", "bytes", "us"};
  for (const Finding& finding : comparison.findings) {
    const FigureRow& figure = row_of(finding.figure);
    const std::optional<double> share = finding.share();
    output.write(fmt::format(
        "{},{},{},{},{},{},{},{},{},{},{},{},{}\n", csv_field(finding.spec),
        csv_field(finding.plan), csv_field(finding.kernel), name_of(finding.change), figure.name,
        kUnits[static_cast<std::size_t>(figure.unit)],
        raw_value(finding, as_signed(finding.before)), raw_value(finding, as_signed(finding.after)),
        raw_value(finding, finding.delta()), share ? fmt::format("{:.6f}", *share) : "",
        name_of(finding.judgement), finding.failed, csv_field(finding.note)));
  }
}

void write_markdown(const Comparison& comparison, const Style& /*style*/, Output& output) {
  output.write(fmt::format("### {} -> {}\n\n{}\n\n", markdown_text(comparison.base),
                           markdown_text(comparison.fresh), summary_of(comparison)));
  write_markdown_table(comparison, std::string::npos, false, output);
}

void write_summary(const Comparison& comparison, Output& output) {
  // GitHub drops the summary of a step that is larger than 1 MiB.
  constexpr std::size_t kMostRows = 200;
  output.write(fmt::format("### fusecalc compare: {}\n\n{} -> {}\n\n", summary_of(comparison),
                           markdown_text(comparison.base), markdown_text(comparison.fresh)));
  write_markdown_table(comparison, kMostRows, true, output);
}

}  // namespace fusecalc
