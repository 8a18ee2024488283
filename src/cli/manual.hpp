#pragma once

#include <string>

#include "cli/command_spec.hpp"

namespace fusecalc {

// The manual page in roff's man macros.
std::string manual_page(const CommandSpec& program);

}  // namespace fusecalc
