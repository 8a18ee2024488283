// Where plans tie by bytes or compete by time.

#include <doctest/doctest.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/analyze.hpp"
#include "core/embedded.hpp"
#include "graph/graph_text.hpp"
#include "planner/plan_text.hpp"
#include "planner/plans.hpp"
#include "planner/two_plans.hpp"

using namespace fusecalc;
using namespace fusecalc::testing;

namespace {

Analysis analyzed(std::string_view name, const std::map<std::string, std::uint64_t>& dims = {}) {
  std::string text(embedded_op_list(name));
  for (const auto& [dim, value] : dims) {
    const std::string key = "\"" + dim + "\": ";
    const std::size_t at = text.find(key);
    REQUIRE(at != std::string::npos);
    const std::size_t end = text.find_first_of(",}", at);
    text.replace(at + key.size(), end - at - key.size(), std::to_string(value));
  }
  return analyze_graph(graph_of(text), std::string(name), device_named("h200"), std::nullopt);
}

double time_of(const Analysis& analysis, PlanKind kind) {
  return analysis.graph->plan(kind).predicted.time_us;
}

}  // namespace

TEST_CASE("auto breaks ties of bytes by time") {
  // The add costs as many bytes behind the product as before the normalisation, and less time
  // there.
  const Analysis analysis =
      analyzed("weighted_values_residual_layer_norm", {{"D", 1024}, {"L", 512}});
  const PlanAnalysis& compiler = analysis.graph->plan(PlanKind::kCompiler);
  const PlanAnalysis& best = analysis.graph->plan(PlanKind::kAuto);
  CHECK(best.bytes.total() == compiler.bytes.total());
  CHECK(best.predicted.time_us <= compiler.predicted.time_us);
}

TEST_CASE("fastest takes a compiler's kernels where they are faster") {
  const Analysis analysis =
      analyzed("weighted_values_residual_layer_norm", {{"D", 1024}, {"L", 512}});
  CHECK(time_of(analysis, PlanKind::kFastest) <= time_of(analysis, PlanKind::kCompiler));
}

TEST_CASE("no launchable plan of the library's op lists is predicted faster than fastest") {
  for (const EmbeddedFile& file : embedded_op_lists()) {
    CAPTURE(file.name);
    const Analysis analysis = analyzed(file.name);
    CHECK(time_of(analysis, PlanKind::kFastest) <= time_of(analysis, PlanKind::kUnfused));
    CHECK(time_of(analysis, PlanKind::kFastest) <= time_of(analysis, PlanKind::kAuto));
  }
}

TEST_CASE("of two plans, each part comes from the better one") {
  const OpGraph graph = graph_of(R"({"tensors": {"x": {"shape": [8]}, "z": {"shape": [8]}},
    "ops": [{"name": "a", "op": "exp", "inputs": ["x"], "output": "e"},
            {"name": "b", "op": "neg", "inputs": ["e"], "output": "n"},
            {"name": "c", "op": "exp", "inputs": ["z"], "output": "f"},
            {"name": "d", "op": "neg", "inputs": ["f"], "output": "m"}]})");
  const std::vector<Kernel> fused = {{0, 1}, {2, 3}};
  const std::vector<Kernel> single = {{0}, {1}, {2}, {3}};
  const auto kernels = better_parts(
      graph, fused, single, [](const std::vector<Kernel>& first, const std::vector<Kernel>&) {
        return first.front().front() == 2;
      });
  CHECK(shown(graph, kernels) == "[a b] [c] [d]");
}
