#include <doctest/doctest.h>

#include <string>

#include "support/files.hpp"
#include "support/invocation.hpp"

using namespace fusecalc::testing;

namespace {

const std::string kOps = R"([{"input_size": 8, "output_size": 8}])";

Invocation analyze(std::vector<std::string> options = {}) {
  options.insert(options.begin(), {"analyze", "-"});
  return invoke(options).input(kOps);
}

bool has_colour(const Outcome& outcome) { return outcome.out.find("\x1b[") != std::string::npos; }

}  // namespace

TEST_CASE("a terminal gets a table and everything else json") {
  CHECK(analyze().on_terminal().with("NO_COLOR", "1").outcome().out ==
        analyze({"-f", "table"}).outcome().out);
  CHECK(analyze().outcome().out == analyze({"-f", "json"}).outcome().out);
  CHECK(analyze({"-f", "json"}).on_terminal().outcome().out == analyze().outcome().out);
}

TEST_CASE("a table on a terminal is coloured unless the user says otherwise") {
  CHECK(has_colour(analyze().on_terminal().outcome()));
  CHECK(has_colour(analyze().on_terminal().with("NO_COLOR", "").outcome()));
  CHECK_FALSE(has_colour(analyze().on_terminal().with("NO_COLOR", "1").outcome()));
  CHECK_FALSE(has_colour(analyze().on_terminal().with("TERM", "dumb").outcome()));
}

TEST_CASE("output that is not to a terminal has no colour") {
  const TempDir folder;
  CHECK_FALSE(has_colour(analyze({"-f", "table"}).outcome()));
  analyze({"-o", "a.txt"}).in(folder.path()).on_terminal().outcome();
  CHECK(read_file(folder / "a.txt").find('\x1b') == std::string::npos);
}

TEST_CASE("other formats have no colour even on a terminal") {
  for (const std::string format : {"json", "csv", "markdown"}) {
    CAPTURE(format);
    CHECK_FALSE(has_colour(analyze({"-f", format}).on_terminal().outcome()));
  }
}
