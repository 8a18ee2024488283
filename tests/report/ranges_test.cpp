// What was measured beside what was predicted.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "analysis/analyze.hpp"
#include "analysis/boundaries.hpp"
#include "core/embedded.hpp"
#include "graph/graph_text.hpp"
#include "report/cells.hpp"
#include "report/formats.hpp"
#include "report/measurement_rows.hpp"
#include "support/schema_check.hpp"
#include "support/words.hpp"
#include "support/written.hpp"

namespace fusecalc {
namespace {

using nlohmann::json;
using testing::contains;

Observed exactly(const Prediction& predicted) {
  const double seconds = predicted.time_us * 1e-6;
  const auto bytes = [](double value) { return static_cast<std::uint64_t>(std::llround(value)); };
  return {.dram = Bytes{bytes(predicted.dram_read), bytes(predicted.dram_write)},
          .time = TimeSpread{
              .median = seconds, .min = seconds, .p10 = seconds, .p90 = seconds, .samples = 10}};
}

// Every figure is the predicted one.
PlanMeasurement measured_as_predicted(const PlanAnalysis& plan) {
  PlanMeasurement measured{.key = std::string(name_of(plan.kind)), .analytic = plan.bytes};
  for (const KernelAnalysis& kernel : plan.kernels) {
    measured.kernels.push_back({.name = kernel.name,
                                .operations = kernel.ops.size(),
                                .analytic = kernel.traffic.bytes,
                                .observed = exactly(kernel.predicted),
                                .resources = {.registers = 40},
                                .schedule = "rows"});
  }
  measured.pipeline = measured.isolated = exactly(plan.predicted);
  return measured;
}

MeasurementReport report_as_predicted() {
  MeasurementReport report{.measurement = {}};
  report.analysis =
      analyze_graph(testing::graph_of(std::string(embedded_op_list("softmax_primitives"))),
                    "softmax_primitives", known_devices().front(), std::nullopt);
  find_boundaries(*report.analysis, BoundaryScope::kEveryPlan);
  const GraphAnalysis& graph = *report.analysis->graph;
  Measurement& measurement = report.measurement;
  measurement.name = "softmax_primitives";
  measurement.operations = report.analysis->operations;
  measurement.synthetic = false;
  measurement.gpu.device = graph.device;
  measurement.unfused = measured_as_predicted(graph.plan(PlanKind::kUnfused));
  measurement.fused = measured_as_predicted(graph.plan(PlanKind::kAuto));
  return report;
}

std::string written(const MeasurementReport& report, const char* format) {
  return testing::written([&](Output& output) {
    format_named(format).write_measurement(std::span(&report, 1), Style{}, output);
  });
}

TEST_CASE("ranges: what is measured as predicted lies inside") {
  const MeasurementReport report = report_as_predicted();
  const json document = json::parse(written(report, "json"));
  const json& plan = document["plans"]["auto"];
  const json inside = {{"dram_read", true}, {"dram_write", true}, {"time_us", true}};
  CHECK(plan["in_range"] == inside);
  CHECK(plan["kernels"][0]["in_range"] == inside);
  CHECK(!document["plans"]["compiler"].contains("in_range"));
  CHECK(schema_violation(document, schema_named("measurement")) == "");
  CHECK(written(report, "table").find(" out\n") == std::string::npos);
}

TEST_CASE("ranges: what lies outside is said so, and what was not measured is null") {
  MeasurementReport report = report_as_predicted();
  PlanMeasurement& fused = report.measurement.fused;
  fused.kernels[0].observed.time->median *= 10;
  fused.kernels[0].observed.dram->write *= 2;
  fused.pipeline.dram.reset();
  const json document = json::parse(written(report, "json"));
  const json& plan = document["plans"]["auto"];
  CHECK(plan["kernels"][0]["in_range"] ==
        json{{"dram_read", true}, {"dram_write", false}, {"time_us", false}});
  CHECK(plan["in_range"] ==
        json{{"dram_read", nullptr}, {"dram_write", nullptr}, {"time_us", true}});
  const std::string table = written(report, "table");
  CHECK(table.find(" out\n") != std::string::npos);
  CHECK(table.find("predicted, measured") != std::string::npos);
}

TEST_CASE("ranges: kernels that took over twice what was predicted are named, the worst first") {
  MeasurementReport report = report_as_predicted();
  const auto late = [&] {
    std::vector<std::string> notes = measurement_notes(report);
    std::erase_if(notes, [](const std::string& note) {
      return !contains(note, "predicted at most") && !contains(note, "was predicted");
    });
    return notes;
  };
  CHECK(late().empty());
  PlanMeasurement& unfused = report.measurement.unfused;
  REQUIRE(unfused.kernels.size() == 5);
  const PlanAnalysis& plan = report.analysis->graph->plan(PlanKind::kUnfused);
  const auto last = [&](std::size_t k) { return plan.kernels[k].predicted.time_range.high * 1e-6; };
  unfused.kernels[1].observed.time->median = 1.9 * last(1);
  CHECK(late().empty());
  unfused.kernels[1].observed.time->median = 3 * last(1);
  unfused.kernels[3].observed.time->median = 30 * last(3);
  REQUIRE(late().size() == 2);
  CHECK(late()[0] ==
        fmt::format("unfused, {}: took {} where at most {} was predicted: its kernel is "
                    "slow for this shape, or the prediction is wrong",
                    unfused.kernels[3].name, human_seconds(30 * last(3)), human_seconds(last(3))));
  CHECK(contains(late()[1], unfused.kernels[1].name));
  for (std::size_t k = 0; k < 5; ++k) unfused.kernels[k].observed.time->median = 4 * last(k);
  REQUIRE(late().size() == 4);
  CHECK(late()[3] == "unfused: 2 more kernels took over twice what was predicted at most");
}

TEST_CASE("ranges: the speedup that was predicted is by time, and by bytes beside it") {
  MeasurementReport report = report_as_predicted();
  const double by_bytes = report.measurement.savings().speedup();
  CHECK(predicted_speedup(report) != by_bytes);
  CHECK(speedup_sentence(report).find("by bytes alone") != std::string::npos);
  // A list of sizes.
  report.analysis.reset();
  CHECK(predicted_speedup(report) == by_bytes);
  CHECK(speedup_sentence(report).find("by bytes alone") == std::string::npos);
}

}  // namespace
}  // namespace fusecalc
