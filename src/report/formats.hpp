#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "analysis/analysis.hpp"
#include "analysis/boundaries.hpp"
#include "compare/comparison.hpp"
#include "core/output.hpp"
#include "measure/measurement.hpp"
#include "profile/profile.hpp"
#include "sweep/folder.hpp"
#include "sweep/results.hpp"

namespace fusecalc {

// How the destination of a table lets it be styled.
struct Style {
  bool colour = false;
  bool explain = false;     // every kernel in full, with the reasons of its boundaries
  std::size_t width = 100;  // columns of a line of a table
  bool wraps = false;       // whether whole sentences keep to the width, too: a person reads them
  bool utf8 = true;         // whether bars are drawn with blocks
};

// A measurement, and for a graph what was predicted of it: every plan, and the kernels of the two
// that ran in the same order.
struct MeasurementReport {
  Measurement measurement;
  std::optional<Analysis> analysis{};
};

// One output format: adding a row here adds it to --format, to -o and to the completions. A writer
// is null where the format has no such thing.
struct Format {
  std::string_view name;
  std::string_view extension;  // empty: not for files
  void (*write)(const Analysis&, const Style&, Output&) = nullptr;
  void (*write_several)(std::span<const Analysis>, const Style&, Output&) = nullptr;
  void (*write_measurement)(std::span<const MeasurementReport>, const Style&, Output&) = nullptr;
  void (*write_comparison)(const Comparison&, const Style&, Output&) = nullptr;
  SweepSummary (*write_sweep)(const SweepFolder&, const Style&, Output&) = nullptr;
  void (*write_profile)(const Profile&, const Style&, Output&) = nullptr;
  // The plans whose boundaries must have been found for this output.
  BoundaryScope (*boundaries)(const Style&) = [](const Style&) { return BoundaryScope::kNoPlan; };
};

std::span<const Format> formats();
// The words that --format takes, by what is written.
std::span<const std::string_view> format_names();
std::span<const std::string_view> measurement_format_names();
std::span<const std::string_view> comparison_format_names();
std::span<const std::string_view> sweep_format_names();
std::span<const std::string_view> profile_format_names();

const Format& format_named(std::string_view name);
// By a file name's extension; throw Error where it is none, or that of a format that has no such
// thing.
const Format& format_for_file(const std::string& path);
const Format& measurement_format_for_file(const std::string& path);
const Format& comparison_format_for_file(const std::string& path);
const Format& sweep_format_for_file(const std::string& path);
const Format& profile_format_for_file(const std::string& path);

}  // namespace fusecalc
