#include "support/files.hpp"

#include <doctest/doctest.h>
#include <stdlib.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <system_error>

namespace fusecalc::testing {

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE_MESSAGE(file.is_open(), path.string());
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_file(const std::filesystem::path& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  REQUIRE_MESSAGE(file.good(), path.string());
}

Words names_in(const std::filesystem::path& folder) {
  Words names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

std::filesystem::path tests_folder(std::string_view name) {
  return std::filesystem::path(FUSECALC_SOURCE_DIR) / "tests" / name;
}

TempDir::TempDir() {
  std::string pattern = (std::filesystem::temp_directory_path() / "fusecalc-test-XXXXXX").string();
  REQUIRE(::mkdtemp(pattern.data()) != nullptr);
  path_ = pattern;
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace fusecalc::testing
