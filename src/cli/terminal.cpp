#include "cli/terminal.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
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

}  // namespace

ByteSource open_document(const std::string& document) {
  if (!document.starts_with('@')) {
    refuse_missing(document);
    return ByteSource::open(document);
  }
  return ByteSource::from_memory(embedded_op_list(document.substr(1)), document);
}

Style style_of_standard_output(bool explain) {
  const auto is_set = [](const char* variable) {
    const char* value = std::getenv(variable);
    return value != nullptr && *value != '\0';
  };
  const char* terminal = std::getenv("TERM");
  const bool dumb = terminal != nullptr && std::string_view(terminal) == "dumb";
  return {.colour = ::isatty(STDOUT_FILENO) == 1 && !dumb && !is_set("NO_COLOR"),
          .explain = explain};
}

}  // namespace fusecalc
