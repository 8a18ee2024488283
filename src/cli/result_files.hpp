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

// The op lists and models of a folder (.json, .pt2, .onnx), in the same way; throws Error if there
// is none.
std::vector<std::filesystem::path> op_list_files(const std::string& folder);

}  // namespace fusecalc
