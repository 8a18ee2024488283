#include "sweep/results.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <vector>

#include "support/files.hpp"

namespace fusecalc {
namespace {

// T = 1, 2, 4, 8, and results that are written by hand.
class WrittenSweep {
 public:
  WrittenSweep() : folder_(temporary_.path(), sweep_) { folder_.create(); }

  void result(std::size_t point, const std::string& plans) const {
    testing::write_file(
        folder_.result_file(point),
        fmt::format(R"({{"schema": "fusecalc.analysis/1", "name": "a", "plan": "auto",
                                        "device": {{"name": "h200"}}, "dims": {{"T": 1}},
                                        "inputs": {{"x": 1}}, "plans": {{{}}}}})",
                    plans));
  }
  static std::string bytes(std::string_view plan, int total) {
    return fmt::format(R"("{}": {{"total": {}, "kernels": [1]}})", plan, total);
  }
  static std::string predicted(std::string_view plan, int total, double time) {
    return fmt::format(R"("{}": {{"total": {}, "predicted": {{"time_us": {}}}}})", plan, total,
                       time);
  }

  std::vector<PointResult> read() {
    std::vector<PointResult> points;
    summary = read_sweep(folder_, [&](const PointResult& point) { points.push_back(point); });
    return points;
  }

  SweepSummary summary;
  const SweepFolder& folder() const { return folder_; }

 private:
  testing::TempDir temporary_;
  SweepDefinition sweep_{.documents = {{.path = "a.json", .name = "a", .hash = 1}},
                         .devices = {"h200"},
                         .axes = {{.name = "T", .values = {1, 2, 4, 8}}},
                         .settings = ""};
  SweepFolder folder_;
};

TEST_CASE("the best plan has the fewest bytes, among equals the first, and is never the limit") {
  WrittenSweep sweep;
  using W = WrittenSweep;
  sweep.result(0, W::bytes("unfused", 9) + "," + W::bytes("auto", 9) + "," + W::bytes("limit", 1));
  sweep.result(1, W::bytes("unfused", 9) + "," + W::bytes("auto", 8));
  sweep.result(3, W::bytes("unfused", 7) + "," + W::bytes("auto", 8));
  const std::vector<PointResult> points = sweep.read();
  CHECK(points[0].best == "unfused");
  CHECK(points[1].best == "auto");
  CHECK(points[2].best == "");
  CHECK(points[2].state == PointState::kMissing);
  CHECK(points[1].ranking == Ranking::kBytes);
  CHECK(sweep.summary.done == 3);
  CHECK(sweep.summary.missing == 1);
  // The missing point is passed over.
  REQUIRE(sweep.summary.crossovers.size() == 2);
  CHECK(sweep.summary.crossovers[0].point == 1);
  CHECK(sweep.summary.crossovers[0].from == "unfused");
  CHECK(sweep.summary.crossovers[0].to == "auto");
  CHECK(sweep.summary.crossovers[1].point == 3);
  CHECK(sweep.summary.crossovers[1].to == "unfused");
}

TEST_CASE("times decide where two plans have them: measured before predicted, back to back first") {
  WrittenSweep sweep;
  using W = WrittenSweep;
  sweep.result(0, W::predicted("unfused", 9, 1.5) + "," + W::predicted("auto", 8, 2));
  sweep.result(1, W::predicted("unfused", 9, 1.5) + "," + W::bytes("auto", 8));
  const auto measured = [](std::string_view plan, int alone, const std::string& pipeline) {
    return fmt::format(R"("{}": {{"total": 5, "predicted": {{"time_us": {}}},
        "measured": {{"time_us": {{"median": {}}}}},
        "measured_pipeline": {{"time_us": {}}}}})",
                       plan, 100 - alone, alone, pipeline);
  };
  sweep.result(2, measured("unfused", 3, R"({"median": 2.5})") + "," +
                      measured("auto", 2, R"({"median": 2.75})"));
  sweep.result(3, measured("unfused", 3, "null") + "," + measured("auto", 2, "null"));
  const std::vector<PointResult> points = sweep.read();
  CHECK(points[0].best == "unfused");
  CHECK(points[0].ranking == Ranking::kPredictedTime);
  CHECK(points[1].best == "auto");  // one time alone cannot be compared
  CHECK(points[1].ranking == Ranking::kBytes);
  CHECK(points[2].best == "unfused");
  CHECK(points[2].ranking == Ranking::kMeasuredTime);
  CHECK(points[3].best == "auto");
  CHECK(points[3].ranking == Ranking::kMeasuredTime);
}

TEST_CASE("where plans are equally good all are named, and the one before stays the best") {
  WrittenSweep sweep;
  const auto point = [&](std::size_t place, int compiler, int automatic) {
    sweep.result(place, WrittenSweep::bytes("unfused", 9) + "," +
                            WrittenSweep::bytes("compiler", compiler) + "," +
                            WrittenSweep::bytes("auto", automatic));
  };
  point(0, 5, 4);
  point(1, 4, 4);
  point(2, 5, 4);
  point(3, 3, 4);
  const std::vector<PointResult> points = sweep.read();
  CHECK(points[1].best == "compiler");
  CHECK(points[1].as_good == std::vector<std::string>{"compiler", "auto"});
  REQUIRE(sweep.summary.crossovers.size() == 1);
  CHECK(sweep.summary.crossovers[0].point == 3);
  CHECK(sweep.summary.crossovers[0].from == "auto");
}

TEST_CASE("a point carries every figure of its result, but neither schema, inputs nor kernels") {
  WrittenSweep sweep;
  sweep.result(0, R"("auto": {"total": 1, "new": {"figure": [1, {"kernels": 2, "x": 3}]}})");
  const PointResult point = sweep.read().front();
  CHECK(point.figures.find("schema") == nullptr);
  CHECK(point.figures.find("inputs") == nullptr);
  const JsonValue* plan = point.figures.find("plans")->find("auto");
  CHECK(plan->object()->size() == 2);
  CHECK(plan->find("new")->find("figure") != nullptr);
}

TEST_CASE("a result counts more than an earlier failure") {
  WrittenSweep sweep;
  sweep.folder().record_failure(0, "a\nb");
  CHECK(sweep.read()[0].state == PointState::kFailed);
  CHECK(sweep.read()[0].error == "a\\u000ab");
  CHECK(sweep.folder().points_without_result() == std::vector<std::size_t>{0, 1, 2, 3});
  sweep.result(0, WrittenSweep::bytes("auto", 1));
  CHECK(sweep.read()[0].state == PointState::kDone);
  CHECK(sweep.folder().points_without_result() == std::vector<std::size_t>{1, 2, 3});
}

TEST_CASE("crossovers are found along every dim, with the others fixed") {
  const testing::TempDir temporary;
  const SweepDefinition sweep{
      .documents = {{.path = "a.json", .name = "a", .hash = 1}},
      .devices = {"h200", "a10"},
      .axes = {{.name = "T", .values = {1, 2, 3}}, {.name = "D", .values = {8, 9}}},
      .settings = ""};
  const SweepFolder folder(temporary.path(), sweep);
  folder.create();
  // auto is best where T + D > 10, on the a10 alone.
  for (std::size_t i = 0; i < sweep.size(); ++i) {
    const SweepPoint point = sweep.point(i);
    const bool pays = point.device == 1 && point.dims[0].extent + point.dims[1].extent > 10;
    testing::write_file(folder.result_file(i),
                        fmt::format(R"({{"name": "a", "plans": {{"unfused": {{"total": 5}},
                                        "auto": {{"total": {}}}}}}})",
                                    pays ? 4 : 6));
  }
  std::vector<std::string> found;
  for (const Crossover& crossover : read_sweep(folder, [](const PointResult&) {}).crossovers) {
    const SweepPoint at = sweep.point(crossover.point);
    found.push_back(fmt::format("{} T={} D={} {} -> {}", sweep.axes[crossover.axis].name,
                                at.dims[0].extent, at.dims[1].extent, crossover.from,
                                crossover.to));
    CHECK(at.device == 1);
  }
  CHECK(found == std::vector<std::string>{"T T=3 D=8 unfused -> auto", "T T=2 D=9 unfused -> auto",
                                          "D T=2 D=9 unfused -> auto"});
}

}  // namespace
}  // namespace fusecalc
