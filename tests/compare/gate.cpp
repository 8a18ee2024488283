#include "compare/gate.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "core/embedded.hpp"
#include "support/schema_check.hpp"

namespace fusecalc::testing {

json analysis_of(const json& ops, const Words& options) {
  Words arguments = {"analyze", "-", "-f", "json"};
  arguments.insert(arguments.end(), options.begin(), options.end());
  const Outcome outcome = invoke(arguments).input(ops.dump()).outcome();
  REQUIRE(outcome.err == "");
  return json::parse(outcome.out);
}

json measurement() {
  const json figures = json::parse(R"({"dram_read": 4000000, "dram_write": 4000000,
    "time_us": {"median": 10.0, "min": 9.8, "p10": 9.9, "p90": 10.1, "samples": 100, "throttled": 0},
    "gbps": 800.0, "error_pct": {"read": 0.0, "write": 0.0, "total": 0.0}})");
  const json kernel = {{"name", "copy"},   {"operations", 1},  {"read", 4000000},
                       {"write", 4000000}, {"total", 8000000}, {"measured", figures}};
  const json plan = {{"read", 4000000},     {"write", 4000000},
                     {"total", 8000000},    {"kernels", json::array({kernel})},
                     {"measured", figures}, {"measured_pipeline", figures},
                     {"verified", nullptr}, {"notes", json::array()}};
  return {{"schema", "fusecalc.measurement/1"},
          {"name", "copies"},
          {"plan", "auto"},
          {"unfused_bytes", 8000000},
          {"fused_bytes", 8000000},
          {"dtype_bytes", 2},
          {"device", {{"name", "GPU A"}, {"uuid", "GPU-1"}, {"compute_capability", "9.0"}}},
          {"plans", {{"unfused", plan}, {"auto", plan}}}};
}

json measured(const std::function<void(json&)>& edit) {
  json document = measurement();
  json& plan = document["plans"]["auto"];
  edit(plan["measured"]);
  edit(plan["measured_pipeline"]);
  edit(plan["kernels"][0]["measured"]);
  return document;
}

json timed(double median, double p10, double p90) {
  return measured([&](json& figures) {
    figures["time_us"]["median"] = median;
    figures["time_us"]["p10"] = p10;
    figures["time_us"]["p90"] = p90;
  });
}

Gate::Gate(const json& base, const json& fresh) {
  write_file(folder_ / "base.json", base.dump());
  write_file(folder_ / "new.json", fresh.dump());
}

int Gate::run(Words options) {
  options.insert(options.begin(), {"compare", "base.json", "new.json", "-f", "json"});
  const Outcome outcome = invoke(options).in(folder_.path()).outcome();
  err = outcome.err;
  out = outcome.out;
  document = out.empty() ? json() : json::parse(out);
  if (!out.empty()) {
    const auto schemas = fusecalc::embedded_schemas();
    const auto* schema = &*std::ranges::find(schemas, "comparison", &fusecalc::EmbeddedFile::name);
    CHECK(fusecalc::schema_violation(document, json::parse(schema->text)) == "");
    CHECK((document["verdict"] == "fail") ==
          std::ranges::any_of(document["findings"],
                              [](const json& finding) { return finding["failed"] == true; }));
  }
  CHECK(std::ranges::count(err, '\n') == (outcome.exit_code == 0 ? 0 : 1));
  return outcome.exit_code;
}

json Gate::finding(const std::string& plan, const std::string& figure, const std::string& kernel) {
  for (const json& finding : document["findings"]) {
    if (finding["plan"] == plan && finding["figure"] == figure && finding["kernel"] == kernel) {
      return finding;
    }
  }
  FAIL(plan << " has no " << figure << " in " << out);
  return {};
}

std::string Gate::verdict(const std::string& plan, const std::string& figure,
                          const std::string& kernel) {
  return finding(plan, figure, kernel)["verdict"];
}

}  // namespace fusecalc::testing
