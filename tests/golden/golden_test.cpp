#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <utility>

#include "support/files.hpp"
#include "support/invocation.hpp"

using namespace fusecalc::testing;

namespace {

constexpr std::pair<const char*, const char*> kFormats[] = {
    {"table", ".txt"}, {"json", ".json"}, {"csv", ".csv"}, {"markdown", ".md"}};

}  // namespace

TEST_CASE("golden: the four formats of every list in the sizes form") {
  const auto folder = tests_folder("golden/sizes");
  const bool update = std::getenv("FUSECALC_UPDATE_GOLDEN") != nullptr;
  std::set<std::string> expected = {"README.md", "lists"};
  for (const std::string& list : names_in(folder / "lists")) {
    for (const auto& [format, extension] : kFormats) {
      const std::string name = std::filesystem::path(list).stem().string() + extension;
      CAPTURE(name);
      expected.insert(name);
      const Outcome outcome =
          invoke({"analyze", list, "--format", format}).in(folder / "lists").outcome();
      CHECK(outcome.exit_code == 0);
      CHECK(outcome.err == "");
      if (update) write_file(folder / name, outcome.out);
      CHECK(outcome.out == read_file(folder / name));
    }
  }
  for (const std::string& name : names_in(folder)) {
    CHECK_MESSAGE(expected.contains(name), name << " belongs to no list");
  }
}
