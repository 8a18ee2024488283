#include <doctest/doctest.h>

#include <filesystem>
#include <map>
#include <sstream>
#include <string>

#include "support/files.hpp"
#include "support/invocation.hpp"

using namespace fusecalc::testing;

namespace {

// Every line of expected.txt is `fusecalc: DOCUMENT: ...`; the result maps DOCUMENT to it.
std::map<std::string, std::string> expected_lines(const std::filesystem::path& folder) {
  std::map<std::string, std::string> lines;
  std::istringstream text(read_file(folder / "expected.txt"));
  for (std::string line; std::getline(text, line);) {
    const std::string_view program = "fusecalc: ";
    REQUIRE_MESSAGE(line.starts_with(program), line);
    const std::string document =
        line.substr(program.size(), line.find(": ", program.size()) - program.size());
    CHECK_MESSAGE(lines.emplace(document, line).second, "two lines for " << document);
  }
  return lines;
}

void check_bad_documents(const std::filesystem::path& folder) {
  const auto lines = expected_lines(folder);
  for (const std::string& name : names_in(folder)) {
    const bool listed = name == "expected.txt" || lines.contains(name);
    CHECK_MESSAGE(listed, name << " has no line in expected.txt");
  }
  for (const auto& expected : lines) {
    const auto& [document, line] = expected;
    CAPTURE(expected.first);
    REQUIRE(std::filesystem::exists(folder / document));
    const Outcome outcome = invoke({"analyze", document}).in(folder).outcome();
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out == "");
    CHECK(outcome.err == line + "\n");
  }
}

}  // namespace

TEST_CASE("every bad document in the sizes form is refused with its one line") {
  check_bad_documents(tests_folder("bad/sizes"));
}

TEST_CASE("a bad document is refused the same way from standard input") {
  const auto folder = tests_folder("bad/sizes");
  for (const auto& from_file : expected_lines(folder)) {
    const auto& [document, line] = from_file;
    CAPTURE(from_file.first);
    std::string expected = line;
    expected.replace(expected.find(document), document.size(), "<stdin>");
    const Outcome outcome = invoke({"analyze", "-"}).input(read_file(folder / document)).outcome();
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out == "");
    CHECK(outcome.err == expected + "\n");
  }
}
