#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "support/files.hpp"
#include "support/invocation.hpp"

using namespace fusecalc::testing;

namespace {

// Holds what `fusecalc analyze` prints against files, or writes these where
// FUSECALC_UPDATE_GOLDEN is set; then their change is to be read as a reviewer would.
class Golden {
 public:
  explicit Golden(std::filesystem::path folder) : folder_(std::move(folder)) {}

  void hold(const std::string& name, const std::vector<std::string>& arguments,
            const std::filesystem::path& in) {
    CAPTURE(name);
    expected_.insert(name);
    const Outcome outcome = invoke(arguments).in(in).outcome();
    CHECK(outcome.exit_code == 0);
    CHECK(outcome.err == "");
    if (std::getenv("FUSECALC_UPDATE_GOLDEN") != nullptr) write_file(folder_ / name, outcome.out);
    CHECK(outcome.out == read_file(folder_ / name));
  }

  void expect(const std::string& name) { expected_.insert(name); }

  void check_complete() const {
    for (const std::string& name : names_in(folder_)) {
      CHECK_MESSAGE(expected_.contains(name), name << " belongs to no list");
    }
  }

 private:
  std::filesystem::path folder_;
  std::set<std::string> expected_;
};

}  // namespace

TEST_CASE("golden: the four formats of every list in the sizes form") {
  constexpr std::pair<const char*, const char*> kFormats[] = {
      {"table", ".txt"}, {"json", ".json"}, {"csv", ".csv"}, {"markdown", ".md"}};
  const auto folder = tests_folder("golden/sizes");
  Golden golden(folder);
  golden.expect("README.md");
  golden.expect("lists");
  for (const std::string& list : names_in(folder / "lists")) {
    for (const auto& [format, extension] : kFormats) {
      golden.hold(std::filesystem::path(list).stem().string() + extension,
                  {"analyze", list, "--format", format}, folder / "lists");
    }
  }
  golden.check_complete();
}

TEST_CASE("golden: every op list of the library, explained and as JSON") {
  const auto folder = tests_folder("golden/oplists");
  Golden golden(folder);
  for (const std::string& list : names_in(tests_folder("../specs/oplists"))) {
    const std::string name = std::filesystem::path(list).stem().string();
    golden.hold(name + ".txt", {"analyze", "@" + name, "--format", "table", "--explain"}, folder);
    golden.hold(name + ".json", {"analyze", "@" + name, "--format", "json"}, folder);
  }
  golden.check_complete();
}

TEST_CASE("golden: drawings of one op list") {
  const auto folder = tests_folder("golden/drawings");
  Golden golden(folder);
  for (const char* format : {"dot", "mermaid", "markdown", "csv"}) {
    golden.hold(std::string("layer_norm_linear_gelu.") + format,
                {"analyze", "@layer_norm_linear_gelu", "--format", format, "--explain"}, folder);
  }
  golden.check_complete();
}
