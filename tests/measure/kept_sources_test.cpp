#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "backend/fake_backend.hpp"
#include "graph/graph_text.hpp"
#include "measure/graph_runner.hpp"
#include "planner/plans.hpp"
#include "support/files.hpp"

namespace fusecalc {
namespace {

using testing::graph_of;
using testing::read_file;

// Whole rows of a product come in two ways: 40 pieces of 128 rows, for clusters of 2 or 3 blocks.
const char* const kRows = R"({"format": "fusecalc.ops/1", "dtype": "bf16",
    "tensors": {"x": {"shape": [5120, 64]}, "w": {"shape": [384, 64]}},
    "ops": [{"op": "linear", "inputs": ["x", "w"], "output": "h"},
            {"op": "softmax", "inputs": ["h"], "output": "y"}]})";

// The source of the fused kernel that is kept, if clusters of 3 take so long and those of 2 1 ms.
std::string kept_source(FakeBackend& gpu, double of_three, const MeasureOptions& options) {
  gpu.timed = [of_three](const FakeBackend::Launches& launches) {
    const bool three = launches.size() == 1 && launches[0].grid.x == 120;
    return TimedRun{.seconds = three ? of_three : 1e-3, .sm_clock_hz = 2e9};
  };
  const OpGraph graph = graph_of(kRows);
  TrafficCounter counter(graph, known_devices().front());
  const NamedPlan unfused{
      .key = "unfused", .kernels = unfused_plan(graph).kernels, .names = {"h", "y"}};
  const NamedPlan fused{.key = "auto", .kernels = {{0, 1}}, .names = {"h+y"}};
  const testing::TempDir folder;
  measure_graph(gpu, counter, unfused, fused, options, folder.path().string(),
                [](const std::string&) {});
  CHECK(std::filesystem::exists(folder / "unfused.1.cu"));
  return read_file(folder / "auto.0.cu");
}

TEST_CASE("the source that is kept is that of the way that runs") {
  FakeBackend fast;
  const std::string threes = kept_source(fast, 0.5e-3, {.runs = 10});
  FakeBackend slow;
  const std::string twos = kept_source(slow, 2e-3, {.runs = 10});
  CHECK(threes != twos);
  for (const std::string& text : {threes, twos}) {
    CHECK(std::ranges::count(fast.sources, text, &KernelSource::text) == 1);
  }
}

TEST_CASE("where the first way is enough, no other is compiled") {
  FakeBackend all;
  kept_source(all, 1e-3, {.runs = 10});
  FakeBackend first;
  const std::string text = kept_source(first, 0.5e-3, {.runs = 10, .all_ways = false});
  CHECK(first.sources.size() == 2);  // softmax alone, and the fused kernel
  CHECK(all.sources.size() > 2);
  CHECK(std::ranges::count(first.sources, text, &KernelSource::text) == 1);
}

}  // namespace
}  // namespace fusecalc
