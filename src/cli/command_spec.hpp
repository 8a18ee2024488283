#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace fusecalc {

// A command or subcommand and what may follow it.
struct CommandSpec {
  struct Argument {
    std::vector<std::string> flags{};  // "--format"; none for a positional argument
    std::string description;
    bool takes_value = false;
    std::vector<std::string> choices{};  // the only values it takes; none: a file's name
  };

  std::string name;
  std::string description;
  std::vector<Argument> arguments{};
  std::vector<CommandSpec> subcommands{};
};

}  // namespace fusecalc
