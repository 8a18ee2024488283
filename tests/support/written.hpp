#pragma once

#include <string>

#include "core/output.hpp"
#include "support/files.hpp"

namespace fusecalc::testing {

// The text that `write` gives to an Output.
template <typename Write>
std::string written(const Write& write) {
  const TempDir folder;
  Output output = Output::file((folder / "text").string());
  write(output);
  output.finish();
  return read_file(folder / "text");
}

}  // namespace fusecalc::testing
