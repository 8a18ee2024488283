#include "cli/outputs.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <optional>
#include <utility>

#include "core/error.hpp"
#include "core/text.hpp"

namespace fusecalc {
namespace {

// What identifies a regular file under any of its paths; nothing for anything else.
std::optional<std::pair<dev_t, ino_t>> identity_of(const std::string& path) {
  struct stat status {};
  const int result = path == "-" ? ::fstat(STDIN_FILENO, &status) : ::stat(path.c_str(), &status);
  if (result != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  return std::pair(status.st_dev, status.st_ino);
}

}  // namespace

void refuse_overwriting_inputs(std::span<const std::string> outputs,
                               std::span<const std::string> inputs) {
  for (const std::string& output : outputs) {
    const auto target = output == "-" ? std::nullopt : identity_of(output);
    if (!target) continue;
    for (const std::string& input : inputs) {
      if (identity_of(input) != target) continue;
      throw Error(Fault::kBadInput,
                  fmt::format("-o {}: this file is an input of the command and would be lost; "
                              "write to another file",
                              printable(output)));
    }
  }
}

}  // namespace fusecalc
