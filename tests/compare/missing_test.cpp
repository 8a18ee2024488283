// A gate passes only what it compared: what the earlier result has and the new one lacks fails.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "compare/compare.hpp"
#include "compare/deletions.hpp"
#include "compare/gate.hpp"
#include "core/error.hpp"

namespace fusecalc::testing {
namespace {

namespace fs = std::filesystem;

// Whether `fusecalc compare` would pass, without the cost of a process.
bool passes(const std::vector<ResultDocument>& base, const std::string& text) {
  try {
    JsonReader reader(ByteSource::from_memory(text, "new.json"));
    const std::vector<ResultDocument> results = read_results(reader, false);
    REQUIRE(base.size() == 1);
    REQUIRE(results.size() == 1);
    if (!mismatches(base.front(), results.front()).empty()) return false;
    Comparison comparison;
    compare_documents(base.front(), results.front(), "spec", comparison);
    return !comparison.findings.empty() && !comparison.failed();
  } catch (const Error&) {
    return false;
  }
}

// A place in a document with names of plans, tensors, dims and positions replaced by *.
std::string pattern_of(const json::json_pointer& place) {
  std::vector<std::string> tokens;
  for (json::json_pointer rest = place; !rest.empty(); rest.pop_back()) {
    tokens.push_back(rest.back());
  }
  std::ranges::reverse(tokens);
  std::string pattern;
  std::string parent;
  for (const std::string& token : tokens) {
    const bool is_name = parent == "plans" || parent == "dims" || parent == "inputs" ||
                         parent == "reads" || parent == "writes";
    const bool is_position = !token.empty() && token.find_first_not_of("0123456789") == token.npos;
    pattern += is_name || is_position ? "/*" : "/" + token;
    parent = is_name || is_position ? "" : token;
  }
  return pattern;
}

// What `compare` does not judge, so that its absence hides nothing. Everything else must be missed.
bool is_judged(const std::string& pattern) {
  constexpr std::string_view kNotJudged[] = {
      // Derived from what is judged, or words about it.
      "/name", "/savings_bytes", "/savings_pct", "/speedup_estimate", "/speedup_measured", "/notes",
      "/payback_runs",
      // What is predicted is no result: another version may predict better.
      "/speedup_predicted", "/plans/*/predicted", "/plans/*/in_range",
      // What may differ is noted.
      "/device/",
      // The total is the sum of the two parts: one of both ways to say it is enough.
      "/plans/*/total", "/plans/*/read", "/plans/*/write", "/plans/*/flops", "/plans/*/notes",
      "/plans/*/choice", "/plans/*/verified_reason", "/plans/*/saved",
      // A kernel is what its ops are, and its bytes.
      "/plans/*/kernels/*/"};
  constexpr std::string_view kJudged[] = {"/device/name",
                                          "/device/compute_capability",
                                          "/device/sm_count",
                                          "/device/shared_bytes_per_block",
                                          "/device/l2_bytes",
                                          "/device/ecc",
                                          "/plans/*/kernels/*/read",
                                          "/plans/*/kernels/*/write",
                                          "/plans/*/kernels/*/measured",
                                          "/plans/*/kernels/*/measured/dram_read",
                                          "/plans/*/kernels/*/measured/dram_write",
                                          "/plans/*/kernels/*/measured/time_us",
                                          "/plans/*/kernels/*/measured/time_us/median"};
  if (std::ranges::find(kJudged, pattern) != std::end(kJudged)) return true;
  for (const std::string_view part :
       {"/gbps", "/error_pct", "/reason", "/min", "/p10", "/p90", "/samples", "/throttled",
        "/max_rel_err", "/tolerance", "/worst", "/unchecked"}) {
    if (pattern.find(part) != std::string::npos && pattern.find("/measured") != pattern.npos) {
      return false;
    }
    if (pattern.find(part) != std::string::npos && pattern.find("/verified") != pattern.npos) {
      return false;
    }
  }
  return std::ranges::none_of(kNotJudged, [&](std::string_view part) {
    return part.ends_with('/') ? pattern.starts_with(part)
                               : pattern == part || pattern.starts_with(std::string(part) + "/");
  });
}

// What was not measured, or is empty; the limit's kernel is a bound.
bool has_nothing_to_lose(const json& value, const std::string& place) {
  if (value.is_null() || place.starts_with("/plans/limit/kernels")) return true;
  if (!value.is_object()) return value.is_array() && value.empty();
  return std::ranges::all_of(value.items(), [](const auto& member) {
    return member.key() == "reason" || member.value().is_null();
  });
}

// Deletes one judged place of every pattern in turn, or each of them. `turn` chooses which, so that
// the places differ from document to document. Returns the number of deletions.
std::size_t delete_in_turn(const fs::path& path, std::size_t turn, bool each) {
  CAPTURE(path);
  const std::string text = read_file(path);
  const json document = json::parse(text);
  JsonReader reader(ByteSource::from_memory(text, "base.json"));
  const std::vector<ResultDocument> base = read_results(reader, false);
  REQUIRE(passes(base, text));
  std::map<std::string, std::vector<Deletion>> places;
  for (Deletion& deletion : deletions_of(text)) {
    const std::string pattern = pattern_of(deletion.place);
    if (!is_judged(pattern)) continue;
    if (has_nothing_to_lose(document.at(deletion.place), deletion.place.to_string())) continue;
    places[pattern].push_back(std::move(deletion));
  }
  std::size_t count = 0;
  for (const auto& entry : places) {
    const std::vector<Deletion>& found = entry.second;
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (!each && i != turn % found.size()) continue;
      CAPTURE(found[i].place.to_string());
      CHECK_FALSE(passes(base, found[i].applied_to(text)));
      ++count;
    }
  }
  return count;
}

// A profile of one kernel, of which so many of three launches were counted.
json profile_of(int counted) {
  const json bytes = 1000 * counted;
  const json kernel = {{"name", "a"},        {"kind", "kernel"},   {"launches", 3},
                       {"counted", counted}, {"dram_read", bytes}, {"dram_write", 0},
                       {"time_us", nullptr}, {"gbps", nullptr}};
  const json process = {{"pid", 1},
                        {"totals",
                         {{"dram_read", bytes},
                          {"dram_write", 0},
                          {"total", bytes},
                          {"drained", 0},
                          {"time_us", nullptr}}},
                        {"kernels", json::array({kernel})},
                        {"uncounted", json::array()},
                        {"launches", json::array()}};
  return {{"schema", "fusecalc.profile/1"}, {"name", "p"}, {"processes", json::array({process})}};
}

}  // namespace

// With FUSECALC_EVERY_KEY set, every key of every document, which takes minutes.
TEST_CASE("compare: no key of a recorded result may vanish, where it was judged") {
  const bool each = std::getenv("FUSECALC_EVERY_KEY") != nullptr;
  std::size_t results = 0;
  std::size_t deletions = 0;
  for (const char* folder : {"../specs/baseline", "../specs/results"}) {
    for (const auto& entry : fs::recursive_directory_iterator(tests_folder(folder))) {
      if (entry.path().extension() != ".json") continue;
      const json document = json::parse(read_file(entry.path()));
      const bool is_result = document.is_object() && document.contains("schema");
      // A sweep is gated point by point, each by these rules.
      if (!is_result || document["schema"] == "fusecalc.ops/1" ||
          document["schema"] == "fusecalc.sweep/1") {
        continue;
      }
      deletions += delete_in_turn(entry.path(), results++, each);
    }
  }
  CHECK(results > 90);
  CHECK(deletions > 20 * results);
  if (each) MESSAGE(deletions << " deletions in " << results << " results");
}

TEST_CASE("deletions are those of a parser that is not ours") {
  const std::string text = R"( {"a": [1, {"b\"": "x,]"}, []], "c": {}, "d/e": null , "f": [ 2 ]} )";
  const std::vector<Deletion> deletions = deletions_of(text);
  CHECK(deletions.size() == 9);
  for (const Deletion& deletion : deletions) {
    CAPTURE(deletion.place.to_string());
    json expected = json::parse(text);
    json& parent = expected.at(deletion.place.parent_pointer());
    if (parent.is_array()) {
      parent.erase(std::stoul(deletion.place.back()));
    } else {
      parent.erase(deletion.place.back());
    }
    CHECK(json::parse(deletion.applied_to(text)) == expected);
  }
}

TEST_CASE("compare: a result that has nothing to compare fails") {
  const json base = analysis_of(json::parse(kOps));
  const auto fails = [&](const json& fresh, const Words& options = {}) {
    Gate gate(base, fresh);
    const int code = gate.run(options);
    CAPTURE(gate.out);
    CHECK((code == 1 || code == 2));
    return gate.err;
  };
  fails({{"schema", "fusecalc.analysis/1"}});
  CHECK(contains(fails({{"schema", "fusecalc.analysis/1"}}, {"--force"}), "(and "));
  json fresh = base;
  fresh["plans"].erase("auto");
  CHECK(contains(fails(fresh), "auto of stdin: bytes 12.00 kB -> -"));
  for (const char* key : {"fused_bytes", "unfused_bytes"}) {
    fresh = base;
    fresh[key] = nullptr;
    CHECK(contains(fails(fresh), "no longer available"));
    fresh.erase(key);
    CHECK(contains(fails(fresh), "no longer available"));
  }
  fresh = base;
  fresh.erase("plan");
  fails(fresh);
  fresh = base;
  fresh["plans"]["auto"].erase("kernels");
  CHECK(contains(fails(fresh), "its kernels are no longer listed"));
  fresh = base;
  fresh["plans"]["unfused"]["kernels"].erase(1);
  CHECK(contains(fails(fresh), "unfused of stdin, kernel act: bytes 8.000 kB -> -"));
  fresh["plans"]["unfused"]["kernels"] = json::array({json::object()});
  CHECK(contains(fails(fresh), "bytes 12.00 kB -> -"));
  fresh = base;
  fresh["plan"] = "nope";
  CHECK(contains(fails(fresh), "is not one of its plans"));
  fresh = base;
  fresh["plans"]["auto"]["kernels"].push_back(
      {{"name", "z"}, {"ops", {"z"}}, {"read", 0}, {"write", 0}, {"cannot_launch", "too large"}});
  CHECK(contains(fails(fresh), "cannot be launched 0 -> 1"));
  // Without its bytes, too, it is another op list.
  fresh = base;
  fresh["plans"]["unfused"]["kernels"].erase(1);
  fresh["plans"]["unfused"]["total"] = 12000;
  Gate shorter(base, fresh);
  CHECK(shorter.run() == 0);
  CHECK(shorter.finding("unfused", "bytes", "act")["change"] == "removed");
}

TEST_CASE("compare: a list of sizes and a graph are not compared") {
  const json graph = analysis_of(json::parse(kOps));
  const json sizes = analysis_of(json::parse(R"([{"input_size": 1, "output_size": 1}])"));
  Gate one(graph, sizes);
  CHECK(one.run() == 2);
  CHECK(contains(one.err, "is not recorded, but "));
  Gate other(sizes, graph);
  CHECK(other.run() == 2);
  CHECK(contains(other.err, "dtype_bytes is not recorded, but 2 in base.json"));
}

TEST_CASE("compare: a kernel that can no longer be launched is worse, even if it saves bytes") {
  json apart = json::parse(R"({"dtype": "bf16",
    "tensors": {"x": {"shape": [512, 256]}, "a": {"shape": [256, 256]}, "b": {"shape": [256, 256]}},
    "ops": [{"name": "up", "op": "linear", "inputs": ["x", "a"], "output": "h"},
            {"name": "down", "op": "linear", "inputs": ["h", "b"], "output": "y"}],
    "fuse": []})");
  json together = apart;
  together["fuse"] = json::parse(R"([["up", "down"]])");
  Gate gate(analysis_of(apart), analysis_of(together));
  CHECK(gate.run() == 1);
  CHECK(gate.verdict("explicit", "bytes") == "better");
  const json finding = gate.finding("explicit", "unlaunchable", "up, down -> up+down");
  CHECK(finding["verdict"] == "worse");
  CHECK(contains(finding["note"], "second contraction"));
  Gate back(analysis_of(together), analysis_of(apart));
  CHECK(back.run() == 1);  // more bytes
  CHECK(back.verdict("explicit", "unlaunchable", "up+down -> up, down") == "better");
}

TEST_CASE("compare: other inputs are refused, and renamed ones are matched by their types") {
  const json base = analysis_of(json::parse(kOps));
  const auto with_inputs = [&](const char* inputs) {
    json fresh = base;
    fresh["inputs"] = json::parse(inputs);
    return fresh;
  };
  const auto refused = [&](const json& fresh, const std::string& why) {
    Gate gate(base, fresh);
    CHECK(gate.run() == 2);
    CHECK_MESSAGE(contains(gate.err, why), gate.err);
  };
  refused(with_inputs(
              R"({"p": {"dtype": "f32", "shape": [10]}, "q": {"dtype": "f32", "shape": [10]}})"),
          "it has no input r (f32 [1000]), which base.json has (and 1 more)");
  refused(with_inputs(R"({"x": {"dtype": "f32", "shape": [1000]}})"), "it has no input r");
  refused(with_inputs(R"({"x": {"shape": [1000]}, "r": {"dtype": "f32", "shape": [1000]}})"),
          "dtype of x is not recorded, but f32 in base.json");
  Gate renamed(base, with_inputs(R"({"x": {"dtype": "f32", "shape": [1000]},
                                     "s": {"dtype": "f32", "shape": [1000]}})"));
  CHECK(renamed.run() == 0);
  json fresh = base;
  fresh.erase("dims");
  refused(fresh, "dim N is not recorded, but 1000 in base.json");
  fresh = base;
  fresh.erase("device");
  refused(fresh, "device is not recorded, but h200 in base.json");
}

TEST_CASE("compare: measured figures that are gone fail") {
  const auto fails = [](const json& fresh, const std::string& why) {
    Gate gate(measurement(), fresh);
    CHECK(gate.run() == 1);
    CHECK_MESSAGE(contains(gate.out, why), gate.out);
    CHECK(gate.run({"--allow-missing"}) == 0);
  };
  fails(measured([](json& figures) { figures["time_us"] = nullptr; }), "no longer available");
  fails(measured([](json& figures) { figures = nullptr; }), "no longer available");
  json base = measurement();
  base["plans"]["auto"]["verified"] = {{"max_rel_err", 0.0}, {"tolerance", 0.01}, {"ok", true}};
  for (const char* edit : {"null", "gone"}) {
    json fresh = base;
    if (edit == std::string("null")) {
      fresh["plans"]["auto"]["verified"] = nullptr;
    } else {
      fresh["plans"]["auto"].erase("verified");
    }
    Gate gate(base, fresh);
    CHECK(gate.run() == 1);
    CHECK(gate.verdict("auto", "wrong") == "unknown");
  }
}

TEST_CASE("bytes of fewer launches of a profile are no fewer bytes") {
  Gate fewer(profile_of(3), profile_of(2));
  CHECK(fewer.run() == 1);
  CHECK(fewer.verdict("program", "pipeline_dram_read") == "unknown");
  CHECK(fewer.verdict("program", "dram_read", "a") == "unknown");
  CHECK(contains(fewer.out, "1 of its launches not counted, 0 in the other"));
  CHECK(Gate(profile_of(2), profile_of(3)).run() == 0);
  CHECK(Gate(profile_of(2), profile_of(2)).run() == 0);
}

}  // namespace fusecalc::testing
