#include "cli/result_files.hpp"

#include <algorithm>
#include <cctype>
#include <set>
#include <system_error>

#include "core/error.hpp"
#include "core/text.hpp"

namespace fusecalc {

namespace fs = std::filesystem;

bool is_result_file(const fs::path& path) {
  std::string extension = path.extension().string();
  for (char& c : extension) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return extension == ".json";
}

std::vector<fs::path> result_files(const std::string& folder) {
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
    } else if (is_result_file(entry->path())) {
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

}  // namespace fusecalc
