#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "support/files.hpp"
#include "support/invocation.hpp"

using namespace fusecalc::testing;

namespace {

constexpr std::string_view kList = R"({"dims": {"B": 4, "T": 8, "D": 2}, "tensors":
  {"x": {"shape": ["B", "T"]}}, "ops": [{"op": "relu", "inputs": ["x"], "output": "y"}]})";

// The line, without "fusecalc: ", by which the program refuses the list with these options.
std::string refusal(std::vector<std::string> options, std::string_view list = kList) {
  std::vector<std::string> words = {"analyze", "-"};
  words.insert(words.end(), options.begin(), options.end());
  const Outcome outcome = invoke(words).input(std::string(list)).outcome();
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.out == "");
  REQUIRE(outcome.err.starts_with("fusecalc: "));
  return outcome.err.substr(10);
}

}  // namespace

TEST_CASE("every bad document in the graph form is refused with its one line") {
  const std::filesystem::path folder = tests_folder("bad/graph");
  std::istringstream text(read_file(folder / "expected.txt"));
  std::vector<std::string> documents = {"expected.txt"};
  for (std::string line; std::getline(text, line);) {
    constexpr std::string_view kProgram = "fusecalc: ";
    REQUIRE_MESSAGE(line.starts_with(kProgram), line);
    const std::size_t end = line.find(": ", kProgram.size());
    documents.push_back(line.substr(kProgram.size(), end - kProgram.size()));
    CAPTURE(documents.back());
    const Outcome outcome = invoke({"analyze", documents.back()}).in(folder).outcome();
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out == "");
    CHECK(outcome.err == line + "\n");
  }
  std::ranges::sort(documents);
  CHECK(names_in(folder) == documents);
}

TEST_CASE("--dim must name a dim of the list and an extent in range") {
  CHECK(invoke({"analyze", "-", "--dim", "T=16", "--dim", "B=1"})
            .input(std::string(kList))
            .outcome()
            .exit_code == 0);
  CHECK(refusal({"--dim", "N=4"}) == "<stdin>: --dim: unknown dim \"N\" (known: B, T or D)\n");
  constexpr std::string_view kNamed = R"({"dims": {"batch": 4}, "ops": []})";
  CHECK(refusal({"--dim", "bacth=4"}, kNamed) ==
        "<stdin>: --dim: unknown dim \"bacth\" (did you mean \"batch\"?)\n");
  CHECK(refusal({"--dim", "T=4"}, R"({"ops": []})") ==
        "<stdin>: --dim: unknown dim \"T\" (there are no dims)\n");
  CHECK(refusal({"--dim", "T=9223372036854775807"}) ==
        "<stdin>: /tensors/x/shape: \"x\" of shape [4, 9223372036854775807] is more than "
        "9223372036854775807 bytes\n");
  CHECK(refusal({"--dim", "T=4"}, "[]") ==
        "<stdin>: --dim does not apply: it lists sizes, which have no dims\n");
}

TEST_CASE("--dim sets a dim once") {
  CHECK(refusal({"--dim", "T=4", "--dim=B=1", "--dim", "T=4"})
            .starts_with("analyze: --dim: \"T\" is given more than once; keep one; see "));
}

TEST_CASE("--dim accepts only NAME=EXTENT") {
  for (const std::string value :
       {"T", "T=", "=4", "T=-1", "T=1.5", "T=x", "T=9223372036854775808", "T=4 ", "T==4"}) {
    CAPTURE(value);
    const std::string line = refusal({"--dim", value});
    CHECK(line.find("--dim") != std::string::npos);
    CHECK(line.find('\n') == line.size() - 1);
  }
}

TEST_CASE("an explicit plan can be requested only if the list has one") {
  CHECK(refusal({"--plan", "explicit"}) ==
        "<stdin>: has no \"fuse\", so there is no explicit plan\n");
  CHECK(refusal({"--dtype-bytes", "4"}) ==
        "<stdin>: --dtype-bytes does not apply: it gives each tensor its own dtype\n");
}
