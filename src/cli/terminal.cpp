#include "cli/terminal.hpp"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "core/text.hpp"

namespace fusecalc {

std::string name_of_document(const std::string& path) {
  return path == "-" ? "stdin" : printable(std::filesystem::path(path).stem().string());
}

Look look_of_standard_output() {
  const auto is_set = [](const char* variable) {
    const char* value = std::getenv(variable);
    return value != nullptr && *value != '\0';
  };
  const char* terminal = std::getenv("TERM");
  const bool dumb = terminal != nullptr && std::string_view(terminal) == "dumb";
  return {.colour = ::isatty(STDOUT_FILENO) == 1 && !dumb && !is_set("NO_COLOR")};
}

}  // namespace fusecalc
