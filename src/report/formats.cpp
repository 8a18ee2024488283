#include "report/formats.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <filesystem>
#include <vector>

#include "core/error.hpp"
#include "core/text.hpp"
#include "report/writers.hpp"

namespace fusecalc {
namespace {

BoundaryScope explained(const Style& style) {
  return style.explain ? BoundaryScope::kHeadline : BoundaryScope::kNoPlan;
}

BoundaryScope every_plan(const Style& /*style*/) { return BoundaryScope::kEveryPlan; }

constexpr std::array kFormats = {
    Format{"table", ".txt", write_table, write_table, write_table, write_table, write_table,
           write_table, explained},
    Format{"json", ".json", write_json, write_json, write_json, write_json, write_json, write_json,
           every_plan},
    Format{"csv", ".csv", write_csv, write_csv, write_csv, write_csv, write_csv, write_csv},
    Format{"markdown", ".md", write_markdown, write_markdown, write_markdown, write_markdown,
           write_markdown, write_markdown, explained},
    Format{.name = "html",
           .extension = ".html",
           .write = write_html,
           .write_several = write_html,
           .write_measurement = write_html,
           .write_comparison = write_html,
           .write_sweep = write_html,
           .write_profile = write_html,
           .boundaries = every_plan},
    Format{.name = "dot", .extension = ".dot", .write = write_dot},
    Format{.name = "mermaid", .extension = ".mmd", .write = write_mermaid},
    Format{.name = "junit", .extension = ".xml", .write_comparison = write_junit},
    Format{.name = "benchmark",
           .extension = ".benchmark.json",
           .write = write_benchmark,
           .write_measurement = write_benchmark,
           .write_comparison = write_benchmark},
    Format{.name = "github", .extension = "", .write_comparison = write_github},
};

using Column = std::string_view Format::*;

// A column of the formats that have this writer.
template <auto writer>
std::vector<std::string_view> column_of(Column column) {
  std::vector<std::string_view> values;
  for (const Format& format : kFormats) {
    if (format.*writer != nullptr && !(format.*column).empty()) values.push_back(format.*column);
  }
  return values;
}

template <auto writer>
std::span<const std::string_view> names() {
  static const std::vector<std::string_view> names = column_of<writer>(&Format::name);
  return names;
}

// The longest extension decides: ".benchmark.json" is not ".json".
template <auto writer>
const Format& for_file(const std::string& path) {
  const std::string name = std::filesystem::path(path).filename().string();
  const Format* found = nullptr;
  for (const Format& format : kFormats) {
    const std::string_view extension = format.extension;
    const bool fits = format.*writer != nullptr && !extension.empty() &&
                      name.size() > extension.size() && name.ends_with(extension);
    if (fits && (found == nullptr || extension.size() > found->extension.size())) found = &format;
  }
  if (found != nullptr) return *found;
  throw Error(Fault::kBadInput,
              fmt::format("-o {}: the format follows from the extension; end the name in {}",
                          printable(path), listed(column_of<writer>(&Format::extension))));
}

}  // namespace

std::span<const Format> formats() { return kFormats; }

std::span<const std::string_view> format_names() { return names<&Format::write>(); }
std::span<const std::string_view> measurement_format_names() {
  return names<&Format::write_measurement>();
}
std::span<const std::string_view> comparison_format_names() {
  return names<&Format::write_comparison>();
}
std::span<const std::string_view> sweep_format_names() { return names<&Format::write_sweep>(); }

std::span<const std::string_view> profile_format_names() { return names<&Format::write_profile>(); }

const Format& format_named(std::string_view name) {
  const auto* found = std::ranges::find(kFormats, name, &Format::name);
  assert(found != kFormats.end());
  return *found;
}

const Format& format_for_file(const std::string& path) { return for_file<&Format::write>(path); }
const Format& measurement_format_for_file(const std::string& path) {
  return for_file<&Format::write_measurement>(path);
}
const Format& comparison_format_for_file(const std::string& path) {
  return for_file<&Format::write_comparison>(path);
}
const Format& profile_format_for_file(const std::string& path) {
  return for_file<&Format::write_profile>(path);
}

const Format& sweep_format_for_file(const std::string& path) {
  return for_file<&Format::write_sweep>(path);
}

}  // namespace fusecalc
