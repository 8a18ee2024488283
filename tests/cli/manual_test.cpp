#include <doctest/doctest.h>

#include <string>

#include "support/help.hpp"
#include "support/invocation.hpp"

using namespace fusecalc::testing;

namespace {

std::string printed_page() {
  const Outcome outcome = invoke({"manual"}).outcome();
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.err == "");
  return outcome.out;
}

// The part that describes a command.
std::string section_of(const std::string& page, const std::string& command) {
  const std::size_t begin = page.find(".SS " + command + "\n");
  CHECK(begin != std::string::npos);
  if (begin == std::string::npos) return {};
  return page.substr(begin, page.find("\n.S", begin + 1) - begin);
}

}  // namespace

TEST_CASE("the manual page has every command with its options and examples") {
  const std::string page = printed_page();
  for (const Words& command : every_command()) {
    if (command.empty()) continue;
    const std::string section = section_of(page, command[0]);
    for (const std::string& option : options_in(help_of(command))) {
      if (option == "-h" || option == "--help") continue;  // said once, for all commands
      std::string escaped;
      for (const char c : option) escaped += c == '-' ? "\\-" : std::string(1, c);
      CHECK_MESSAGE(section.find("\\fB" + escaped + "\\fR") != std::string::npos, option);
    }
    const std::size_t example = section.find("\n.EX\n");
    CHECK_MESSAGE(example != std::string::npos, section);
    CHECK_MESSAGE(section.find("fusecalc " + command[0], example) != std::string::npos, section);
  }
  CHECK(section_of(page, "analyze").find("[\\fIOPTIONS\\fR] \\fIFILE\\fR...\n") !=
        std::string::npos);
}

TEST_CASE("the manual page has the sections of one, and its own command stays unlisted") {
  const std::string page = printed_page();
  for (const char* name : {"NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "COMMANDS", "EXIT STATUS",
                           "ENVIRONMENT", "FILES"}) {
    CHECK_MESSAGE(page.find(std::string("\n.SH ") + name + "\n") != std::string::npos, name);
  }
  CHECK(page.find(".SS manual\n") == std::string::npos);
  CHECK(help_of({}).find("manual") == std::string::npos);
  CHECK(help_of({"manual"}).find("fusecalc manual | man -l -") != std::string::npos);
}

TEST_CASE("groff reads the manual page without a warning") {
  const Outcome outcome =
      Invocation("groff", {"-ww", "-man", "-Tascii"}).input(printed_page()).outcome();
  constexpr int kNotInstalled = 127;
  if (outcome.exit_code == kNotInstalled) {
    MESSAGE("left out: no groff here");
    return;
  }
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.err == "");
}
