#pragma once

#include <span>
#include <string>
#include <string_view>

#include "cli/command_spec.hpp"

namespace fusecalc {

std::span<const std::string_view> shell_names();

// A completion script for one of shell_names().
std::string completion_script(const CommandSpec& program, std::string_view shell);

}  // namespace fusecalc
