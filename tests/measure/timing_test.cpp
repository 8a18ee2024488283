#include "measure/timing.hpp"

#include <doctest/doctest.h>

#include <array>
#include <string>
#include <vector>

#include "backend/fake_backend.hpp"

namespace fusecalc {
namespace {

// Two works that say when they run. The n-th run of the first takes n ms; the second always 5 ms.
struct Turns {
  FakeBackend gpu;
  std::string order;
  double first_ms = 0;
  std::array<Work, 2> works{[this] { order += 'a'; }, [this] { order += 'b'; }};

  Turns() {
    gpu.timed = [this](const FakeBackend::Launches&) {
      const bool first = order.back() == 'a';
      if (first) first_ms += 1;
      return TimedRun{.seconds = (first ? first_ms : 5) * 1e-3, .sm_clock_hz = 2e9};
    };
  }
};

TEST_CASE("runs of works alternate, so that a device that slows down slows all of them") {
  Turns turns;
  const auto times = time_alternating(turns.gpu, turns.works, {.min_samples = 2, .max_samples = 2});
  CHECK(turns.order == "ababababab");  // three turns to warm up, two that count
  REQUIRE(times.size() == 2);
  CHECK(times[0]->samples == 2);
  CHECK(times[0]->median == doctest::Approx(4.5e-3));  // its fourth and fifth run
  CHECK(times[1]->median == doctest::Approx(5e-3));
}

TEST_CASE("a work whose median has settled is not run again") {
  Turns turns;
  // The second work never varies and is done at the fewest samples; the first drifts to the most.
  const auto times = time_alternating(
      turns.gpu, turns.works, {.min_samples = 6, .max_samples = 9, .settled = 1e-3, .budget_s = 9});
  CHECK(times[0]->samples == 9);
  CHECK(times[1]->samples == 6);
  CHECK(turns.order.ends_with("abaaa"));
}

TEST_CASE("with nothing to time there are no turns") {
  FakeBackend gpu;
  std::vector<std::size_t> heard;
  CHECK(time_alternating(gpu, {}, {}, [&](std::size_t turn) { heard.push_back(turn); }).empty());
  CHECK(gpu.log.empty());
}

}  // namespace
}  // namespace fusecalc
