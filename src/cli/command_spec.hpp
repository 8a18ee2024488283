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
    std::string value_name{};  // what help calls the value: "FILE"
    bool takes_value = false;
    bool several = false;                // takes more values than one
    bool names_file = false;             // the value is a file's name
    std::vector<std::string> choices{};  // the only values it takes, besides files; none: any
  };

  std::string name;
  std::string description;
  std::string notes{};  // what help ends with: remarks, and examples indented by two spaces
  std::vector<Argument> arguments{};
  std::vector<CommandSpec> subcommands{};
};

}  // namespace fusecalc
