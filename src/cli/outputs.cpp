#include "cli/outputs.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "cli/result_files.hpp"
#include "core/error.hpp"
#include "core/text.hpp"

namespace fusecalc {
namespace {

namespace fs = std::filesystem;

// What identifies a regular file under any of its paths; nothing for anything else.
std::optional<std::pair<dev_t, ino_t>> identity_of(const std::string& path) {
  struct stat status {};
  const int result = path == "-" ? ::fstat(STDIN_FILENO, &status) : ::stat(path.c_str(), &status);
  if (result != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  return std::pair(status.st_dev, status.st_ino);
}

bool is_folder(const std::string& path) {
  std::error_code error;
  return path != "-" && fs::is_directory(path, error);
}

// Whether a result that is written there would be read with the folder next time.
bool is_inside(const std::string& output, const std::string& folder) {
  std::error_code error;
  const fs::path target = fs::weakly_canonical(output, error);
  const fs::path root = fs::canonical(folder, error);
  return is_result_file(target) && std::ranges::mismatch(root, target).in1 == root.end();
}

// The inputs, with the results of every folder in its place.
std::vector<std::string> files_of(std::span<const std::string> inputs) {
  std::vector<std::string> files;
  for (const std::string& input : inputs) {
    if (!is_folder(input)) {
      files.push_back(input);
      continue;
    }
    for (const fs::path& path : result_files(input)) files.push_back(path.string());
  }
  return files;
}

}  // namespace

void refuse_overwriting_inputs(std::span<const std::string> outputs,
                               std::span<const std::string> inputs) {
  if (outputs.empty()) return;
  const std::vector<std::string> files = files_of(inputs);
  for (const std::string& output : outputs) {
    for (const std::string& input : inputs) {
      if (!is_folder(input) || !is_inside(output, input)) continue;
      throw Error(Fault::kBadInput,
                  fmt::format("-o {}: the command reads the files in {}, and would read this one "
                              "with them; write to another folder",
                              printable(output), printable(input)));
    }
    const auto target = output == "-" ? std::nullopt : identity_of(output);
    if (!target) continue;
    for (const std::string& file : files) {
      if (identity_of(file) != target) continue;
      throw Error(Fault::kBadInput,
                  fmt::format("-o {}: this file is an input of the command and would be lost; "
                              "write to another file",
                              printable(output)));
    }
  }
}

}  // namespace fusecalc
