// The verdicts of `fusecalc compare`, through the real binary.

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "core/embedded.hpp"
#include "support/files.hpp"
#include "support/invocation.hpp"
#include "support/schema_check.hpp"

using namespace fusecalc::testing;
using nlohmann::json;

namespace {

// add, then relu, each over 1000 elements of 4 bytes: fused 12,000 bytes, unfused 20,000.
constexpr const char* kOps = R"({"dtype": "f32", "dims": {"N": 1000},
  "tensors": {"x": {"shape": ["N"]}, "r": {"shape": ["N"]}},
  "ops": [{"name": "sum", "op": "add", "inputs": ["x", "r"], "output": "h"},
          {"name": "act", "op": "relu", "inputs": ["h"], "output": "y"}],
  "outputs": ["y"]})";

json analysis_of(const json& ops, const Words& options = {}) {
  Words arguments = {"analyze", "-", "-f", "json"};
  arguments.insert(arguments.end(), options.begin(), options.end());
  const Outcome outcome = invoke(arguments).input(ops.dump()).outcome();
  REQUIRE(outcome.err == "");
  return json::parse(outcome.out);
}

// What a device said of one kernel of 8 MB: 10 us, of which the middle 80 % took 9.9 to 10.1.
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

// The same edit on every object of figures of the auto plan.
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

class Gate {
 public:
  Gate(const json& base, const json& fresh) {
    write_file(folder_ / "base.json", base.dump());
    write_file(folder_ / "new.json", fresh.dump());
  }

  // Exit code and, where it is not refused, the verdict's document.
  int run(Words options = {}) {
    options.insert(options.begin(), {"compare", "base.json", "new.json", "-f", "json"});
    const Outcome outcome = invoke(options).in(folder_.path()).outcome();
    err = outcome.err;
    out = outcome.out;
    document = out.empty() ? json() : json::parse(out);
    if (!out.empty()) {
      const auto schemas = fusecalc::embedded_schemas();
      const auto* schema =
          &*std::ranges::find(schemas, "comparison", &fusecalc::EmbeddedFile::name);
      CHECK(fusecalc::schema_violation(document, json::parse(schema->text)) == "");
      CHECK((document["verdict"] == "fail") ==
            std::ranges::any_of(document["findings"],
                                [](const json& finding) { return finding["failed"] == true; }));
    }
    CHECK(std::ranges::count(err, '\n') == (outcome.exit_code == 0 ? 0 : 1));
    return outcome.exit_code;
  }

  // The finding of a plan (or of a kernel of it), which must be there.
  json finding(const std::string& plan, const std::string& figure, const std::string& kernel = "") {
    for (const json& finding : document["findings"]) {
      if (finding["plan"] == plan && finding["figure"] == figure && finding["kernel"] == kernel) {
        return finding;
      }
    }
    FAIL(plan << " has no " << figure << " in " << out);
    return {};
  }

  std::string verdict(const std::string& plan, const std::string& figure,
                      const std::string& kernel = "") {
    return finding(plan, figure, kernel)["verdict"];
  }

  std::string out;
  std::string err;
  json document;

 private:
  TempDir folder_;
};

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("compare: equal results pass, and nothing is said on standard error") {
  Gate analytic(analysis_of(json::parse(kOps)), analysis_of(json::parse(kOps)));
  CHECK(analytic.run() == 0);
  CHECK(analytic.run({"--strict"}) == 0);
  CHECK(analytic.verdict("auto", "bytes") == "same");
  CHECK(analytic.run({"--only-changed"}) == 0);
  CHECK(analytic.document["findings"].empty());
  CHECK(analytic.document["counts"]["same"] == 4);  // the plans
  Gate on_device(measurement(), measurement());
  CHECK(on_device.run({"--strict"}) == 0);
  CHECK(on_device.verdict("auto", "pipeline_time") == "same");
}

TEST_CASE("compare: an output more fails the gate and names the tensor that is now written") {
  json ops = json::parse(kOps);
  ops["outputs"] = {"y", "h"};
  Gate gate(analysis_of(json::parse(kOps)), analysis_of(ops));
  CHECK(gate.run() == 1);
  CHECK(contains(gate.err,
                 "fusecalc: new.json: worse than base.json: auto of stdin: bytes 12.00 kB -> 16.00 "
                 "kB (+33.33 %): h is now written (4.000 kB)"));
  const json finding = gate.finding("auto", "bytes");
  CHECK(finding["before"] == 12000);
  CHECK(finding["after"] == 16000);
  CHECK(finding["delta"] == 4000);
  CHECK(finding["share_pct"] == 33.333333);
  CHECK(gate.verdict("auto", "bytes", "sum+act") == "worse");
  CHECK(gate.verdict("unfused", "bytes") == "same");  // h was written there all along
  CHECK(gate.run({"--no-fail"}) == 0);
  CHECK(gate.document["verdict"] == "fail");
}

TEST_CASE("compare: improvements pass and are shown; strict fails on them") {
  json ops = json::parse(kOps);
  ops["outputs"] = {"y", "h"};
  Gate gate(analysis_of(ops), analysis_of(json::parse(kOps)));
  CHECK(gate.run() == 0);
  CHECK(gate.verdict("auto", "bytes") == "better");
  CHECK(gate.finding("auto", "bytes")["note"] == "h is no longer written (4.000 kB)");
  CHECK(gate.run({"--strict"}) == 1);
  CHECK(contains(gate.err, "new.json: other than base.json: "));
}

TEST_CASE("compare: a byte more is within a tolerance that is asked for, and else beyond it") {
  json base = analysis_of(json::parse(kOps));
  json fresh = base;
  fresh["plans"]["auto"]["total"] = 12120;  // 1 % more
  fresh["fused_bytes"] = 12120;
  Gate gate(base, fresh);
  CHECK(gate.run() == 1);
  CHECK(gate.run({"--tolerance", "bytes=0.9%"}) == 1);
  CHECK(gate.run({"--tolerance", "bytes=1%"}) == 0);
  CHECK(gate.verdict("auto", "bytes") == "within");
  CHECK(gate.run({"--tolerance", "bytes=119"}) == 1);
  CHECK(gate.run({"--tolerance", "bytes=120"}) == 0);
  CHECK(gate.run({"--tolerance", "other*:bytes=1%"}) == 1);
  CHECK(contains(gate.document["notes"].dump(), "no figure here matches the tolerance"));
  CHECK(gate.run({"--tolerance", "std??:bytes=1%"}) == 0);
  CHECK(gate.run({"--tolerance", "*/sum*:bytes=1%"}) == 1);                     // of kernels only
  CHECK(gate.run({"--tolerance", "bytes=1%", "--tolerance", "bytes=0"}) == 1);  // the last decides
}

TEST_CASE("compare: measured bytes may grow by 1 %, and by what the counters do not tell apart") {
  const auto written = [](std::uint64_t read, std::uint64_t write) {
    return measured([&](json& figures) {
      figures["dram_read"] = read;
      figures["dram_write"] = write;
    });
  };
  Gate within(measurement(), written(4040000, 3960000));
  CHECK(within.run() == 0);
  CHECK(within.verdict("auto", "dram_read") == "same");
  Gate beyond(measurement(), written(4000000, 4041000));
  CHECK(beyond.run() == 1);
  CHECK(beyond.verdict("auto", "dram_write") == "worse");
  CHECK(beyond.verdict("auto", "dram_write", "copy") == "worse");
  CHECK(beyond.verdict("auto", "pipeline_dram_write") == "worse");
  CHECK(beyond.verdict("auto", "bytes") == "same");
  CHECK(beyond.run({"--tolerance", "dram=2%"}) == 0);
  Gate fewer(measurement(), written(4000000, 3000000));
  CHECK(fewer.run() == 0);
  CHECK(fewer.verdict("auto", "dram_write") == "better");
  // 3000 bytes in 4,000,000 is less than a thousandth of the whole.
  Gate noise(written(4000000, 1000), written(4000000, 4000));
  CHECK(noise.run() == 0);
}

TEST_CASE("compare: a time is worse beyond 5 %, and only where the spreads do not overlap") {
  Gate within(measurement(), timed(10.4, 10.3, 10.5));
  CHECK(within.run() == 0);
  CHECK(within.verdict("auto", "time") == "same");
  Gate beyond(measurement(), timed(10.6, 10.5, 10.7));
  CHECK(beyond.run() == 1);
  CHECK(beyond.verdict("auto", "time") == "worse");
  CHECK(beyond.finding("auto", "time")["unit"] == "us");
  CHECK(beyond.finding("auto", "time")["after"] == 10.6);
  CHECK(contains(beyond.err, "time 10.00 us -> 10.60 us (+6.00 %)"));
  CHECK(beyond.run({"--tolerance", "time=10%"}) == 0);
  CHECK(beyond.run({"--tolerance", "copies/copy:time=10%"}) == 1);  // the plan's own time
  Gate noisy(measurement(), timed(10.6, 10.0, 12.0));
  CHECK(noisy.run() == 0);
  CHECK(noisy.verdict("auto", "time") == "noise");
  CHECK(noisy.run({"--strict"}) == 0);
  Gate faster(measurement(), timed(5, 4.9, 5.1));
  CHECK(faster.run() == 0);
  CHECK(faster.verdict("auto", "time") == "better");
}

TEST_CASE("compare: a wrong result fails, whatever its bytes and times") {
  json fresh = measurement();
  fresh["plans"]["auto"]["verified"] = {{"max_rel_err", 1.0}, {"tolerance", 0.01}, {"ok", false}};
  Gate gate(measurement(), fresh);
  CHECK(gate.run() == 1);
  CHECK(gate.verdict("auto", "wrong") == "worse");
}

TEST_CASE("compare: kernels are matched by what they compute, not by position") {
  json base = json::parse(kOps);
  json ops = base;
  ops["ops"] = json::array({base["ops"][0], base["ops"][1]});
  std::swap(ops["ops"][0], ops["ops"][1]);
  Gate moved(analysis_of(base), analysis_of(ops));
  CHECK(moved.run({"--strict"}) == 0);
  ops = base;
  ops["ops"][1]["name"] = "rectify";
  Gate renamed(analysis_of(base), analysis_of(ops));
  CHECK(renamed.run() == 0);
  CHECK(renamed.finding("unfused", "bytes", "act -> rectify")["change"] == "renamed");
  CHECK(renamed.finding("auto", "bytes", "sum+act -> sum+rectify")["change"] == "renamed");
  CHECK(renamed.run({"--strict"}) == 1);
  // Ops without names are told apart by their tensors: the new first one renumbers the others.
  for (json& op : base["ops"]) op.erase("name");
  ops = base;
  ops["ops"].insert(ops["ops"].begin(),
                    json::parse(R"({"op": "exp", "inputs": ["x"], "output": "e"})"));
  ops["outputs"] = {"y", "e"};
  Gate numbered(analysis_of(base), analysis_of(ops));
  CHECK(numbered.run() == 1);
  CHECK(numbered.finding("unfused", "bytes", "op#0")["change"] == "added");
  CHECK(numbered.finding("unfused", "bytes", "op#1 -> op#2")["change"] == "renamed");
}

TEST_CASE("compare: split and merged kernels are named as such") {
  json fused = json::parse(kOps);
  json split = fused;
  fused["fuse"] = json::parse(R"([["sum", "act"]])");
  split["fuse"] = json::array();
  Gate apart(analysis_of(fused), analysis_of(split));
  CHECK(apart.run() == 1);
  const json finding = apart.finding("explicit", "bytes", "sum+act -> sum, act");
  CHECK(finding["change"] == "split");
  CHECK(finding["verdict"] == "worse");
  CHECK(finding["note"] ==
        "h is now written and read (8.000 kB); apart at h: could be fused, saving 8.000 kB");
  Gate together(analysis_of(split), analysis_of(fused));
  CHECK(together.run() == 0);
  CHECK(together.finding("explicit", "bytes", "sum, act -> sum+act")["change"] == "merged");
  json gone = split;
  gone.erase("fuse");
  Gate without(analysis_of(split), analysis_of(gone));
  CHECK(without.run() == 0);
  // Every op alone is what the unfused plan is, too, but that has its own partner.
  CHECK(without.finding("explicit", "bytes")["change"] == "removed");
}

TEST_CASE("compare: zero and null baselines are compared as far as they go, and said") {
  json base = analysis_of(json::parse(kOps));
  json fresh = base;
  base["plans"]["auto"]["total"] = 0;
  base["fused_bytes"] = 0;
  Gate zero(base, fresh);
  CHECK(zero.run() == 1);
  CHECK(zero.finding("auto", "bytes")["share_pct"].is_null());
  CHECK(contains(zero.err, "bytes 0 B -> 12.00 kB (from 0)"));
  Gate both_zero(base, base);
  CHECK(both_zero.run() == 0);

  const json uncounted = measured([](json& figures) {
    figures["dram_read"] = nullptr;
    figures["dram_write"] = nullptr;
    figures["error_pct"] = nullptr;
    figures["reason"] = "counters are not permitted";
  });
  Gate lost(measurement(), uncounted);
  CHECK(lost.run() == 0);
  CHECK(lost.verdict("auto", "dram_read") == "unknown");
  CHECK(lost.finding("auto", "dram_read")["note"] ==
        "not known any more: counters are not permitted");
  CHECK(lost.run({"--strict"}) == 1);
  Gate gained(uncounted, measurement());
  CHECK(gained.run() == 0);
  CHECK(gained.finding("auto", "dram_read")["note"] ==
        "not known before: counters are not permitted");
  Gate neither(uncounted, uncounted);
  CHECK(neither.run({"--strict"}) == 0);
}

TEST_CASE("compare: other devices, dims, dtypes and schemas are refused, and let pass by force") {
  const auto refused = [](const json& base, const json& fresh, const std::string& why) {
    Gate gate(base, fresh);
    CHECK(gate.run() == 2);
    CHECK(gate.out == "");
    CHECK_MESSAGE(contains(gate.err, why), gate.err);
    CHECK(contains(gate.err, "--force"));
    CHECK(gate.run({"--force", "--no-fail"}) == 0);
    CHECK(contains(gate.document["notes"].dump(), "compared all the same"));
  };
  json other = measurement();
  other["device"]["name"] = "GPU B";
  refused(measurement(), other, "fusecalc: new.json: device is GPU B, but GPU A in base.json; ");
  const json ops = json::parse(kOps);
  refused(analysis_of(ops), analysis_of(ops, {"--dim", "N=2000"}),
          "dim N is 2000, but 1000 in base.json (and 2 more); ");
  json half = ops;
  half["dtype"] = "f16";
  refused(analysis_of(ops), analysis_of(half), "dtype of r is f16, but f32 in base.json");
  const json sizes = json::parse(R"([{"input_size": 10, "output_size": 10}])");
  refused(analysis_of(sizes), analysis_of(sizes, {"--dtype-bytes", "4"}),
          "dtype_bytes is 4, but 2 in base.json");
  refused(analysis_of(ops), analysis_of(ops, {"--device", "a100"}),
          "device is a100, but h200 in base.json");
  refused(analysis_of(ops), measurement(),
          "is a \"fusecalc.measurement/1\", but base.json a \"fusecalc.analysis/1\"");
  json old = analysis_of(ops);
  old["schema"] = "fusecalc.analysis/0";
  refused(old, analysis_of(ops),
          "fusecalc: base.json: /schema: \"fusecalc.analysis/0\" is another");
  json same_model = measurement();
  same_model["device"]["uuid"] = "GPU-2";
  Gate twin(measurement(), same_model);
  CHECK(twin.run() == 0);
  CHECK(contains(twin.document["notes"].dump(), "device uuid was GPU-1, and is GPU-2"));
}

TEST_CASE("compare: what is no result is refused with its place") {
  const TempDir folder;
  write_file(folder / "good.json", analysis_of(json::parse(kOps)).dump());
  const auto refused = [&](const std::string& text, const std::string& why) {
    write_file(folder / "bad.json", text);
    for (const Words& pair : {Words{"good.json", "bad.json"}, Words{"bad.json", "good.json"}}) {
      const Outcome outcome = invoke({"compare", pair[0], pair[1]}).in(folder.path()).outcome();
      CHECK(outcome.exit_code == 2);
      CHECK(outcome.out == "");
      CHECK(outcome.err == "fusecalc: bad.json: " + why + "\n");
    }
  };
  refused("", "line 1, column 1: not JSON: the document is empty");
  refused(R"({"schema": "fusecalc.analysis/1", "fused_bytes": NaN})",
          "line 1, column 50: not JSON: expected a value, found \"NaN\" (NaN and Infinity are not "
          "JSON)");
  refused(R"({"schema": "fusecalc.analysis/1", "fused_bytes": -1})",
          "/fused_bytes: must not be negative, and is -1");
  refused(R"({"schema": "fusecalc.analysis/1", "plans": {"auto": {"kernels": [{"read": "x"}]}}})",
          "/plans/auto/kernels/0/read: must be a number of bytes, not a string");
  refused(
      R"({"schema": "fusecalc.measurement/1", "plans": {"a": {"measured": {"time_us": {"p10": 1e999}}}}})",
      "/plans/a/measured/time_us/p10: must be a time in microseconds, not 1e999");
  refused(R"("text")", "must be an object, not a string");
  refused(R"([{"schema": "fusecalc.analysis/1", "dims": []}])",
          "/0/dims: must be an object, not an array");
  refused(R"([{"input_size": 1, "output_size": 1}])",
          "/0: has no \"schema\", so it is no result; compare takes what analyze or measure wrote "
          "with -o FILE.json");
  refused(kOps,
          "has no \"schema\", so it is no result; compare takes what analyze or measure wrote with "
          "-o FILE.json");
  refused(R"({"schema": "fusecalc.comparison/1"})",
          "/schema: \"fusecalc.comparison/1\" is no result; compare takes fusecalc.analysis/1 or "
          "fusecalc.measurement/1");
  refused(R"({"x": )" + std::string(100, '[') + std::string(100, ']') + "}", "/x" + [] {
    std::string zeros;
    for (int i = 0; i < 14; ++i) zeros += "/0";
    return zeros;
  }() + "/0: must not nest more than 16 deep");
  const Outcome missing = invoke({"compare", "good.json", "gone.json"}).in(folder.path()).outcome();
  CHECK(missing.exit_code == 2);
  CHECK(missing.err == "fusecalc: gone.json: No such file or directory\n");
}

TEST_CASE("compare: folders are paired by file name, and a missing spec fails") {
  const TempDir folder;
  const std::string result = analysis_of(json::parse(kOps)).dump();
  for (const char* name : {"base", "new", "empty"}) {
    std::filesystem::create_directory(folder / name);
  }
  const auto run = [&](Words arguments) {
    arguments.insert(arguments.begin(), "compare");
    return invoke(arguments).in(folder.path()).outcome();
  };
  write_file(folder / "base/a.json", result);
  write_file(folder / "base/b.json", result);
  write_file(folder / "base/README.md", "no result");
  write_file(folder / "new/a.json", result);
  write_file(folder / "new/b.json", result);
  CHECK(run({"base", "new"}).exit_code == 0);
  write_file(folder / "new/c.json", result);
  const Outcome added = run({"base", "new", "-f", "table"});
  CHECK(added.exit_code == 0);
  CHECK(contains(added.out, "c    "));
  CHECK(contains(added.out, "passed: 1 added, 8 same"));
  CHECK(run({"base", "new", "--strict"}).exit_code == 1);
  std::filesystem::remove(folder / "new/b.json");
  const Outcome missing = run({"base", "new"});
  CHECK(missing.exit_code == 1);
  CHECK(missing.err ==
        "fusecalc: new: worse than base: b: removed: new has no document of that name\n");
  const Outcome nothing = run({"base", "empty"});
  CHECK(nothing.exit_code == 2);
  CHECK(nothing.out == "");
  CHECK(nothing.err == "fusecalc: nothing to compare: no result of base has a namesake in empty\n");
  CHECK(run({"empty", "empty"}).exit_code == 2);
  CHECK(run({"base", "new/a.json"}).err ==
        "fusecalc: compare: base is a folder and new/a.json is none; give two files or two "
        "folders\n");
}

TEST_CASE("compare: lists of results are paired by their names") {
  const auto named = [](const std::string& name) {
    json result = measurement();
    result["name"] = name;
    return result;
  };
  Gate gate(json::array({named("a"), named("b")}), json::array({named("b"), named("c")}));
  CHECK(gate.run() == 1);
  CHECK(gate.err ==
        "fusecalc: new.json: worse than base.json: a: removed: new.json has no document "
        "of that name\n");
  CHECK(gate.document["specs"] == json({"a", "b", "c"}));
  Gate one_of_them(json::array({named("a"), named("b")}), named("b"));
  CHECK(one_of_them.run() == 1);
  CHECK(one_of_them.document["counts"]["removed"] == 1);
  Gate lone(named("a"), named("b"));
  CHECK(lone.run() == 0);  // two files are a pair, whatever they are called
  Gate none(json::array(), json::array());
  CHECK(none.run() == 2);
  Gate twice(json::array({named("a"), named("a")}), named("a"));
  CHECK(twice.run() == 2);
  CHECK(contains(twice.err, "base.json: another result is called \"a\", too"));
}

TEST_CASE("compare: one side may be standard input, and not both") {
  const TempDir folder;
  const std::string result = analysis_of(json::parse(kOps)).dump();
  write_file(folder / "base.json", result);
  const auto run = [&](const std::string& base, const std::string& fresh) {
    return invoke({"compare", base, fresh}).in(folder.path()).input(result).outcome();
  };
  CHECK(run("base.json", "-").exit_code == 0);
  CHECK(run("-", "base.json").exit_code == 0);
  const Outcome both = run("-", "-");
  CHECK(both.exit_code == 2);
  CHECK(both.out == "");
}

TEST_CASE("compare: nothing in common is nothing to compare") {
  Gate gate({{"schema", "fusecalc.analysis/1"}}, {{"schema", "fusecalc.analysis/1"}});
  CHECK(gate.run() == 2);
  CHECK(gate.err ==
        "fusecalc: nothing to compare: base.json and new.json have no figure in common\n");
}

TEST_CASE("compare: lists of sizes have their two totals") {
  const json base = analysis_of(json::parse(R"([{"input_size": 10, "output_size": 10}])"));
  const json fresh = analysis_of(json::parse(R"([{"input_size": 10, "output_size": 11}])"));
  Gate gate(base, fresh);
  CHECK(gate.run() == 1);
  CHECK(gate.finding("unfused", "bytes")["delta"] == 2);
  CHECK(gate.finding("auto", "bytes")["delta"] == 2);
}

TEST_CASE("compare: the verdict's files are written even where the gate fails") {
  const TempDir folder;
  json ops = json::parse(kOps);
  write_file(folder / "base.json", analysis_of(ops).dump());
  ops["outputs"] = {"y", "h"};
  write_file(folder / "new.json", analysis_of(ops).dump());
  const Outcome outcome =
      invoke({"compare", "base.json", "new.json", "-o", "v.json", "-o", "v.xml", "-o", "v.md"})
          .in(folder.path())
          .outcome();
  CHECK(outcome.exit_code == 1);
  CHECK(json::parse(read_file(folder / "v.json"))["verdict"] == "fail");
  CHECK(contains(read_file(folder / "v.xml"), "<failure type=\"worse\""));
  CHECK(contains(read_file(folder / "v.md"), "| **worse** |"));
  const Outcome unknown =
      invoke({"compare", "base.json", "new.json", "-o", "v.dot"}).in(folder.path()).outcome();
  CHECK(unknown.exit_code == 2);
  CHECK(unknown.out == "");
  CHECK(unknown.err ==
        "fusecalc: -o v.dot: the format follows from the extension; end the name in .txt, .json, "
        ".csv, .md or .xml\n");
}

TEST_CASE("compare: findings are sorted worst first, or as asked") {
  json base = analysis_of(json::parse(kOps));
  json fresh = base;
  fresh["plans"]["unfused"]["total"] = 24000;  // +4000, +20 %
  fresh["plans"]["auto"]["total"] = 15000;     // +3000, +25 %
  fresh["plans"]["compiler"]["total"] = 11000;
  Gate gate(base, fresh);
  const auto order = [&](const Words& options) {
    gate.run(options);
    Words plans;
    for (const json& finding : gate.document["findings"]) plans.push_back(finding["plan"]);
    plans.resize(2);
    return plans;
  };
  CHECK(order({}) == Words{"auto", "unfused"});
  CHECK(order({"--sort", "share"}) == Words{"auto", "unfused"});
  CHECK(order({"--sort", "delta"}) == Words{"unfused", "auto"});
  CHECK(order({"--sort", "name"}) == Words{"auto", "compiler"});  // as the document has them
}

TEST_CASE("compare: what a tolerance cannot be is refused") {
  const TempDir folder;
  write_file(folder / "a.json", analysis_of(json::parse(kOps)).dump());
  const auto refused = [&](const Words& options, const std::string& why) {
    Words arguments = {"compare", "a.json", "a.json"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    const Outcome outcome = invoke(arguments).in(folder.path()).outcome();
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out == "");
    CHECK_MESSAGE(contains(outcome.err, why), outcome.err);
  };
  refused({"--tolerance", "1%"}, "must look like bytes=0,dram=1%,time=5%, not \"1%\"");
  refused({"--tolerance", "byte=1%"}, "\"byte\" is none of bytes, dram or time (did you mean");
  refused({"--tolerance", "time=5"}, "time must be a share such as 5%, a time such as 2us, or 0");
  refused({"--tolerance", "bytes=-1%"},
          "bytes must be a share such as 1%, a number of bytes, or 0");
  refused({"--tolerance", "bytes=1.5"}, "bytes must be");
  refused({"--tolerance", "bytes=1%,bytes=2%"}, "bytes is given twice");
  refused({"--tolerance-file", "gone.json"}, "gone.json: No such file");
  const auto file = [&](const std::string& text, const std::string& why) {
    write_file(folder / "t.json", text);
    refused({"--tolerance-file", "t.json"}, "fusecalc: t.json: " + why);
  };
  file(R"({"bites": "1%"})", "/bites: unknown key \"bites\" (did you mean \"bytes\"?)");
  file(R"({"time": 5})", "/time: must be a share such as 5%, a time such as 2us, or 0, not \"5\"");
  file(R"({"rules": [{"spec": "a"}]})", "/rules/0: needs one of bytes, dram or time");
  file(R"({"schema": "fusecalc.tolerances/2"})", "/schema: must be \"fusecalc.tolerances/1\"");
}

TEST_CASE("compare: rules of a file come before those of the command line") {
  const TempDir folder;
  json base = analysis_of(json::parse(kOps));
  json fresh = base;
  fresh["plans"]["auto"]["total"] = 12120;
  fresh["fused_bytes"] = 12120;
  write_file(folder / "base.json", base.dump());
  write_file(folder / "new.json", fresh.dump());
  const auto code = [&](const std::string& rules, const Words& more = {}) {
    write_file(folder / "t.json", rules);
    Words arguments = {"compare", "base.json", "new.json", "--tolerance-file", "t.json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return invoke(arguments).in(folder.path()).outcome().exit_code;
  };
  CHECK(code("{}") == 1);
  CHECK(code(R"({"bytes": "1%"})") == 0);
  CHECK(code(R"({"bytes": 120})") == 0);
  CHECK(code(R"({"bytes": "1%", "rules": [{"plan": "auto", "bytes": 0}]})") == 1);
  CHECK(code(R"({"rules": [{"plan": "auto", "bytes": "1%"}], "bytes": 0})") == 0);
  CHECK(code(R"({"rules": [{"spec": "std*", "bytes": "1%"}]})") == 0);
  CHECK(code(R"({"bytes": "1%"})", {"--tolerance", "bytes=0"}) == 1);
}
