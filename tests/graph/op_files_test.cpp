// What an op costs to add: the files that list ops, held against what CONTRIBUTING says.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "graph/op_table.hpp"
#include "support/files.hpp"

namespace fusecalc::testing {
namespace {

// Pointwise ops that are a row and nothing else: no attributes, no rule of shapes of their own.
Words plain_ops() {
  Words names;
  for (const OpRow& row : op_table()) {
    const bool plain = row.op_class == OpClass::kPointwise && row.attributes == 0 &&
                       row.family == OpFamily::kPointwise;
    if (plain) names.emplace_back(row.name);
  }
  return names;
}

// A list of ops names nearly all of them; a test that uses some names far fewer.
bool lists(const std::string& text, const Words& ops) {
  const auto named = std::ranges::count_if(ops, [&](const std::string& name) {
    return text.find(fmt::format("\"{}\"", name)) != std::string::npos ||
           text.find(fmt::format("\"{}\\\"", name)) != std::string::npos;
  });
  return 4 * named > 3 * std::ssize(ops);
}

TEST_CASE("a plain op is listed in three files, which CONTRIBUTING names") {
  const std::filesystem::path root = tests_folder("").parent_path().parent_path();
  const Words ops = plain_ops();
  REQUIRE(ops.size() > 20);
  Words found;
  for (const char* folder : {"src", "kernels", "tests", "specs/schema", "scripts", "cmake"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root / folder)) {
      if (!entry.is_regular_file() || !lists(read_file(entry.path()), ops)) continue;
      found.push_back(std::filesystem::relative(entry.path(), root).string());
    }
  }
  std::ranges::sort(found);
  CHECK(found == Words{"specs/schema/ops.schema.json", "src/graph/ops_pointwise.cpp",
                       "tests/oracle/pointwise_ops.py"});
  const std::string guide = read_file(root / "CONTRIBUTING.md");
  const std::size_t begin = guide.find("- **An op**");
  REQUIRE(begin != std::string::npos);
  const std::string told = guide.substr(begin, guide.find("- **An attribute**") - begin);
  for (const std::string& file : found) {
    CAPTURE(file);
    CHECK(told.find(fmt::format("`{}`", file)) != std::string::npos);
  }
}

}  // namespace
}  // namespace fusecalc::testing
