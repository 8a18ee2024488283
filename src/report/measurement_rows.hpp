#pragma once

#include <array>
#include <string>
#include <vector>

#include "measure/measurement.hpp"

namespace fusecalc {

// A line of the tables that people read: a label and its figures as text.
struct MeasurementRow {
  std::string label;
  std::array<std::string, 6> cells;  // under kMeasurementColumns; "-" where it was not measured
  bool plan = false;                 // sums up the kernels above it
};

inline constexpr std::array<std::string_view, 6> kMeasurementColumns = {
    "analytic", "measured", "off by", "time", "GB/s", "of copy"};

// Rows of a long list are left out in the middle, and one says how many.
std::vector<MeasurementRow> isolated_rows(const Measurement& measurement);
std::vector<MeasurementRow> pipeline_rows(const Measurement& measurement);

// "predicted 4.0x, measured 3.9x".
std::string speedup_sentence(const Measurement& measurement);

// Everything that a reader should know about the figures, one sentence each.
std::vector<std::string> measurement_notes(const Measurement& measurement);

}  // namespace fusecalc
