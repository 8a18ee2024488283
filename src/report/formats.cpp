#include "report/formats.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <filesystem>
#include <functional>

#include "core/error.hpp"
#include "core/text.hpp"
#include "report/writers.hpp"

namespace fusecalc {
namespace {

constexpr std::array kFormats = {
    Format{.name = "table",
           .extension = ".txt",
           .write = write_table,
           .write_measurement = write_table},
    Format{
        .name = "json", .extension = ".json", .write = write_json, .write_measurement = write_json},
    Format{.name = "csv", .extension = ".csv", .write = write_csv, .write_measurement = write_csv},
    Format{.name = "markdown",
           .extension = ".md",
           .write = write_markdown,
           .write_measurement = write_markdown},
    Format{.name = "dot", .extension = ".dot", .write = write_dot, .write_measurement = nullptr},
    Format{.name = "mermaid",
           .extension = ".mmd",
           .write = write_mermaid,
           .write_measurement = nullptr},
};

template <std::string_view Format::*column>
constexpr auto column_of_formats() {
  std::array<std::string_view, kFormats.size()> values{};
  for (std::size_t i = 0; i < kFormats.size(); ++i) values[i] = kFormats[i].*column;
  return values;
}

constexpr auto kNames = column_of_formats<&Format::name>();
constexpr auto kExtensions = column_of_formats<&Format::extension>();

}  // namespace

std::span<const Format> formats() { return kFormats; }

std::span<const std::string_view> format_names() { return kNames; }

const Format& format_named(std::string_view name) {
  const auto* found = std::ranges::find(kFormats, name, &Format::name);
  assert(found != kFormats.end());
  return *found;
}

const Format& format_for_file(const std::string& path) {
  const std::string extension = std::filesystem::path(path).extension().string();
  const auto* found = std::ranges::find(kFormats, extension, &Format::extension);
  if (found == kFormats.end()) {
    throw Error(Fault::kBadInput,
                fmt::format("-o {}: the format follows from the extension; end the name in {}",
                            printable(path), listed(kExtensions)));
  }
  return *found;
}

std::span<const std::string_view> measurement_format_names() {
  // They come first.
  const auto draws = [](const Format& format) { return format.write_measurement == nullptr; };
  assert(std::ranges::is_partitioned(kFormats, std::not_fn(draws)));
  const auto first_drawing = std::ranges::find_if(kFormats, draws);
  return std::span(kNames).first(static_cast<std::size_t>(first_drawing - kFormats.begin()));
}

const Format& measurement_format_for_file(const std::string& path) {
  const Format& format = format_for_file(path);
  if (format.write_measurement != nullptr) return format;
  throw Error(Fault::kBadInput,
              fmt::format("-o {}: a measurement is no drawing; its formats are {}", printable(path),
                          listed(measurement_format_names())));
}

}  // namespace fusecalc
