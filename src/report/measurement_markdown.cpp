#include <fmt/format.h>

#include "report/listing.hpp"
#include "report/measurement_rows.hpp"
#include "report/writers.hpp"

namespace fusecalc {
namespace {

void write_rows(Output& output, const MeasurementTable& table) {
  std::string head = fmt::format("\n| {} |", table.title);
  std::string rule = "|---|";
  for (const std::string_view column : table.columns) {
    head += fmt::format(" {} |", column);
    rule += "---:|";
  }
  output.write(head + "\n" + rule + "\n");
  for (const MeasurementRow& row : table.rows) {
    const std::size_t start = row.label.find_first_not_of(' ');
    const std::string label = markdown_text(row.label.substr(start));
    std::string line = row.plan ? fmt::format("| **{}** |", label) : fmt::format("| {} |", label);
    for (const std::string& cell : row.cells) line += fmt::format(" {} |", cell);
    output.write(line + "\n");
  }
}

void write_one(const MeasurementReport& report, Output& output) {
  const Measurement& measurement = report.measurement;
  output.write(fmt::format("### {} on {}\n", markdown_text(measurement.name),
                           markdown_text(measurement.gpu.device.name)));
  for (const MeasurementTable& table : measurement_tables(report)) write_rows(output, table);
  output.write("\n" + speedup_sentence(report) + "\n");
  for (const std::string& note : measurement_notes(report)) {
    output.write("\n- " + markdown_text(note));
  }
  output.write("\n");
}

}  // namespace

void write_markdown(std::span<const MeasurementReport> reports, const Style& /*style*/,
                    Output& output) {
  for (const MeasurementReport& report : reports) {
    if (&report != &reports.front()) output.write("\n");
    write_one(report, output);
  }
}

}  // namespace fusecalc
