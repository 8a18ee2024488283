#include "sweep/workers.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "support/files.hpp"

namespace fusecalc {
namespace {

std::vector<std::size_t> first_points(std::size_t count) {
  std::vector<std::size_t> points(count);
  std::iota(points.begin(), points.end(), std::size_t{0});
  return points;
}

const auto kNoProgress = [](const SweepProgress&) {};

TEST_CASE("every point is run once, whatever the number of processes") {
  for (const unsigned jobs : {1U, 2U, 7U}) {
    const testing::TempDir folder;
    const auto start = [&](unsigned /*job*/) -> RunPoint {
      return [&](std::size_t point) {
        // "x" if it was run once, "xx" if twice.
        const auto path = folder / std::to_string(point);
        testing::write_file(path, std::filesystem::exists(path) ? "xx" : "x");
        return point % 10 == 0 ? PointEnd::kFailed : PointEnd::kRan;
      };
    };
    const std::vector<std::size_t> points = first_points(100);
    const SweepProgress end = run_points(
        points, {.jobs = jobs}, start, [](std::size_t, const std::string&) { FAIL("died"); },
        kNoProgress);
    CHECK(end.ran == 100);
    CHECK(end.failed == 10);
    CHECK(end.left() == 0);
    for (const std::size_t point : points) {
      CHECK(testing::read_file(folder / std::to_string(point)) == "x");
    }
  }
}

TEST_CASE("a process that dies loses its point only, and the point is named") {
  std::map<std::size_t, std::string> deaths;
  const auto start = [](unsigned /*job*/) -> RunPoint {
    return [](std::size_t point) {
      if (point == 3) std::raise(SIGKILL);
      if (point == 5) ::_exit(9);
      return PointEnd::kRan;
    };
  };
  const SweepProgress end = run_points(
      first_points(20), {.jobs = 2}, start,
      [&](std::size_t point, const std::string& how) { deaths[point] = how; }, kNoProgress);
  CHECK(end.ran == 20);
  CHECK(end.failed == 2);
  CHECK(deaths == std::map<std::size_t, std::string>{{3, "ended by signal 9 (Killed)"},
                                                     {5, "ended with exit code 9"}});
}

TEST_CASE("after a point that failed, the next one gets a new process where that is asked for") {
  const testing::TempDir folder;
  const auto start = [&](unsigned /*job*/) -> RunPoint {
    return [&](std::size_t point) {
      testing::write_file(folder / std::to_string(point), std::to_string(::getpid()));
      return point == 1 ? PointEnd::kFailed : PointEnd::kRan;
    };
  };
  const auto nobody = [](std::size_t, const std::string&) { FAIL("died"); };
  run_points(first_points(4), {.jobs = 1, .end_after_failure = true}, start, nobody, kNoProgress);
  const auto process_of = [&](const char* point) { return testing::read_file(folder / point); };
  CHECK(process_of("0") == process_of("1"));
  CHECK(process_of("1") != process_of("2"));
  CHECK(process_of("2") == process_of("3"));
}

TEST_CASE("an error before the first point, or in recording one, ends the sweep with its line") {
  const auto nobody = [](std::size_t, const std::string&) { FAIL("died"); };
  const auto refuse = [](unsigned /*job*/) -> RunPoint {
    throw Error(Fault::kUnavailable, "no such GPU");
  };
  CHECK_THROWS_WITH_AS(run_points(first_points(9), {.jobs = 2}, refuse, nobody, kNoProgress),
                       "no such GPU", Error);
  const auto die = [](unsigned /*job*/) -> RunPoint { ::_exit(1); };
  CHECK_THROWS_WITH_AS(run_points(first_points(9), {.jobs = 2}, die, nobody, kNoProgress),
                       "sweep: a process ended with exit code 1 before its first point", Error);
  const auto full = [](unsigned /*job*/) -> RunPoint {
    return [](std::size_t) -> PointEnd { throw Error(Fault::kBadInput, "the disk is full"); };
  };
  CHECK_THROWS_WITH_AS(run_points(first_points(9), {.jobs = 2}, full, nobody, kNoProgress),
                       "the disk is full", Error);
}

TEST_CASE("as many GPUs are visible as CUDA_VISIBLE_DEVICES names") {
  const char* const before = std::getenv("CUDA_VISIBLE_DEVICES");
  const std::string kept = before == nullptr ? "" : before;
  ::setenv("CUDA_VISIBLE_DEVICES", "0,3,GPU-1234", 1);
  CHECK(visible_gpus() == 3);
  ::setenv("CUDA_VISIBLE_DEVICES", "5", 1);
  CHECK(visible_gpus() == 1);
  ::setenv("CUDA_VISIBLE_DEVICES", "", 1);
  CHECK(visible_gpus() == 1);
  if (before == nullptr) {
    ::unsetenv("CUDA_VISIBLE_DEVICES");
  } else {
    ::setenv("CUDA_VISIBLE_DEVICES", kept.c_str(), 1);
  }
}

}  // namespace
}  // namespace fusecalc
