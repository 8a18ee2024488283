#include "cli/terminal.hpp"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "core/embedded.hpp"
#include "core/text.hpp"

namespace fusecalc {

std::string name_of_document(const std::string& path) {
  return path == "-" ? "stdin" : printable(std::filesystem::path(path).stem().string());
}

ByteSource open_document(const std::string& document) {
  if (!document.starts_with('@')) return ByteSource::open(document);
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
