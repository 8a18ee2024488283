// What a result was counted or measured for, and what it is about, must be the same on both sides.

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "compare/gate.hpp"

namespace fusecalc::testing {
namespace {

using Pointer = json::json_pointer;

void refused(const json& base, const json& fresh, const std::string& why) {
  Gate gate(base, fresh);
  CHECK(gate.run() == 2);
  CHECK_MESSAGE(contains(gate.err, why), gate.err);
  CHECK(gate.run({"--force", "--no-fail"}) == 0);
}

// A measured kernel of ops that move 2,000,000 bytes each way.
json kernel_of(const std::vector<std::string>& ops) {
  json kernel = measurement()["plans"]["auto"]["kernels"][0];
  kernel.erase("total");
  kernel["name"] = fmt::format("{}", fmt::join(ops, "+"));
  kernel["ops"] = ops;
  kernel["read"] = kernel["write"] = 2000000 * ops.size();
  return kernel;
}

json measurement_of(const std::vector<json>& kernels) {
  json document = measurement();
  document["plans"]["auto"]["kernels"] = kernels;
  return document;
}

}  // namespace

TEST_CASE("compare: a condition that differs, or that only one side records, is refused") {
  struct Condition {
    const char* place;
    json value;
    json other;
    const char* what;
  };
  const std::vector<Condition> conditions = {
      {"/seed", 0, 1, "seed"},
      {"/synthetic", true, false, "synthetic"},
      {"/interrupted", true, false, "interrupted"},
      {"/dtype_bytes", 2, 4, "dtype_bytes"},
      {"/dims/T", 4, 8, "dim T"},
      {"/device/name", "GPU A", "GPU B", "device"},
      {"/device/compute_capability", "9.0", "8.0", "compute capability"},
      {"/device/sm_count", 132, 78, "number of multiprocessors"},
      {"/device/shared_bytes_per_block", 232448, 101376, "shared memory of a block"},
      {"/device/l2_bytes", 62914560, 1048576, "size of the L2"},
      {"/device/ecc", true, false, "ECC"},
  };
  for (const Condition& condition : conditions) {
    const auto& [place, value, other, what] = condition;
    CAPTURE(condition.place);
    json base = measurement();
    json with = measurement();
    const Pointer pointer(place);
    if (base.contains(pointer)) base[pointer.parent_pointer()].erase(pointer.back());
    with[pointer] = value;
    json changed = with;
    changed[pointer] = other;
    refused(base, with, std::string(what) + " is ");
    refused(with, base, std::string(what) + " is not recorded, but ");
    refused(with, changed, std::string(what) + " is ");
    CHECK(Gate(with, with).run() == 0);
  }
}

TEST_CASE("compare: one more input is another graph") {
  const json base = analysis_of(json::parse(kOps));
  json fresh = base;
  fresh["inputs"]["extra"] = {{"dtype", "f32"}, {"shape", {7}}};
  refused(base, fresh, "it has one more input (f32 [7]) than base.json");
  refused(fresh, base, "it has no input extra (f32 [7])");
}

TEST_CASE("compare: what may differ is noted") {
  json fresh = measurement();
  json base = measurement();
  base["device"]["sm_clock_mhz"] = 1980.0;
  fresh["device"]["sm_clock_mhz"] = 1200.0;
  Gate gate(base, fresh);
  CHECK(gate.run() == 0);
  CHECK(contains(gate.document["notes"].dump(), "SM clock changed from 1980.0 to 1200.0"));
}

TEST_CASE("compare: a headline that is about another plan fails") {
  const json ops = json::parse(kOps);
  const json base = analysis_of(ops);
  for (const char* plan : {"limit", "compiler", "unfused"}) {
    CAPTURE(plan);
    Gate gate(base, analysis_of(ops, {"--plan", plan}));
    CHECK(gate.run() == 1);
    CHECK(contains(gate.document.dump(),
                   std::string("the result is about the plan ") + plan + ", not auto"));
  }
  Gate accepted(base, analysis_of(ops, {"--plan", "limit"}));
  CHECK(accepted.run({"--allow-missing"}) == 0);
}

TEST_CASE("compare: kernels under all new names are judged one by one") {
  const json base = analysis_of(json::parse(kOps));
  json fresh = analysis_of(json::parse(R"({"dtype": "f32", "dims": {"N": 1000},
    "tensors": {"p": {"shape": ["N"]}, "q": {"shape": ["N"]}},
    "ops": [{"name": "one", "op": "add", "inputs": ["p", "q"], "output": "s"},
            {"name": "two", "op": "relu", "inputs": ["s"], "output": "t"}],
    "outputs": ["t"]})"));
  Gate renamed(base, fresh);
  CHECK(renamed.run() == 0);
  CHECK(renamed.finding("unfused", "bytes", "sum -> one")["change"] == "renamed");
  // 4,000 bytes more in one kernel and less in the other: the totals are the same.
  json& kernels = fresh["plans"]["unfused"]["kernels"];
  kernels[0]["read"] = 12000;
  kernels[0]["reads"]["p"] = 8000;
  kernels[1]["read"] = 0;
  kernels[1]["reads"] = json::object();
  Gate shifted(base, fresh);
  CHECK(shifted.run() == 1);
  CHECK(shifted.verdict("unfused", "bytes", "sum") == "removed");
  CHECK(shifted.verdict("unfused", "bytes", "one") == "added");
  CHECK(shifted.run({"--allow-missing"}) == 0);
}

TEST_CASE("compare: merging kernels does not hide that one was measured") {
  json unmeasured = kernel_of({"b"});
  unmeasured["measured"] = {{"dram_read", nullptr}, {"dram_write", nullptr}, {"time_us", nullptr}};
  const json merged = kernel_of({"a", "b"});
  const json base = measurement_of({kernel_of({"a"}), unmeasured});
  json fresh = measurement_of({merged});
  CHECK(Gate(base, fresh).run() == 0);  // measured as a whole
  for (const char* figure : {"dram_read", "dram_write", "time_us"}) {
    CAPTURE(figure);
    fresh["plans"]["auto"]["kernels"][0]["measured"] = merged["measured"];
    fresh["plans"]["auto"]["kernels"][0]["measured"][figure] = nullptr;
    Gate gate(base, fresh);
    CHECK(gate.run() == 1);
    CHECK(contains(gate.out, "some of its kernels had it"));
    CHECK(gate.run({"--allow-missing"}) == 0);
  }
}

TEST_CASE("compare: merging kernels does not hide that more ops cannot be launched") {
  json unlaunchable = kernel_of({"a"});
  unlaunchable["cannot_launch"] = "too large";
  json merged = kernel_of({"a", "b"});
  merged["cannot_launch"] = "too large";
  const json base = measurement_of({unlaunchable, kernel_of({"b"})});
  const json fresh = measurement_of({merged});
  Gate gate(base, fresh);
  CHECK(gate.run() == 1);
  CHECK(gate.verdict("auto", "unlaunchable", "a, b -> a+b") == "worse");
  Gate back(fresh, base);
  back.run();
  CHECK(back.verdict("auto", "unlaunchable", "a+b -> a, b") == "same");
}

}  // namespace fusecalc::testing
