#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace fusecalc {

// Whether `compare` reads a file of a folder: .json, in any spelling.
bool is_result_file(const std::filesystem::path& path);

// Those of a folder and of the folders in it, sorted. Links are followed, each folder once. Throws
// Error if a folder cannot be read, or if one of the files is a pipe or a device.
std::vector<std::filesystem::path> result_files(const std::string& folder);

}  // namespace fusecalc
