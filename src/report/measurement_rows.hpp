#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "measure/measurement.hpp"

namespace fusecalc {

// A line of the tables that people read: a label and its figures as text.
struct MeasurementRow {
  std::string label;
  std::array<std::string, 9> cells;  // under kMeasurementColumns; "-" where it was not measured
  bool plan = false;                 // sums up the kernels above it
};

struct MeasurementColumn {
  std::string_view name;
  std::size_t width;
};

inline constexpr std::array<MeasurementColumn, 9> kMeasurementColumns = {{
    {"analytic", 12},
    {"measured", 12},
    {"off by", 10},
    {"time", 11},
    {"GB/s", 7},
    {"of copy", 9},
    {"regs", 6},
    {"spill", 7},
    {"occ", 6},
}};

// Rows of a long list are left out in the middle, and one says how many.
std::vector<MeasurementRow> isolated_rows(const Measurement& measurement);
std::vector<MeasurementRow> pipeline_rows(const Measurement& measurement);

// "predicted 4.0x, measured 3.9x".
std::string speedup_sentence(const Measurement& measurement);

// Whether the results were right: "ok", "WRONG", or "-" if they were not checked.
std::string_view verdict_word(const Measurement& measurement);

// Everything that a reader should know about the figures, one sentence each.
std::vector<std::string> measurement_notes(const Measurement& measurement);

}  // namespace fusecalc
