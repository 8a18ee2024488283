#pragma once

#include <span>
#include <string_view>

namespace fusecalc {

// A file of the source tree that the binary carries.
struct EmbeddedFile {
  std::string_view name;  // without folder and extension
  std::string_view text;
};

std::span<const EmbeddedFile> embedded_schemas();
std::span<const EmbeddedFile> embedded_kernels();  // device code

}  // namespace fusecalc
