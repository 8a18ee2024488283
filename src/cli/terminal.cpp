#include "cli/terminal.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <vector>

#include "core/embedded.hpp"
#include "core/error.hpp"
#include "core/suggest.hpp"
#include "core/text.hpp"

namespace fusecalc {

std::string name_of_document(const std::string& path) {
  return path == "-" ? "stdin" : printable(std::filesystem::path(path).stem().string());
}

namespace {

// A name that is no file may be one of the library without its @.
void refuse_missing(const std::string& document) {
  std::error_code error;
  const std::filesystem::path path(document);
  if (path.has_parent_path() || std::filesystem::exists(path, error)) return;
  std::vector<std::string_view> names;
  for (const EmbeddedFile& file : embedded_op_lists()) names.push_back(file.name);
  const std::string name = path.stem().string();
  const bool known = std::ranges::find(names, name) != names.end();
  const std::string_view meant = known ? std::string_view(name) : nearest(name, names);
  if (meant.empty()) return;
  throw Error(Fault::kBadInput, fmt::format("{}: No such file (did you mean @{}, an op list of "
                                            "fusecalc specs?)",
                                            printable(document), meant));
}

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

// Of the terminal; COLUMNS, where it is set, goes before it.
std::optional<std::size_t> width_of_standard_output() {
  constexpr std::size_t kLeast = 20;
  constexpr std::size_t kMost = 10000;
  const std::string_view columns = variable("COLUMNS");
  std::size_t width = 0;
  const auto parsed = std::from_chars(columns.data(), columns.data() + columns.size(), width);
  winsize window{};
  if (parsed.ec != std::errc() || parsed.ptr != columns.data() + columns.size() || width == 0) {
    width = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 ? window.ws_col : 0;
  }
  if (width == 0) return std::nullopt;  // no terminal, or one that does not know
  return std::clamp(width, kLeast, kMost);
}

// As POSIX finds it, but that no word about the locale counts as UTF-8.
bool locale_is_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    std::string locale(variable(name));
    if (locale.empty()) continue;
    std::ranges::transform(locale, locale.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return locale.find("utf-8") != std::string::npos || locale.find("utf8") != std::string::npos;
  }
  return true;
}

}  // namespace

ByteSource open_document(const std::string& document) {
  if (!document.starts_with('@')) {
    refuse_missing(document);
    return ByteSource::open(document);
  }
  return ByteSource::from_memory(embedded_op_list(document.substr(1)), document);
}

std::string default_format() { return ::isatty(STDOUT_FILENO) == 1 ? "table" : "json"; }

void refuse_format_of_one(const std::string& command, const std::optional<std::string>& format) {
  if (!format || *format == "json") return;
  throw Error(
      Fault::kBadInput,
      fmt::format("{}: with a NAME, it prints JSON; leave out --format {}", command, *format));
}

Style style_of_standard_output(bool explain) {
  const bool terminal = ::isatty(STDOUT_FILENO) == 1;
  const std::optional<std::size_t> width = width_of_standard_output();
  return {.colour = terminal && variable("TERM") != "dumb" && variable("NO_COLOR").empty(),
          .explain = explain,
          .width = width.value_or(Style{}.width),
          .wraps = width.has_value(),
          .utf8 = locale_is_utf8()};
}

}  // namespace fusecalc
