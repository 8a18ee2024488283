// The verdicts of `fusecalc compare`, through the real binary.

#include "compare/gate.hpp"

#include <doctest/doctest.h>

#include <utility>

using namespace fusecalc::testing;

TEST_CASE("compare: equal results pass, with nothing on standard error") {
  Gate analytic(analysis_of(json::parse(kOps)), analysis_of(json::parse(kOps)));
  CHECK(analytic.run() == 0);
  CHECK(analytic.run({"--strict"}) == 0);
  CHECK(analytic.verdict("auto", "bytes") == "same");
  CHECK(analytic.run({"--only-changed"}) == 0);
  CHECK(analytic.document["findings"].empty());
  CHECK(analytic.document["counts"]["same"] == 5);  // the plans
  Gate on_device(measurement(), measurement());
  CHECK(on_device.run({"--strict"}) == 0);
  CHECK(on_device.verdict("auto", "pipeline_time") == "same");
}

TEST_CASE("compare: an additional output fails the gate and names the tensor that is now written") {
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
  CHECK(contains(gate.err, "new.json: different from base.json: "));
}

TEST_CASE("compare: measured bytes may grow by 1 %, and by counter noise") {
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

TEST_CASE("compare: a time is worse beyond 5 %, if the p10 to p90 ranges do not overlap") {
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

TEST_CASE("compare: a wrong result fails regardless of its bytes and times") {
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
        "h is now written and read (8.000 kB); not fused at h: could be fused, saving 8.000 kB");
  Gate together(analysis_of(split), analysis_of(fused));
  CHECK(together.run() == 0);
  CHECK(together.finding("explicit", "bytes", "sum, act -> sum+act")["change"] == "merged");
  json gone = split;
  gone.erase("fuse");
  Gate without(analysis_of(split), analysis_of(gone));
  CHECK(without.run() == 1);
  // Every op alone is what the unfused plan is, too, but that has its own candidate.
  CHECK(without.finding("explicit", "bytes")["change"] == "removed");
  CHECK(without.run({"--allow-missing"}) == 0);
}

TEST_CASE("compare: zero and null baselines are compared where possible, and reported") {
  json base = analysis_of(json::parse(kOps));
  json fresh = base;
  base["plans"]["auto"] = {{"total", 0}};
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
  CHECK(lost.run() == 1);
  CHECK(lost.verdict("auto", "dram_read") == "unknown");
  CHECK(lost.run({"--allow-missing"}) == 0);
  CHECK(lost.finding("auto", "dram_read")["note"] ==
        "no longer available: counters are not permitted");
  CHECK(lost.run({"--strict"}) == 1);
  Gate gained(uncounted, measurement());
  CHECK(gained.run() == 0);
  CHECK(gained.finding("auto", "dram_read")["note"] ==
        "not available before: counters are not permitted");
  Gate neither(uncounted, uncounted);
  CHECK(neither.run({"--strict"}) == 0);
}

TEST_CASE("compare: lists of sizes have their two totals") {
  const json base = analysis_of(json::parse(R"([{"input_size": 10, "output_size": 10}])"));
  const json fresh = analysis_of(json::parse(R"([{"input_size": 10, "output_size": 11}])"));
  Gate gate(base, fresh);
  CHECK(gate.run() == 1);
  CHECK(gate.finding("unfused", "bytes")["delta"] == 2);
  CHECK(gate.finding("auto", "bytes")["delta"] == 2);
}

TEST_CASE("compare: findings are sorted worst first, or by --sort") {
  json base = analysis_of(json::parse(kOps));
  json fresh = base;
  for (const char* plan : {"unfused", "auto", "compiler"}) {
    base["plans"][plan].erase("kernels");
    fresh["plans"][plan].erase("kernels");
  }
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
