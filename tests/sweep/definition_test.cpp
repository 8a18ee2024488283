#include "sweep/definition.hpp"

#include <doctest/doctest.h>

#include <set>
#include <string>

#include "core/error.hpp"

namespace fusecalc {
namespace {

SweepDefinition two_by_two_by_three() {
  return {.documents = {{.path = "a.json", .name = "a", .hash = 1}, {"b.json", "b", 2}},
          .devices = {"h200", "a10"},
          .axes = {{.name = "T", .values = {16, 32, 64}}},
          .settings = "plan=default"};
}

TEST_CASE("points are numbered with the last dim fastest, then devices, then documents") {
  const SweepDefinition sweep = two_by_two_by_three();
  REQUIRE(sweep.size() == 12);
  CHECK(sweep.label(0) == "a T=16 h200");
  CHECK(sweep.label(2) == "a T=64 h200");
  CHECK(sweep.label(3) == "a T=16 a10");
  CHECK(sweep.label(6) == "b T=16 h200");
  CHECK(sweep.label(11) == "b T=64 a10");
}

TEST_CASE(
    "every point has a file of its own, which everything that the result depends on decides") {
  const SweepDefinition sweep = two_by_two_by_three();
  std::set<std::string> stems;
  for (std::size_t i = 0; i < sweep.size(); ++i) stems.insert(sweep.stem(i));
  CHECK(stems.size() == 12);
  CHECK(sweep.stem(0).starts_with("a-T=16-h200-"));
  const auto changed = [&](auto change) {
    SweepDefinition other = two_by_two_by_three();
    change(other);
    return other.stem(0) != sweep.stem(0);
  };
  CHECK(changed([](SweepDefinition& other) { other.documents[0].hash = 3; }));
  CHECK(changed([](SweepDefinition& other) { other.documents[0].name = "c"; }));
  CHECK(changed([](SweepDefinition& other) { other.devices[0] = "h100"; }));
  CHECK(changed([](SweepDefinition& other) { other.settings = "plan=auto"; }));
  CHECK(changed([](SweepDefinition& other) { other.axes[0].name = "D"; }));
  // What it does not depend on: the path, and the values of other points.
  CHECK(!changed([](SweepDefinition& other) { other.documents[0].path = "other/a.json"; }));
  CHECK(!changed([](SweepDefinition& other) { other.axes[0].values = {16}; }));
}

TEST_CASE("the order in which dims are given does not change a point's file") {
  SweepDefinition sweep = two_by_two_by_three();
  sweep.axes = {{.name = "T", .values = {1}}, {.name = "D", .values = {2}}};
  SweepDefinition swapped = two_by_two_by_three();
  swapped.axes = {{.name = "D", .values = {2}}, {.name = "T", .values = {1}}};
  CHECK(sweep.stem(0) == swapped.stem(0));
}

TEST_CASE("names of op lists become names of files on any system") {
  SweepDefinition sweep = two_by_two_by_three();
  sweep.documents[0].name = "../a b/\xc3\xa9*" + std::string(400, 'x');
  const std::string stem = sweep.stem(0);
  CHECK(stem.size() <= 140);
  CHECK(
      stem.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=") ==
      std::string::npos);
}

TEST_CASE("a sweep of more than a million points is refused") {
  SweepDefinition sweep = two_by_two_by_three();
  std::vector<std::uint64_t> thousand(1000);
  sweep.axes = {{.name = "A", .values = thousand}, {.name = "B", .values = thousand}};
  CHECK_THROWS_WITH_AS(sweep.check_size(), doctest::Contains("more than 1000000 points"), Error);
  sweep.documents.pop_back();
  sweep.devices.pop_back();
  CHECK_NOTHROW(sweep.check_size());
}

}  // namespace
}  // namespace fusecalc
