#pragma once

#include <string>
#include <vector>

#include "support/words.hpp"

namespace fusecalc::testing {

// What `fusecalc COMMAND... --help` prints.
std::string help_of(Words command);

// The names that a help text lists: subcommands, or options as they are typed (-f and --format).
Words subcommands_in(const std::string& help);
Words options_in(const std::string& help);

// The program itself (no words), then each of its subcommands (one word).
std::vector<Words> every_command();

}  // namespace fusecalc::testing
