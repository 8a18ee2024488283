// The limits of one kernel's code.

#include "plan/code_size.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <numeric>
#include <string>
#include <vector>

#include "codegen/generate.hpp"
#include "core/error.hpp"
#include "graph/graph_text.hpp"
#include "planner/plans.hpp"
#include "support/plans.hpp"

using namespace fusecalc;
using namespace fusecalc::testing;

namespace {

Kernel all_ops(const OpGraph& graph) {
  Kernel kernel(graph.ops.size());
  std::iota(kernel.begin(), kernel.end(), OpId{0});
  return kernel;
}

Obstacle obstacle_of(const OpGraph& graph) {
  PhaseFinder phases(graph);
  return check_kernel(phases, all_ops(graph), runner_rules(known_devices().front())).obstacle;
}

std::string list(const std::string& tensors, const std::vector<std::string>& ops,
                 const std::string& more = "") {
  return fmt::format(R"({{"tensors": {{{}}}, "ops": [{}]{}}})", tensors, fmt::join(ops, ",\n"),
                     more);
}

std::string op(std::string_view kind, std::string_view inputs, std::string_view output,
               std::string_view more = "") {
  return fmt::format(R"({{"op": "{}", "inputs": [{}], "output": "{}"{}}})", kind, inputs, output,
                     more);
}

std::string chain(std::size_t count) {
  std::vector<std::string> ops;
  for (std::size_t i = 0; i < count; ++i) {
    ops.push_back(op("relu", fmt::format("\"t{}\"", i), fmt::format("t{}", i + 1)));
  }
  return list(R"("t0": {"shape": [1000]})", ops);
}

// Each level adds two transposes of the one before: 2^levels elements of x for one of the result.
std::string transposes(std::size_t levels) {
  std::vector<std::string> ops;
  for (std::size_t i = 0; i < levels; ++i) {
    const std::string from = fmt::format("\"x{}\"", i);
    ops.push_back(op("transpose", from, fmt::format("a{}", i), R"(, "perm": [1, 2, 0])"));
    ops.push_back(op("transpose", from, fmt::format("b{}", i), R"(, "perm": [0, 2, 1])"));
    ops.push_back(op("add", fmt::format(R"("a{0}", "b{0}")", i), fmt::format("x{}", i + 1)));
  }
  return list(R"("x0": {"shape": [8, 8, 8]})", ops);
}

// The states of a recurrence, one after the other; of each, all before it are computed again.
std::string scan(std::size_t steps) {
  std::vector<std::string> ops = {op("mul", R"("a", "b")", "h0")};
  std::string states = R"("h0")";
  for (std::size_t i = 1; i < steps; ++i) {
    ops.push_back(op("fma", fmt::format(R"("a", "h{}", "b")", i - 1), fmt::format("h{}", i)));
    states += fmt::format(R"(, "h{}")", i);
  }
  ops.push_back(op("concat", states, "y"));
  return list(R"("a": {"shape": [1, 64]}, "b": {"shape": [1, 64]})", ops);
}

// A sum of `count` powers of x, all of which are there before the first is added.
std::string wide(std::size_t count, std::string_view dtype) {
  std::vector<std::string> ops;
  for (std::size_t i = 0; i < count; ++i) {
    ops.push_back(op("pow", fmt::format(R"("x", {})", i + 2), fmt::format("p{}", i)));
  }
  for (std::size_t i = 0; i < count; ++i) {
    const std::string sum = i == 0 ? "\"x\"" : fmt::format("\"s{}\"", i - 1);
    ops.push_back(op("add", fmt::format("{}, \"p{}\"", sum, i), fmt::format("s{}", i)));
  }
  return list(fmt::format(R"("x": {{"shape": [64], "dtype": "{}"}})", dtype), ops);
}

std::string reductions(std::size_t count) {
  std::vector<std::string> ops;
  for (std::size_t i = 0; i < count; ++i) {
    ops.push_back(op("sum", fmt::format("\"t{}\"", i), fmt::format("s{}", i),
                     R"(, "axis": -1, "keepdim": true)"));
    ops.push_back(op("sub", fmt::format(R"("x", "s{}")", i), fmt::format("t{}", i + 1)));
  }
  return list(R"("x": {"shape": [64, 32]}, "t0": {"shape": [64, 32]})", ops);
}

}  // namespace

TEST_CASE("a kernel evaluates 1,024 ops for an element") {
  CHECK(obstacle_of(graph_of(chain(kMostOps))) == Obstacle::kNothing);
  CHECK(obstacle_of(graph_of(chain(kMostOps + 1))) == Obstacle::kTooManyOps);
}

TEST_CASE("what is read at several indices counts as often") {
  // 3 ops of level 1 for one element, 6 of level 2, ... : 3 * (2^levels - 1) of 1024.
  CHECK(obstacle_of(graph_of(transposes(8))) == Obstacle::kNothing);
  CHECK(obstacle_of(graph_of(transposes(9))) == Obstacle::kTooManyOps);
  CHECK(obstacle_of(graph_of(transposes(60))) == Obstacle::kTooManyOps);
  // 1 + 2 + ... + steps, and the concat itself.
  CHECK(obstacle_of(graph_of(scan(44))) == Obstacle::kNothing);
  CHECK(obstacle_of(graph_of(scan(45))) == Obstacle::kTooManyOps);
}

TEST_CASE("a broadcast is one index, whoever reads it") {
  // A chain of 20 on [64], whose end 60 ops on [32, 64] read.
  std::vector<std::string> ops;
  for (std::size_t i = 0; i < 20; ++i) {
    ops.push_back(op("relu", fmt::format("\"b{}\"", i), fmt::format("b{}", i + 1)));
  }
  for (std::size_t i = 0; i < 60; ++i) {
    ops.push_back(op("add", fmt::format(R"("x{}", "b20")", i), fmt::format("x{}", i + 1)));
  }
  CHECK(obstacle_of(graph_of(list(R"("b0": {"shape": [64]}, "x0": {"shape": [32, 64]})", ops))) ==
        Obstacle::kNothing);
}

TEST_CASE("the values of a kernel fit in registers") {
  CHECK(obstacle_of(graph_of(wide(kMostWords, "f32"))) == Obstacle::kNothing);
  CHECK(obstacle_of(graph_of(wide(kMostWords + 1, "f32"))) == Obstacle::kTooManyValues);
  CHECK(obstacle_of(graph_of(wide(kMostWords / 2, "f64"))) == Obstacle::kNothing);
  CHECK(obstacle_of(graph_of(wide(kMostWords / 2 + 1, "f64"))) == Obstacle::kTooManyValues);
}

TEST_CASE("reductions that wait for each other are bounded by the code of their phases") {
  CHECK(obstacle_of(graph_of(reductions(20))) == Obstacle::kNothing);
  CHECK(obstacle_of(graph_of(reductions(100))) != Obstacle::kNothing);
}

TEST_CASE("a kernel that would have no end of code is refused, not generated") {
  const OpGraph graph = graph_of(transposes(40));
  TrafficCounter counter(graph, known_devices().front());
  CHECK_THROWS_WITH_AS((void)generate(counter, all_ops(graph), known_devices().front()),
                       doctest::Contains("would evaluate more than 1,024 ops"), Error);
}

TEST_CASE("the largest kernel is generated") {
  const OpGraph graph = graph_of(chain(kMostOps));
  TrafficCounter counter(graph, known_devices().front());
  const GeneratedKernel kernel = generate(counter, all_ops(graph), known_devices().front());
  CHECK(kernel.source.text.size() > kMostOps * 20);
}

TEST_CASE("an unrolled recurrence is few kernels") {
  // 1000 steps, whose states a concat reads: kernels with 96 tensors rather than 64 ops.
  const OpGraph graph = graph_of(scan(1000));
  TrafficCounter counter(graph, known_devices().front());
  CHECK(make_plan(counter, PlanKind::kAuto).kernels.size() <= 32);
}
