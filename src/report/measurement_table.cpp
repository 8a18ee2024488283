#include <fmt/format.h>

#include <algorithm>

#include "core/format.hpp"
#include "core/text.hpp"
#include "report/cells.hpp"
#include "report/measurement_rows.hpp"
#include "report/writers.hpp"

namespace fusecalc {
namespace {

constexpr std::size_t kLabelWidth = 24;

// Padded by what a terminal shows; fmt counts code points of two columns otherwise.
std::string padded(std::string_view text, std::size_t width, bool right) {
  const std::size_t shown = display_width(text);
  const std::string space(width > shown ? width - shown : 1, ' ');
  return right ? space + std::string(text) : std::string(text) + space;
}

void write_rows(Output& output, const MeasurementTable& table, const Style& style) {
  std::size_t label_width = std::max(kLabelWidth, display_width(table.title) + 2);
  for (const MeasurementRow& row : table.rows) {
    label_width = std::max(label_width, display_width(row.label) + 2);
  }
  std::string head = "\n  " + padded(table.title, label_width, false);
  for (const MeasurementColumn& column : table.columns) {
    head += padded(column.name, column.width, true);
  }
  output.write(head + "\n");
  for (const MeasurementRow& row : table.rows) {
    std::string line = padded(row.label, label_width, false);
    for (std::size_t i = 0; i < row.cells.size(); ++i) {
      line += padded(row.cells[i], table.columns[i].width, true);
    }
    output.write("  " + (row.plan ? coloured(line, "1", style) : line) + "\n");
  }
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
  for (const std::string& note : measurement_notes(measurement)) {
    output.write("  " + coloured("note: ", "33", style) + printable(note, 400) + "\n");
  }
}

// The summary of a suite, one line per op list.
void write_summary(std::span<const MeasurementReport> reports, const Style& style, Output& output) {
  std::size_t label = kLabelWidth;
  for (const MeasurementReport& report : reports) {
    label = std::max(label, display_width(printable(report.measurement.name)) + 2);
  }
  output.write("\n" + coloured(padded("summary", label, false) + "  predicted  measured  checked\n",
                               "1", style));
  for (const MeasurementReport& report : reports) {
    const Measurement& measurement = report.measurement;
    const std::optional<double> speedup = measurement.measured_speedup();
    output.write(padded(printable(measurement.name), label, false) +
                 fmt::format("{:>10.2f}x{:>9}  {}\n", predicted_speedup(report),
                             speedup ? fmt::format("{:.2f}x", *speedup) : "-",
                             verdict_word(measurement)));
  }
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
