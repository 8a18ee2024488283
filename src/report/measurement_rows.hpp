#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "report/formats.hpp"

namespace fusecalc {

// A line of the tables that people read: a label and its figures as text.
struct MeasurementRow {
  std::string label;
  std::vector<std::string> cells;  // under the table's columns; "-" where it was not measured
  bool plan = false;               // sums up the kernels above it
};

struct MeasurementTable {
  std::string_view title;
  std::span<const std::string_view> columns;
  std::vector<MeasurementRow> rows;
};

// Those that have rows: each kernel alone, plans back to back, and what was predicted of both. Rows
// of a long list are left out in the middle, and one says how many.
std::vector<MeasurementTable> measurement_tables(const MeasurementReport& report);

// Whether what was measured lies in the range of its prediction; empty where it was not measured.
struct InRange {
  std::optional<bool> dram_read;
  std::optional<bool> dram_write;
  std::optional<bool> time;
};
InRange in_range(const Prediction& predicted, const Observed& observed);

// "predicted speedup 4.0x, measured 3.9x". Lists of sizes are predicted by their bytes.
std::string speedup_sentence(const MeasurementReport& report);
double predicted_speedup(const MeasurementReport& report);

// Whether the results were right: "ok", "WRONG", or "-" if they were not checked.
std::string_view verdict_word(const Measurement& measurement);

// Everything that a reader should know about the figures, one sentence each.
std::vector<std::string> measurement_notes(const MeasurementReport& report);

}  // namespace fusecalc
