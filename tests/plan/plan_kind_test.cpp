// What users read of the plans is the same in the program, its guide and its schema.

#include "plan/plan_kind.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "support/files.hpp"

namespace fusecalc::testing {
namespace {

TEST_CASE("the guide's table of plans is the program's") {
  const std::string guide = read_file(tests_folder("../docs/plans.md"));
  std::string table = "| plan | what it is |\n|---|---|\n";
  for (const PlanWords& plan : kPlanWords) {
    table += fmt::format("| {} | {} |\n", plan.name, plan.summary);
  }
  CAPTURE(table);
  CHECK(guide.find(table + "\n") != std::string::npos);
}

TEST_CASE("the schema of an analysis describes every plan in the program's words") {
  const auto schema =
      nlohmann::json::parse(read_file(tests_folder("../specs/schema/analysis.schema.json")));
  const auto& properties = schema["properties"];
  const auto names = properties["plan"]["enum"].get<std::vector<std::string>>();
  CHECK(std::ranges::equal(names, plan_names()));
  CHECK(properties["plans"]["properties"].size() == kPlanWords.size());
  for (const PlanWords& plan : kPlanWords) {
    CAPTURE(plan.name);
    CHECK(properties["plans"]["properties"][plan.name]["description"] == plan.summary);
    CHECK(plan_named(plan.name) == plan.kind);
    CHECK(name_of(plan.kind) == plan.name);
  }
}

}  // namespace
}  // namespace fusecalc::testing
