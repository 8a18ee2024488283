// Pages as text. What a browser makes of them: page_test.py, for which measured pages are written
// into the folder FUSECALC_PAGES, where it is set.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "analysis/analyze.hpp"
#include "analysis/boundaries.hpp"
#include "analysis/limit_shares.hpp"
#include "core/embedded.hpp"
#include "graph/graph_text.hpp"
#include "report/formats.hpp"
#include "support/files.hpp"
#include "support/words.hpp"
#include "support/written.hpp"

namespace fusecalc {
namespace {

using testing::contains;

// What a GPU could have measured: 2 % more reads than analytic, at 4 TB/s.
PlanMeasurement measured_plan(const PlanAnalysis& plan) {
  constexpr double kRate = 4e12;
  PlanMeasurement measured{.key = std::string(name_of(plan.kind)), .analytic = plan.bytes};
  const auto observe = [](const Bytes& bytes) {
    const double seconds = static_cast<double>(bytes.total()) / kRate;
    return Observed{
        .dram = Bytes{.read = bytes.read + bytes.read / 50, .write = bytes.write},
        .time = TimeSpread{.median = seconds, .min = seconds, .p10 = seconds, .p90 = seconds}};
  };
  for (const KernelAnalysis& kernel : plan.kernels) {
    measured.kernels.push_back({.name = kernel.name,
                                .operations = kernel.ops.size(),
                                .analytic = kernel.traffic.bytes,
                                .observed = observe(kernel.traffic.bytes),
                                .resources = {.registers = 40},
                                .schedule = "rows"});
  }
  measured.isolated = measured.pipeline = observe(plan.bytes);
  measured.verified = Verified{.max_rel_err = 1e-4, .tolerance = 1e-2, .ok = true};
  return measured;
}

MeasurementReport report_of(const char* name) {
  OpGraph graph = testing::graph_of(std::string(embedded_op_list(name)));
  MeasurementReport report{.measurement = {}};
  report.analysis = analyze_graph(std::move(graph), name, known_devices().front(), std::nullopt);
  find_boundaries(*report.analysis, BoundaryScope::kEveryPlan);
  const GraphAnalysis& details = *report.analysis->graph;
  Measurement& measurement = report.measurement;
  measurement.name = name;
  measurement.operations = report.analysis->operations;
  measurement.synthetic = false;
  measurement.gpu.device = details.device;
  measurement.copy_bytes_per_s = 4.2e12;
  measurement.unfused = measured_plan(details.plan(PlanKind::kUnfused));
  measurement.fused = measured_plan(details.plan(PlanKind::kAuto));
  return report;
}

std::string page_of(std::span<const MeasurementReport> reports, const char* file) {
  const std::string text = testing::written(
      [&](Output& output) { format_named("html").write_measurement(reports, Style{}, output); });
  if (const char* folder = std::getenv("FUSECALC_PAGES")) {
    testing::write_file(std::filesystem::path(folder) / file, text);
  }
  return text;
}

}  // namespace

TEST_CASE("html: a measurement has limit, analytic, predicted and measured bytes") {
  const std::array reports = {report_of("transformer_block")};
  const std::string page = page_of(reports, "measured.html");
  // norm1: x and two weights of 2048 in, as much as x out; x = 8 * 2048 * 2048 * 2 bytes. The limit
  // moves x and the weights, too. Reads are 2 % high, so the total is 1 %.
  CHECK(contains(page,
                 "<td class=\"number\">67.12 MB</td><td class=\"number\">134.2 MB</td>"
                 "<td class=\"number\">134.2 MB</td><td class=\"number\">135.6 MB</td>"
                 "<td class=\"number\">+1.00 %</td>"));
  CHECK(contains(page, "of the bytes saved with auto"));
  CHECK(contains(page, "measured speedup"));
  CHECK(contains(page, "back to back"));
}

TEST_CASE("html: measurements of several op lists have a summary") {
  const std::array reports = {report_of("softmax"), report_of("llama_block")};
  const std::string page = page_of(reports, "suite.html");
  CHECK(contains(page, "<a href=\"#plans-1\">"));
  CHECK(contains(page, "<details class=\"report\" id=\"report-0\">"));
}

TEST_CASE("html: analyses of several op lists have a summary, and sections of their own") {
  std::vector<Analysis> analyses;
  for (const char* name : {"fma", "softmax"}) {
    OpGraph graph = testing::graph_of(std::string(embedded_op_list(name)));
    analyses.push_back(analyze_graph(std::move(graph), name, known_devices().front(), {}));
    find_boundaries(analyses.back(), BoundaryScope::kEveryPlan);
  }
  // 9 elements of 2 bytes move unfused, 7 fused.
  const SizeChain chain{.name = {},
                        .operations = 2,
                        .input_elements = 7,
                        .output_elements = 2,
                        .first_input = 6,
                        .last_output = 1};
  analyses.push_back(analyze_chain(chain, "sizes", "sizes.json"));
  const auto page_of_first = [&](std::size_t count) {
    return testing::written([&](Output& output) {
      format_named("html").write_several(std::span(analyses).first(count), Style{}, output);
    });
  };
  const std::string page = page_of_first(3);
  CHECK(contains(page, "3 op lists</p>"));
  for (int i = 0; i < 3; ++i) {
    CAPTURE(i);
    CHECK(contains(page, fmt::format("<a href=\"#plans-{}\">", i)));
    CHECK(contains(page, fmt::format("<section id=\"plans-{}\"", i)));
    CHECK(contains(page, fmt::format("<details class=\"report\" id=\"report-{}\">", i)));
    CHECK(contains(page, fmt::format("id=\"plan-table-{}\"", i)));
    CHECK(contains(page, fmt::format("data-report=\"{}\"", i)) == (i < 2));
  }
  CHECK(contains(page, "<td class=\"number\">22.22 %</td>"));
  CHECK(contains(page, "<td class=\"number\">1.29x</td>"));
  CHECK(page_of_first(1) == testing::written([&](Output& output) {
          format_named("html").write(analyses.front(), Style{}, output);
        }));
}

TEST_CASE("html: what was not measured is a dash") {
  MeasurementReport report = report_of("softmax");
  for (PlanMeasurement* plan : {&report.measurement.unfused, &report.measurement.fused}) {
    plan->isolated.dram.reset();
    for (KernelMeasurement& kernel : plan->kernels) {
      kernel.observed = Observed{};
      kernel.observed.reason = "no permission";
    }
  }
  const std::array reports = {std::move(report)};
  const std::string page = page_of(reports, "dashes.html");
  CHECK(contains(page, "<td class=\"number\">-</td><td class=\"number\">-</td>"));
  CHECK(contains(page, "[null,null,null,\"rows\"]"));
}

TEST_CASE("html: data holds no markup, whatever names hold") {
  OpGraph graph = testing::graph_of(R"({"format": "fusecalc.ops/1", "dtype": "f32",
      "tensors": {"</script>": {"shape": [4]}},
      "ops": [{"name": "<!--", "op": "relu", "inputs": ["</script>"], "output": "y"}]})");
  Analysis analysis = analyze_graph(std::move(graph), "<b>&\"'", known_devices().front(), {});
  find_boundaries(analysis, BoundaryScope::kEveryPlan);
  const std::string page = testing::written(
      [&](Output& output) { format_named("html").write(analysis, Style{}, output); });
  CHECK(contains(page, "<title>&lt;b&gt;&amp;&quot;&#39; - fusecalc</title>"));
  CHECK(contains(page, "\"\\u003c/script>\""));
  CHECK(!contains(page, "<!--"));
}

TEST_CASE("html: an op belongs to its scope, or to the front part of its name") {
  OpGraph graph = testing::graph_of(R"({"format": "fusecalc.ops/1", "dtype": "f32",
      "tensors": {"x": {"shape": [4]}},
      "ops": [{"name": "a.b.relu", "op": "relu", "inputs": ["x"], "output": "h"},
              {"name": "add", "scope": "c", "op": "add", "inputs": ["h", "h"], "output": "i"},
              {"name": "last", "op": "square", "inputs": ["i"], "output": "y"}]})");
  CHECK(graph.ops[1].scope == "c");
  Analysis analysis = analyze_graph(std::move(graph), "g", known_devices().front(), {});
  find_boundaries(analysis, BoundaryScope::kEveryPlan);
  const std::string page = testing::written(
      [&](Output& output) { format_named("html").write(analysis, Style{}, output); });
  CHECK(contains(page, "\"scopes\":[\"a.b\",\"c\",\"\"]"));
  // ".relu" in "a.b"; the others by their whole names.
  CHECK(contains(page, "[\".relu\",1,0,1],[\"add\",2,1],[\"last\",3,2]"));
}

TEST_CASE("html: names that differ in numbers only share a pattern") {
  OpGraph graph = testing::graph_of(R"({"format": "fusecalc.ops/1", "dtype": "f32",
      "tensors": {"input_7_of_01": {"shape": [4]}, "input_12_of_01": {"shape": [4]},
                  "alone_9": {"shape": [4]}},
      "ops": [{"op": "add", "inputs": ["input_7_of_01", "input_12_of_01"], "output": "h"},
              {"op": "mul", "inputs": ["h", "alone_9"], "output": "y"}]})");
  const Analysis analysis = analyze_graph(std::move(graph), "g", known_devices().front(), {});
  const std::string page = testing::written(
      [&](Output& output) { format_named("html").write(analysis, Style{}, output); });
  // 01 is no number that can be written as such.
  CHECK(contains(page, "[[0,7],16,1,"));
  CHECK(contains(page, "[[0,12],16,1,"));
  CHECK(contains(page, "[\"alone_9\",16,1,"));
  CHECK(contains(page, R"("patterns":["input_\u000a_of_01","op#\u000a"])"));
}

TEST_CASE("html: below a table that leaves kernels out is the format that has them all") {
  std::string tensors;
  std::string ops;
  for (int i = 0; i < 201; ++i) {
    tensors += fmt::format(R"({}"{}x": {{"shape": [{}]}})", i == 0 ? "" : ", ", i, 8 + i);
    ops += fmt::format(R"({}{{"op": "relu", "inputs": ["{}x"], "output": "{}y"}})",
                       i == 0 ? "" : ", ", i, i);
  }
  OpGraph graph =
      testing::graph_of(fmt::format(R"({{"tensors": {{{}}}, "ops": [{}]}})", tensors, ops));
  Analysis analysis = analyze_graph(std::move(graph), "g", known_devices().front(), {});
  find_boundaries(analysis, BoundaryScope::kEveryPlan);
  const auto written = [&](const char* format) {
    return testing::written(
        [&](Output& output) { format_named(format).write(analysis, Style{}, output); });
  };
  CHECK(contains(written("html"), "and 1 more kernel: --format json lists all"));
  const std::string json = written("json");
  for (int i = 0; i < 201; ++i) {
    CAPTURE(i);
    CHECK(contains(json, fmt::format("\"{}x\": {}", i, 4 * (8 + i))));
  }
}

TEST_CASE("html: kernels share the limit's bytes among them") {
  // x is read by both kernels, and counts at the first one; h is an intermediate.
  OpGraph graph = testing::graph_of(R"({"format": "fusecalc.ops/1", "dtype": "f32",
      "tensors": {"x": {"shape": [100]}},
      "ops": [{"op": "relu", "inputs": ["x"], "output": "h"},
              {"op": "add", "inputs": ["h", "x"], "output": "y"}]})");
  const Analysis analysis = analyze_graph(std::move(graph), "g", known_devices().front(), {});
  const PlanAnalysis& unfused = analysis.graph->plan(PlanKind::kUnfused);
  CHECK(limit_shares(*analysis.graph, unfused) == std::vector<std::uint64_t>{400, 400});
  const PlanAnalysis& fused = analysis.graph->plan(PlanKind::kAuto);
  CHECK(limit_shares(*analysis.graph, fused) == std::vector<std::uint64_t>{800});
}

}  // namespace fusecalc
