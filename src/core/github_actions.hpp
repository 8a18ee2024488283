#pragma once

#include <cstdlib>
#include <string_view>

namespace fusecalc {

// Whether this process is a step of a workflow of GitHub Actions.
inline bool in_github_actions() {
  const char* value = std::getenv("GITHUB_ACTIONS");
  return value != nullptr && !std::string_view(value).empty();
}

}  // namespace fusecalc
