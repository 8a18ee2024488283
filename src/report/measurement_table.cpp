#include <fmt/format.h>

#include <utility>
#include <vector>

#include "core/format.hpp"
#include "core/text.hpp"
#include "report/cells.hpp"
#include "report/measurement_rows.hpp"
#include "report/text_table.hpp"
#include "report/writers.hpp"

namespace fusecalc {
namespace {

using Kind = TextTable::Kind;

void write_rows(Output& output, const MeasurementTable& table, const Style& style) {
  std::vector<TextTable::Column> columns = {{std::string(table.title), Kind::kName}};
  for (const std::string_view column : table.columns) {
    columns.push_back({std::string(column), Kind::kNumber});
  }
  TextTable text(std::move(columns), style);
  for (const MeasurementRow& row : table.rows) {
    std::vector<TextTable::Cell> cells = {row.label};
    cells.insert(cells.end(), row.cells.begin(), row.cells.end());
    text.add(std::move(cells), row.plan ? kBold : "");
  }
  output.write("\n");
  text.write(output);
}

void write_one(const MeasurementReport& report, const Style& style, Output& output) {
  const Measurement& measurement = report.measurement;
  output.write(fmt::format("{}: {} operation{}", coloured(printable(measurement.name), "1", style),
                           grouped_digits(measurement.operations),
                           measurement.operations == 1 ? "" : "s"));
  if (measurement.synthetic) {
    output.write(fmt::format(", {} byte{} an element", measurement.dtype_bytes,
                             measurement.dtype_bytes == 1 ? "" : "s"));
  }
  output.write(", on " + printable(measurement.gpu.device.name));
  if (measurement.copy_bytes_per_s) {
    output.write(fmt::format(" (it copies at {:.0f} GB/s)", *measurement.copy_bytes_per_s / 1e9));
  }
  output.write("\n");
  for (const MeasurementTable& table : measurement_tables(report)) {
    write_rows(output, table, style);
  }
  output.write("\n  " + speedup_sentence(report) + "\n");
  for (const std::string& note : measurement_notes(report)) {
    output.write("  " + coloured("note: ", "33", style) + printable(note, 400) + "\n");
  }
}

// The summary of a suite, one line per op list.
void write_summary(std::span<const MeasurementReport> reports, const Style& style, Output& output) {
  TextTable table({{"summary", Kind::kName},
                   {"predicted", Kind::kNumber},
                   {"measured", Kind::kNumber},
                   {"checked", Kind::kText}},
                  style, 0);
  for (const MeasurementReport& report : reports) {
    const Measurement& measurement = report.measurement;
    const std::optional<double> speedup = measurement.measured_speedup();
    table.add({measurement.name, fmt::format("{:.2f}x", predicted_speedup(report)),
               speedup ? fmt::format("{:.2f}x", *speedup) : "-", verdict_word(measurement)});
  }
  output.write("\n");
  table.write(output);
}

}  // namespace

void write_table(std::span<const MeasurementReport> reports, const Style& style, Output& output) {
  for (const MeasurementReport& report : reports) {
    if (&report != &reports.front()) output.write("\n");
    write_one(report, style, output);
  }
  if (reports.size() > 1) write_summary(reports, style, output);
}

}  // namespace fusecalc
