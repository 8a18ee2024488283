#include "measure/variant.hpp"

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <vector>

#include "backend/fake_backend.hpp"

namespace fusecalc {
namespace {

Variant variant(std::uint64_t kernel, const std::string& name) {
  Launch launch{};
  launch.kernel.id = kernel;
  return {.steps = {launch}, .schedule = "schedule of " + name, .name = name};
}

// A device on which a kernel of an id takes so many microseconds.
FakeBackend& timed(FakeBackend& gpu, const std::map<std::uint64_t, double>& microseconds) {
  gpu.timed = [microseconds](const FakeBackend::Launches& launches) {
    return TimedRun{.seconds = microseconds.at(launches.at(0).kernel.id) * 1e-6};
  };
  return gpu;
}

TEST_CASE("the fastest variant runs, and says by how much") {
  FakeBackend gpu;
  timed(gpu, {{1, 103}, {2, 100}, {3, 150}});
  PreparedKernel kernel{.name = "k", .analytic = {}};
  kernel.variants = {variant(1, "ours"), variant(2, "theirs"), variant(3, "another")};
  choose_variant(gpu, kernel);
  CHECK(std::get<Launch>(kernel.steps.at(0)).kernel.id == 2);
  CHECK(kernel.schedule == "schedule of theirs");
  CHECK(kernel.choice == "3 % faster than ours");
  CHECK(kernel.variants.empty());
}

TEST_CASE("of variants that are about as fast the first runs") {
  FakeBackend gpu;
  timed(gpu, {{1, 101}, {2, 100}});
  PreparedKernel kernel{.name = "k", .analytic = {}};
  kernel.variants = {variant(1, "ours"), variant(2, "theirs")};
  choose_variant(gpu, kernel);
  CHECK(std::get<Launch>(kernel.steps.at(0)).kernel.id == 1);
  CHECK(kernel.choice == "as fast as theirs");
}

TEST_CASE("variants alternate, so that one slow run decides nothing") {
  FakeBackend gpu;
  std::vector<std::uint64_t> order;
  gpu.timed = [&](const FakeBackend::Launches& launches) {
    order.push_back(launches.at(0).kernel.id);
    // The first variant is the faster one; from the seventh run on the device is held up three
    // times.
    const double slow = order.size() > 6 && order.size() < 10 ? 1000 : 0;
    return TimedRun{.seconds = slow + (order.back() == 1 ? 1.0 : 2.0)};
  };
  const std::vector<Variant> variants = {variant(1, "ours"), variant(2, "theirs")};
  const Choice choice = fastest_of(gpu, variants);
  CHECK(choice.fastest == 0);
  CHECK(choice.reason == "2.0 times as fast as theirs");
  for (std::size_t i = 0; i < order.size(); ++i) CHECK(order[i] == i % 2 + 1);
}

TEST_CASE("variants near the fastest run more often, and alone") {
  FakeBackend gpu;
  std::map<std::uint64_t, std::size_t> runs;
  gpu.timed = [&](const FakeBackend::Launches& launches) {
    const std::uint64_t kernel = launches.at(0).kernel.id;
    // In its first ten runs the second one takes as long as the first will.
    const double late = ++runs[kernel] <= 10 && kernel == 2 ? 3 : 0;
    return TimedRun{.seconds = (kernel == 1 ? 103.0 : kernel == 2 ? 100.0 : 150.0) + late};
  };
  const std::vector<Variant> variants = {variant(1, "ours"), variant(2, "theirs"),
                                         variant(3, "another")};
  const Choice choice = fastest_of(gpu, variants);
  CHECK(choice.fastest == 1);
  CHECK(choice.reason == "3 % faster than ours");
  CHECK(runs[1] == runs[2]);
  CHECK(runs[2] >= 2 * runs[3]);
}

TEST_CASE("a kernel of one variant is left as it is") {
  FakeBackend gpu;
  PreparedKernel kernel{.name = "k", .analytic = {}, .schedule = "stream"};
  choose_variant(gpu, kernel);
  CHECK(kernel.schedule == "stream");
  CHECK(gpu.log.empty());
}

}  // namespace
}  // namespace fusecalc
