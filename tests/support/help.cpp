#include "support/help.hpp"

#include <doctest/doctest.h>

#include <sstream>

#include "support/invocation.hpp"

namespace fusecalc::testing {
namespace {

// The first word of each entry under a heading: what is indented by exactly two spaces.
Words entries_under(const std::string& heading, const std::string& help) {
  Words entries;
  std::istringstream text(help);
  bool inside = false;
  for (std::string line; std::getline(text, line);) {
    if (!line.starts_with(' ')) {
      inside = line == heading + ":";
    } else if (inside && line.find_first_not_of(' ') == 2) {
      entries.push_back(line.substr(2, line.find(' ', 2) - 2));
    }
  }
  return entries;
}

}  // namespace

std::string help_of(Words command) {
  command.push_back("--help");
  const Outcome outcome = invoke(command).outcome();
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.err == "");
  return outcome.out;
}

Words subcommands_in(const std::string& help) {
  Words names = entries_under("Subcommands", help);
  REQUIRE(names.size() >= 3);
  return names;
}

Words options_in(const std::string& help) {
  Words names;
  for (const std::string& entry : entries_under("Options", help)) {
    std::istringstream spellings(entry);
    for (std::string name; std::getline(spellings, name, ',');) names.push_back(name);
  }
  REQUIRE_FALSE(names.empty());
  return names;
}

std::vector<Words> every_command() {
  std::vector<Words> commands = {{}};
  for (const std::string& name : subcommands_in(help_of({}))) commands.push_back({name});
  return commands;
}

}  // namespace fusecalc::testing
