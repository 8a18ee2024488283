#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "support/words.hpp"

namespace fusecalc::testing {

// The whole of a file; fails the test where there is none.
std::string read_file(const std::filesystem::path& path);
void write_file(const std::filesystem::path& path, std::string_view text);

// The names in a folder, sorted.
Words names_in(const std::filesystem::path& folder);

// A folder of the source tree's tests.
std::filesystem::path tests_folder(std::string_view name);

// An empty folder that goes away with everything in it.
class TempDir {
 public:
  TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir();

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

}  // namespace fusecalc::testing
