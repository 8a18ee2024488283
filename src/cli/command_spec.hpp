#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace fusecalc {

// A command or subcommand and its arguments.
struct CommandSpec {
  struct Argument {
    std::vector<std::string> flags{};  // "--format"; none for a positional argument
    std::string description;
    bool takes_value = false;
    bool names_file = false;             // the value is a file's name
    std::vector<std::string> choices{};  // the only values it takes; none: any
  };

  std::string name;
  std::string description;
  std::vector<Argument> arguments{};
  std::vector<CommandSpec> subcommands{};
};

}  // namespace fusecalc
