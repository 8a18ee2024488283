#pragma once

#include <span>
#include <string_view>

namespace fusecalc {

// A file of the source tree that is embedded in the binary.
struct EmbeddedFile {
  std::string_view name;  // without folder and extension
  std::string_view text;
};

std::span<const EmbeddedFile> embedded_schemas();
// GPUs that are known by name.
std::span<const EmbeddedFile> embedded_devices();
// Device code.
std::span<const EmbeddedFile> embedded_kernels();
// One that must exist.
std::string_view embedded_kernel(std::string_view name);
// Styles and scripts of HTML reports.
std::span<const EmbeddedFile> embedded_pages();
// One that must exist.
std::string_view embedded_page(std::string_view name);
// The library of op lists, for @name.
std::span<const EmbeddedFile> embedded_op_lists();
// Throws Error if there is none of that name.
std::string_view embedded_op_list(std::string_view name);

}  // namespace fusecalc
