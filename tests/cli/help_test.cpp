#include "support/help.hpp"

#include <doctest/doctest.h>

#include <sstream>
#include <string>

#include "core/text.hpp"
#include "support/invocation.hpp"
#include "version.hpp"

using namespace fusecalc;
using namespace fusecalc::testing;

TEST_CASE("help fits a screen of 24 lines by 80 columns and shows an example") {
  for (const Words& command : every_command()) {
    const std::string help = help_of(command);
    CAPTURE(help);
    int lines = 0;
    std::istringstream text(help);
    for (std::string line; std::getline(text, line); ++lines) {
      CHECK_MESSAGE(display_width(line) <= 80, line);
    }
    CHECK(lines <= 24);
    CHECK(help.find("Example") != std::string::npos);
    CHECK(help.find("fusecalc ") != std::string::npos);
  }
}

TEST_CASE("help is printed at any position of --help") {
  const std::string help = help_of({"analyze"});
  CHECK(invoke({"analyze", "-h"}).outcome().out == help);
  CHECK(invoke({"analyze", "ops.json", "--help"}).outcome().out == help);
  CHECK(invoke({"-h"}).outcome().out == help_of({}));
}

TEST_CASE("the command help prints what --help prints") {
  CHECK(invoke({"help"}).outcome().out == help_of({}));
  for (const Words& command : every_command()) {
    if (command.empty()) continue;
    CHECK(invoke({"help", command[0]}).outcome().out == help_of(command));
  }
}

TEST_CASE("help names every exit code") {
  const std::string help = help_of({});
  for (const std::string code :
       {"0 success", "1 a check failed", "2 bad usage or input", "3 not"}) {
    CHECK_MESSAGE(help.find(code) != std::string::npos, code);
  }
}

TEST_CASE("the version is one line") {
  for (const std::string option : {"--version", "-V"}) {
    const Outcome outcome = invoke({option}).outcome();
    CHECK(outcome.exit_code == 0);
    CHECK(outcome.out == "fusecalc " + std::string(kVersion) + "\n");
    CHECK(outcome.err == "");
  }
}
