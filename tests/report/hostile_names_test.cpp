// No name from a document reaches an output in a form that controls a terminal, ends a line, or
// hides or reorders text: every kind of result, in every format, with every kind of such a name.

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/analyze.hpp"
#include "analysis/boundaries.hpp"
#include "compare/comparison.hpp"
#include "core/text.hpp"
#include "graph/graph_text.hpp"
#include "report/formats.hpp"
#include "support/invocation.hpp"
#include "support/written.hpp"

namespace fusecalc {
namespace {

using nlohmann::json;
using testing::written;

constexpr std::array<std::string_view, 14> kHostile = {
    "\x1b[2J", "\u009b2J",   "\u0085next", "a\u202eb",      "\u2066a\u2069", "\ufffe",  "\u200bx",
    "\ufeffx", "two\nlines", "cr\rx",      "\u2028::error", "\U000e0041x",   "\uffffx", "\u00adx"};

// The first character of an output that must not be there, as an escape; empty if there is none.
std::string unsafe_in(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8_sequence_length(text);
    if (length == 0) return "not UTF-8";
    const std::string_view sequence = text.substr(0, length);
    if (sequence != "\n" && is_unsafe(code_point(sequence))) return printable(sequence);
    text.remove_prefix(length);
  }
  return "";
}

std::size_t lines_of(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count(text, '\n'));
}

// A graph whose every name holds `part`: two kernels that share a tensor, so that reasons are
// given.
json graph_named(std::string_view part) {
  const auto name = [&](const char* base) { return base + std::string(part) + base; };
  return {{"format", "fusecalc.ops/1"},
          {"name", name("g")},
          {"dtype", "f32"},
          {"dims", {{name("N"), 64}}},
          {"tensors",
           {{name("x"), {{"shape", {name("N"), name("N")}}}},
            {name("v"), {{"shape", {name("N"), name("N")}}}},
            {name("w"), {{"shape", {name("N"), name("N")}}}}}},
          {"ops",
           {{{"name", name("up")},
             {"op", "linear"},
             {"inputs", {name("x"), name("v")}},
             {"output", name("h")}},
            {{"name", name("down")},
             {"op", "linear"},
             {"inputs", {name("h"), name("w")}},
             {"output", name("y")}}}},
          {"fuse", json::array({json::array({name("up"), name("down")})})}};
}

Analysis analysis_named(std::string_view part) {
  OpGraph graph = testing::graph_of(graph_named(part).dump());
  const std::string name = graph.name.value_or("");
  Analysis analysis =
      analyze_graph(std::move(graph), name, known_devices().front(), PlanKind::kUnfused);
  find_boundaries(analysis, BoundaryScope::kEveryPlan);
  return analysis;
}

Comparison comparison_named(std::string_view part) {
  const auto name = [&](const char* base) { return base + std::string(part) + base; };
  Comparison comparison{.base = name("base"), .fresh = name("new")};
  comparison.specs = {name("spec"), "other"};
  comparison.notes = {name("note")};
  for (const Judgement judgement : {Judgement::kWorse, Judgement::kUnknown, Judgement::kBetter}) {
    Finding finding{.spec = name("spec"), .plan = name("auto"), .kernel = {}};
    if (judgement != Judgement::kBetter) finding.kernel = name("a+b");
    finding.before = 10;
    finding.after = 20;
    finding.judgement = judgement;
    finding.failed = judgement == Judgement::kWorse;
    finding.note = name("why");
    comparison.findings.push_back(finding);
  }
  return comparison;
}

}  // namespace

TEST_CASE("hostile names: every format of an analysis") {
  const Analysis plain = analysis_named("plain");
  for (const Format& format : formats()) {
    if (format.write == nullptr) continue;
    const auto report = [&](const Analysis& analysis) {
      return written([&](Output& output) {
        format.write(analysis, Style{.colour = false, .explain = true}, output);
      });
    };
    for (const std::string_view part : kHostile) {
      CAPTURE(format.name);
      CAPTURE(printable(part));
      const std::string text = report(analysis_named(part));
      CHECK(unsafe_in(text) == "");
      // A field of CSV in quotes may hold several lines.
      if (format.name != "csv") CHECK(lines_of(text) == lines_of(report(plain)));
      if (format.name == "json") CHECK(json::parse(text)["name"] == "g" + std::string(part) + "g");
    }
  }
}

TEST_CASE("hostile names: every format of a comparison") {
  for (const Format& format : formats()) {
    if (format.write_comparison == nullptr) continue;
    const auto report = [&](std::string_view part) {
      return written([&](Output& output) {
        format.write_comparison(comparison_named(part), Style{}, output);
      });
    };
    for (const std::string_view part : kHostile) {
      CAPTURE(format.name);
      CAPTURE(printable(part));
      CHECK(unsafe_in(report(part)) == "");
      if (format.name != "csv") CHECK(lines_of(report(part)) == lines_of(report("plain")));
    }
    // A path need not be UTF-8.
    CHECK(unsafe_in(report("\xff\xc0")) == "");
  }
}

TEST_CASE("hostile names: every format of a measurement") {
  for (const Format& format : formats()) {
    if (format.write_measurement == nullptr) continue;
    for (const std::string_view part : kHostile) {
      CAPTURE(format.name);
      CAPTURE(printable(part));
      Measurement measurement;
      measurement.name = part;
      measurement.synthetic = true;
      measurement.gpu.device.name = part;
      for (PlanMeasurement* plan : {&measurement.unfused, &measurement.fused}) {
        plan->key = "auto";
        plan->kernels.resize(2);
        plan->isolated.dram = Bytes{.read = 1, .write = 2};
        plan->isolated.reason = plan->pipeline.reason = plan->verified_reason = part;
        plan->notes = {std::string(part)};
        for (KernelMeasurement& kernel : plan->kernels) {
          kernel.name = kernel.schedule = kernel.choice = kernel.observed.reason = part;
          kernel.observed.dram = Bytes{.read = 1, .write = 2};
        }
      }
      const std::array reports = {MeasurementReport{.measurement = measurement},
                                  MeasurementReport{.measurement = measurement}};
      const std::string text =
          written([&](Output& output) { format.write_measurement(reports, Style{}, output); });
      CHECK(unsafe_in(text) == "");
    }
  }
}

TEST_CASE("hostile names: error messages stay on one line") {
  for (const std::string_view part : kHostile) {
    CAPTURE(printable(part));
    const std::string name(part);
    for (const std::vector<std::string>& arguments :
         std::vector<std::vector<std::string>>{{"analyze", name},
                                               {"analyze", "@" + name},
                                               {"analyze", "-", "-o", name},
                                               {"analyze", "-", "-o", name + "/x.json"},
                                               {"compare", name, name},
                                               {name},
                                               {"analyze", "-", "--dim", name},
                                               {"--" + name},
                                               {"analyze", "-", "--plan", name},
                                               {"measure", name},
                                               {"compare", "a", "b", "--tolerance", name}}) {
      const testing::Outcome outcome = testing::invoke(arguments).input("[]").outcome();
      CAPTURE(arguments.front());
      CHECK(outcome.exit_code == 2);
      CHECK(lines_of(outcome.err) == 1);
      CHECK(unsafe_in(outcome.err) == "");
    }
    json broken = graph_named(part);
    broken["ops"][1]["inputs"][0] = name;
    const testing::Outcome outcome =
        testing::invoke({"analyze", "-"}).input(broken.dump()).outcome();
    CHECK(outcome.exit_code == 2);
    CHECK(lines_of(outcome.err) == 1);
    CHECK(unsafe_in(outcome.err) == "");
  }
}

}  // namespace fusecalc
