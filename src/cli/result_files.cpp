#include "cli/result_files.hpp"

#include <algorithm>
#include <cctype>
#include <set>
#include <string_view>
#include <system_error>

#include "core/error.hpp"
#include "core/text.hpp"

namespace fusecalc {

namespace fs = std::filesystem;

namespace {

std::string extension_of(const fs::path& path) {
  std::string extension = path.extension().string();
  for (char& c : extension) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return extension;
}

bool is_op_list_file(const fs::path& path) {
  constexpr std::string_view kExtensions[] = {".json", ".pt2", ".onnx"};
  return std::ranges::find(kExtensions, extension_of(path)) != std::end(kExtensions);
}

std::vector<fs::path> files_in(const std::string& folder, bool (*wanted)(const fs::path&)) {
  constexpr auto kFollow = fs::directory_options::follow_directory_symlink;
  std::vector<fs::path> paths;
  std::error_code error;
  std::set<fs::path> visited = {fs::canonical(folder, error)};  // links may lead back
  for (fs::recursive_directory_iterator entry(folder, kFollow, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code unknown;  // a link to nothing is read, and refused there
    if (entry->is_directory(unknown)) {
      if (!visited.insert(fs::canonical(entry->path(), unknown)).second) {
        entry.disable_recursion_pending();
      }
    } else if (wanted(entry->path())) {
      if (entry->exists(unknown) && !entry->is_regular_file(unknown)) {
        throw Error(Fault::kBadInput, printable(entry->path().string()) + ": not a regular file");
      }
      paths.push_back(entry->path());
    }
  }
  if (error) throw Error(Fault::kBadInput, printable(folder) + ": " + error.message());
  std::ranges::sort(paths);
  return paths;
}

}  // namespace

bool is_result_file(const fs::path& path) { return extension_of(path) == ".json"; }

std::vector<fs::path> result_files(const std::string& folder) {
  return files_in(folder, is_result_file);
}

std::vector<fs::path> op_list_files(const std::string& folder) {
  std::vector<fs::path> files = files_in(folder, is_op_list_file);
  if (!files.empty()) return files;
  throw Error(Fault::kBadInput,
              printable(folder) + ": holds no op list and no model (.json, .pt2 or .onnx)");
}

}  // namespace fusecalc
