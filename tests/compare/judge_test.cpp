#include <doctest/doctest.h>

#include <stdexcept>

#include "compare/compare.hpp"

using namespace fusecalc;

namespace {

constexpr Tolerance kNone{};
constexpr Tolerance kOnePercent{.percent = 1};

Tolerance parsed(Quantity quantity, std::string_view text) {
  const std::optional<Tolerance> tolerance = parse_tolerance(quantity, text);
  REQUIRE_MESSAGE(tolerance, text);
  return *tolerance;
}

MeasuredTime time(std::uint64_t median, std::uint64_t p10, std::uint64_t p90) {
  return {.median = median, .p10 = p10, .p90 = p90};
}

ToleranceRule rule_of(std::string_view text) {
  const std::vector<ToleranceRule> rules = parse_tolerance_rules(text);
  REQUIRE(rules.size() == 1);
  return rules.front();
}

}  // namespace

TEST_CASE("analytic bytes: a single byte counts, at any size") {
  constexpr std::uint64_t kMost = 9223372036854775807;
  CHECK(judge_bytes(100, 100, kNone) == Judgement::kSame);
  CHECK(judge_bytes(100, 101, kNone) == Judgement::kWorse);
  CHECK(judge_bytes(101, 100, kNone) == Judgement::kBetter);
  CHECK(judge_bytes(kMost - 1, kMost, kNone) == Judgement::kWorse);
  CHECK(judge_bytes(0, 1, kNone) == Judgement::kWorse);
  CHECK(judge_bytes(0, 1, kOnePercent) == Judgement::kWorse);
  CHECK(judge_bytes(0, 0, kNone) == Judgement::kSame);
}

TEST_CASE("a percentage is exact to the byte") {
  // 29 % of 100 is 29, though 0.29 * 100 in doubles is less.
  CHECK(judge_bytes(100, 129, {.percent = 29}) == Judgement::kWithin);
  CHECK(judge_bytes(100, 130, {.percent = 29}) == Judgement::kWorse);
  CHECK(judge_bytes(100, 104, {.amount = 4}) == Judgement::kWithin);
  CHECK(judge_bytes(100, 105, {.amount = 4}) == Judgement::kWorse);
}

TEST_CASE("measured bytes: within the percentage, or small compared with the total") {
  CHECK(judge_dram(1000, 1010, 1000, kOnePercent) == Judgement::kSame);
  CHECK(judge_dram(1000, 1011, 1000, kOnePercent) == Judgement::kWorse);
  CHECK(judge_dram(1000, 989, 1000, kOnePercent) == Judgement::kBetter);
  CHECK(judge_dram(10, 110, 100'000, kOnePercent) == Judgement::kSame);  // a thousandth
  CHECK(judge_dram(10, 111, 100'000, kOnePercent) == Judgement::kWorse);
  CHECK(judge_dram(0, 100, 100'000, kOnePercent) == Judgement::kSame);
  CHECK(judge_dram(0, 101, 100'000, kOnePercent) == Judgement::kWorse);
  CHECK(judge_dram(1000, 1001, 100'000, kNone) == Judgement::kWorse);
}

TEST_CASE("times: beyond the percentage, and only if the p10 to p90 ranges do not overlap") {
  constexpr Tolerance kFive{.percent = 5};
  const MeasuredTime base = time(100, 98, 103);
  CHECK(judge_time(base, time(105, 104, 106), kFive) == Judgement::kSame);
  CHECK(judge_time(base, time(106, 104, 108), kFive) == Judgement::kWorse);
  CHECK(judge_time(base, time(106, 103, 108), kFive) == Judgement::kNoise);  // they touch
  CHECK(judge_time(base, time(94, 92, 97), kFive) == Judgement::kBetter);
  CHECK(judge_time(base, time(94, 92, 98), kFive) == Judgement::kNoise);
  // A range excuses a quarter of the earlier median, whichever side is wide.
  CHECK(judge_time(base, time(200, 90, 300), kFive) == Judgement::kWorse);
  CHECK(judge_time(base, time(1000, 10, 9000), kFive) == Judgement::kWorse);
  CHECK(judge_time(time(100, 1, 9000), time(1000, 10, 9000), kFive) == Judgement::kWorse);
  // Ranges that do not hold their median excuse nothing.
  CHECK(judge_time(base, time(124, 160, 200), kFive) == Judgement::kWorse);
  CHECK(judge_time(time(100, 10, 20), time(124, 123, 125), kFive) == Judgement::kWorse);
  CHECK(judge_time(base, time(128, 50, 300), kFive) == Judgement::kNoise);  // 3 and 25
  CHECK(judge_time(base, time(129, 50, 300), kFive) == Judgement::kWorse);
}

TEST_CASE("tolerances are percentages, bytes, microseconds or 0") {
  CHECK(parsed(Quantity::kBytes, "0") == kNone);
  CHECK(parsed(Quantity::kBytes, "0%") == kNone);
  CHECK(parsed(Quantity::kDram, "1.5%") == Tolerance{.percent = 1.5});
  CHECK(parsed(Quantity::kDram, "4096") == Tolerance{.amount = 4096});
  CHECK(parsed(Quantity::kTime, "5 %") == Tolerance{.percent = 5});
  CHECK(parsed(Quantity::kTime, "2.5us") == Tolerance{.amount = 2'500'000});
  CHECK(parsed(Quantity::kTime, "0") == kNone);
  for (const char* bad : {"", "%", "-1%", "1e999%", "nan%", "x", "1.5", "1kB", "-1", "1 %%"}) {
    CHECK_MESSAGE(!parse_tolerance(Quantity::kBytes, bad), bad);
  }
  for (const char* bad : {"5", "us", "-1us", "5ms"}) {
    CHECK_MESSAGE(!parse_tolerance(Quantity::kTime, bad), bad);
  }
  for (const char* text : {"0", "1%", "0.25%", "4096"}) {
    CHECK(to_string(Quantity::kDram, parsed(Quantity::kDram, text)) == text);
  }
  CHECK(to_string(Quantity::kTime, parsed(Quantity::kTime, "2.5us")) == "2.5us");
}

TEST_CASE("the last rule that matches and has the quantity applies") {
  Tolerances tolerances;
  const std::vector<std::string> kernels = {"add+relu"};
  const Place kernel{.spec = "adam", .plan = "auto", .kernels = kernels};
  const Place plan{.spec = "adam", .plan = "auto", .kernels = {}};
  CHECK(tolerances.of(Quantity::kDram, plan) == kOnePercent);
  tolerances.add(rule_of("ad*:dram=2%"));
  tolerances.add(rule_of("*/add*:time=9%,dram=3%"));
  tolerances.add(rule_of("bert:dram=50%"));
  CHECK(tolerances.of(Quantity::kDram, plan).percent == 2);
  CHECK(tolerances.of(Quantity::kDram, kernel).percent == 3);
  CHECK(tolerances.of(Quantity::kTime, plan).percent == 5);
  CHECK(tolerances.of(Quantity::kTime, kernel).percent == 9);
  CHECK(tolerances.of(Quantity::kBytes, kernel) == kNone);
  REQUIRE(tolerances.unused().size() == 1);
  CHECK(scope_of(*tolerances.unused().front()) == "spec \"bert\"");
}

TEST_CASE("a rule names its scope before a colon") {
  const ToleranceRule rule = rule_of("a:b/c/d:bytes=1%");
  CHECK(rule.spec == "a:b");
  CHECK(rule.kernel == "c/d");
  CHECK(rule.plan == "*");
  CHECK(rule_of("bytes=1%").spec == "*");
  for (const char* bad : {"", "bytes", "bytes=1%,", "size=1%", "a:", ".bytes=1%", "auto.size=1%",
                          "auto.=1%", "auto.bytes=1%,auto.bytes=2%"}) {
    CHECK_THROWS_AS(parse_tolerance_rules(bad), std::invalid_argument);
  }
}

TEST_CASE("a rule names a plan before a point") {
  const ToleranceRule rule = rule_of("net.v2/add*:auto.bytes=1.5%,auto.time=9us");
  CHECK(rule.spec == "net.v2");
  CHECK(rule.plan == "auto");
  CHECK(rule.kernel == "add*");
  CHECK(rule.tolerances[0] == Tolerance{.percent = 1.5});
  CHECK(rule.tolerances[2] == Tolerance{.amount = 9'000'000});
  CHECK(rule_of("process 2.dram=1%").plan == "process 2");

  // In the order in which they were written.
  const std::vector<ToleranceRule> rules =
      parse_tolerance_rules("a:auto.time=1%,bytes=2%,auto.bytes=3%");
  REQUIRE(rules.size() == 3);
  CHECK(rules[1].plan == "*");
  CHECK(rules[2].spec == "a");
  CHECK(rules[2].plan == "auto");
  CHECK(scope_of(rules[2]) == "spec \"a\", plan \"auto\"");
}

TEST_CASE("tensors that account for the difference are named, the largest first") {
  KernelFigures before;
  before.bytes = 100;
  before.lists_tensors = true;
  before.reads = {{"x", 40}, {"w", 10}};
  before.writes = {{"y", 50}};
  KernelFigures after = before;
  after.bytes = 100'200;
  after.reads["x"] = 80;
  after.reads["h"] = 50'000;
  after.writes["h"] = 50'000;
  after.writes["m"] = 60;
  CHECK(tensors_in_words(before, after) ==
        "h is now written and read (100.0 kB), m is now written (60 B), x is read more (40 B)");
  CHECK(tensors_in_words(after, before) ==
        "h is no longer written and read (100.0 kB), m is no longer written (60 B), x is read less "
        "(40 B)");
  for (const char* name : {"a", "b", "c"}) after.reads[name] = 10;
  CHECK(tensors_in_words(before, after).ends_with(" and 3 more"));
  after.lists_tensors = false;
  CHECK(tensors_in_words(before, after) == "");
}
