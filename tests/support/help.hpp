#pragma once

#include <string>
#include <vector>

namespace fusecalc::testing {

// What `fusecalc COMMAND... --help` prints.
std::string help_of(std::vector<std::string> command);

// The names that a help text lists: subcommands, or options as they are typed (-f and --format).
std::vector<std::string> subcommands_in(const std::string& help);
std::vector<std::string> options_in(const std::string& help);

// The program itself (no words), then each of its subcommands (one word).
std::vector<std::vector<std::string>> every_command();

}  // namespace fusecalc::testing
