// The page of a sweep as text. What a browser makes of it: page_test.py, for which the pages are
// written into the folder FUSECALC_PAGES, where it is set.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "report/formats.hpp"
#include "support/files.hpp"
#include "support/words.hpp"
#include "support/written.hpp"

namespace fusecalc {
namespace {

using testing::contains;

// A sweep whose results are written by hand: unfused takes 4 us and 8 bytes for each of its
// elements, auto 9 us and then 1 us and 2 bytes each, so that auto is faster from the fourth on.
class WrittenSweep {
 public:
  explicit WrittenSweep(SweepDefinition sweep)
      : sweep_(std::move(sweep)), folder_(temporary_.path(), sweep_) {
    folder_.create();
  }

  void result(std::size_t point, std::uint64_t elements) const {
    testing::write_file(folder_.result_file(point),
                        fmt::format(R"({{"name": "a", "plans": {{
          "unfused": {{"total": {}, "predicted": {{"time_us": {}}}}},
          "auto": {{"total": {}, "predicted": {{"time_us": {}}}}}}}}})",
                                    8 * elements, 4 * elements, 2 * elements, 9 + elements));
  }
  void fail(std::size_t point, const std::string& line) const {
    folder_.record_failure(point, line);
  }

  std::string page(const char* file) const {
    const std::string text = testing::written(
        [&](Output& output) { format_named("html").write_sweep(folder_, Style{}, output); });
    if (const char* folder = std::getenv("FUSECALC_PAGES")) {
      testing::write_file(std::filesystem::path(folder) / file, text);
    }
    return text;
  }

 private:
  testing::TempDir temporary_;
  SweepDefinition sweep_;
  SweepFolder folder_;
};

std::vector<std::uint64_t> counted(std::uint64_t most) {
  std::vector<std::uint64_t> values;
  for (std::uint64_t i = 1; i <= most; ++i) values.push_back(i);
  return values;
}

SweepDefinition sweep_of(std::vector<SweepAxis> axes, std::vector<std::string> devices = {"h200"}) {
  return {.documents = {{.path = "a.json", .name = "a", .hash = 1}},
          .devices = std::move(devices),
          .axes = std::move(axes),
          .settings = ""};
}

}  // namespace

TEST_CASE("html: a sweep has curves, crossovers in words and its points as a table") {
  const WrittenSweep sweep(sweep_of({{.name = "T", .values = {1, 2, 4, 8}}}));
  sweep.result(0, 1);
  sweep.result(1, 2);
  sweep.result(2, 4);
  sweep.fail(3, "a.json: </script><b>out of memory");
  const std::string page = sweep.page("sweep.html");
  CHECK(contains(page, "<li>from T = 4 on, auto has the least predicted time (before: unfused)"));
  CHECK(contains(page, "<td class=\"number\">12.00 us<small>8 B</small></td>") == false);
  CHECK(
      contains(page, "<td class=\"number\"><b class=\"best\">13.00 us</b><small>8 B</small></td>"));
  CHECK(contains(page, "a.json: &lt;/script&gt;&lt;b&gt;out of memory"));
  CHECK(contains(page,
                 R"({"name":"predicted time","unit":"us","curves":["4 8 16 -","10 11 13 -"]})"));
  CHECK(contains(page, R"("best":"0 0 1 -")"));
  CHECK(contains(page, "The sweep is large") == false);
}

TEST_CASE("html: plans that only later points have leave gaps in their curves") {
  const WrittenSweep sweep(sweep_of({{.name = "T", .values = {1, 2}}}, {"h200", "<a100>"}));
  sweep.result(1, 2);
  sweep.result(2, 4);
  sweep.result(3, 5);
  const std::string page = sweep.page("gaps.html");
  CHECK(contains(page, R"("curves":["- 8 16 20","- 11 13 14"])"));
  CHECK(contains(page, R"("devices":["h200","\u003ca100>"])"));
  CHECK(contains(page, "&lt;a100&gt;"));
}

TEST_CASE("html: 12,000 points stay below 2 MB, and the page says what is not drawn") {
  const WrittenSweep sweep(
      sweep_of({{.name = "T", .values = counted(1200)}, {.name = "D", .values = counted(10)}}));
  for (std::size_t i = 0; i < 12'000; ++i) sweep.result(i, 1'000'000 + i);
  const std::string page = sweep.page("points.html");
  CHECK(page.size() < 2'000'000);
  // Every second value of T and the last.
  CHECK(contains(page, "the curves show 601 of 1,200 values of T"));
  CHECK(contains(page, R"("values":[1,3,5,)"));
  CHECK(contains(page, R"(,1199,1200])"));
  CHECK(contains(page, "and 11,500 more points: csv and json list all"));
}

TEST_CASE("html: a sweep along no dim is a table alone") {
  const WrittenSweep sweep(sweep_of({}, {"h200", "a100"}));
  sweep.result(0, 1);
  sweep.result(1, 2);
  const std::string page = sweep.page("table.html");
  CHECK(contains(page, "<div class=\"curves\">") == false);
  CHECK(contains(page, "<script") == false);
  CHECK(contains(page, "<th scope=\"row\">a100</th>"));
}

}  // namespace fusecalc
