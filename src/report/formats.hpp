#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/output.hpp"
#include "measure/measurement.hpp"
#include "report/analysis.hpp"

namespace fusecalc {

// How a table may look where it goes.
struct Look {
  bool colour = false;
  bool explain = false;  // every kernel in full, with the reasons of its boundaries
};

// A measurement, and for a graph what was predicted of it: every plan, and the kernels of the two
// that ran in the same order.
struct MeasurementReport {
  Measurement measurement;
  std::optional<Analysis> analysis{};
};

// One output format: adding a row here adds it to --format, to -o and to the completions.
struct Format {
  std::string_view name;
  std::string_view extension;
  void (*write)(const Analysis&, const Look&, Output&);
  void (*write_measurement)(std::span<const MeasurementReport>, const Look&,
                            Output&);  // null: no such thing
};

std::span<const Format> formats();
// For the words that --format takes.
std::span<const std::string_view> format_names();
// Those of them that a measurement has.
std::span<const std::string_view> measurement_format_names();

const Format& format_named(std::string_view name);
// Throws Error where the file name's extension is none of ours.
const Format& format_for_file(const std::string& path);
// Throws Error where that format has no measurement in it, too.
const Format& measurement_format_for_file(const std::string& path);

}  // namespace fusecalc
