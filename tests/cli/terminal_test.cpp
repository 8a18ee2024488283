#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <sstream>
#include <string>

#include "core/text.hpp"
#include "support/files.hpp"
#include "support/invocation.hpp"

using namespace fusecalc::testing;

namespace {

const std::string kOneOp = R"([{"input_size": 8, "output_size": 8}])";

Invocation analyze(std::vector<std::string> options = {}) {
  options.insert(options.begin(), {"analyze", "-"});
  return invoke(options).input(kOneOp);
}

bool has_colour(const Outcome& outcome) { return outcome.out.find("\x1b[") != std::string::npos; }

std::size_t widest_line(const std::string& text) {
  std::istringstream lines(text);
  std::size_t widest = 0;
  for (std::string line; std::getline(lines, line);) {
    widest = std::max(widest, fusecalc::display_width(line));
  }
  return widest;
}

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

TEST_CASE("tables are as wide as the terminal, 100 columns in a pipe, or what COLUMNS says") {
  const std::vector<std::string> words = {"analyze", "@llama_block", "-f", "table"};
  const std::string piped = invoke(words).outcome().out;
  CHECK(widest_line(piped) <= 100);
  CHECK(invoke(words).on_terminal().with("NO_COLOR", "1").outcome().out == piped);
  for (const unsigned short columns : std::initializer_list<unsigned short>{60, 80, 120, 200}) {
    CAPTURE(columns);
    const auto fits = [&](const std::vector<std::string>& command) {
      CAPTURE(command);
      const std::string shown =
          invoke(command).on_terminal(columns).with("NO_COLOR", "1").outcome().out;
      CHECK(shown == invoke(command).with("COLUMNS", std::to_string(columns)).outcome().out);
      CHECK(widest_line(shown) <= columns);
    };
    fits(words);
    fits({"analyze", "@transformer_block", "-f", "table", "--explain"});
    for (const std::string listing : {"specs", "ops", "devices"}) fits({listing, "-f", "table"});
    for (const std::string list : {"@adam", "@softmax"}) {
      CAPTURE(list);
      const TempDir folder;
      const auto result = [&](const std::string& name, const std::string& plan) {
        const std::string file = (folder / name).string();
        CHECK(invoke({"analyze", list, "--plan", plan, "-o", file}).outcome().exit_code == 0);
        return file;
      };
      const Outcome compared =
          invoke({"compare", result("a.json", "auto"), result("b.json", "compiler"), "-f", "table"})
              .in(folder.path())
              .with("COLUMNS", std::to_string(columns))
              .outcome();
      // Below the line that names the files.
      CHECK(widest_line(compared.out.substr(compared.out.find('\n'))) <= columns);
    }
  }
  // What is no number is as good as nothing.
  CHECK(invoke(words).with("COLUMNS", "wide").outcome().out == piped);
}

TEST_CASE("devices: columns without room are below their row, and units are the table's alone") {
  const auto shown = [](const std::string& columns, const std::string& format) {
    return invoke({"devices", "-f", format}).with("COLUMNS", columns).outcome().out;
  };
  CHECK(shown("200", "table")
            .find("h200     9.0   132  62.91 MB  141.0 GB  4610 GB/s   865 TFLOP/s  calibrated  "
                  "driver; H200 datasheet\n") != std::string::npos);
  CHECK(shown("60", "table")
            .find("h200     9.0   132  62.91 MB  141.0 GB  4610 GB/s\n"
                  "    tensor 865 TFLOP/s  constants calibrated\n"
                  "    source driver; H200 datasheet\n") != std::string::npos);
  CHECK(shown("60", "csv").find("h200,9.0,132,62914560,141000000000,4610,865075,calibrated,") !=
        std::string::npos);
}

TEST_CASE("bars are drawn in ASCII where the locale is not UTF-8") {
  const auto shown = [](const std::string& variable, const std::string& locale) {
    return invoke({"analyze", "@softmax", "-f", "table"}).with(variable, locale).outcome().out;
  };
  CHECK(shown("LC_ALL", "C").find("####") != std::string::npos);
  CHECK(shown("LANG", "en_US.ISO-8859-1").find("####") != std::string::npos);
  CHECK(shown("LANG", "en_US.UTF-8").find("████") != std::string::npos);
  CHECK(shown("LC_CTYPE", "C.utf8").find("████") != std::string::npos);
}

TEST_CASE("names that are typed are whole in the listings, however narrow the terminal") {
  const Outcome json_rows = invoke({"ops", "-f", "csv"}).outcome();
  for (const unsigned short columns : std::initializer_list<unsigned short>{60, 80}) {
    CAPTURE(columns);
    const std::string shown = invoke({"ops", "-f", "table"}).on_terminal(columns).outcome().out;
    CHECK(shown.find("softmax_backward") != std::string::npos);
    CHECK(shown.find("negative_slope") != std::string::npos);
    for (std::size_t at = json_rows.out.find('\n') + 1; at < json_rows.out.size();
         at = json_rows.out.find('\n', at) + 1) {
      const std::string name = json_rows.out.substr(at, json_rows.out.find(',', at) - at);
      CHECK_MESSAGE(shown.find("\n" + name + " ") != std::string::npos, name);
    }
  }
}
