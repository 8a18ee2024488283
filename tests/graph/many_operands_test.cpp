// Ops with far more operands than real models have.

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "graph/graph_text.hpp"
#include "plan/legality.hpp"
#include "traffic/counter.hpp"

using namespace fusecalc;
using namespace fusecalc::testing;

namespace {

struct Inputs {
  std::string tensors;
  std::string names;
};

// t0 [1, 4], t1 [1, 4], ...
Inputs inputs(std::size_t count) {
  std::vector<std::string> tensors;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < count; ++i) {
    names.push_back(fmt::format("\"t{}\"", i));
    tensors.push_back(names.back() + R"(: {"shape": [1, 4]})");
  }
  return {fmt::format("{}", fmt::join(tensors, ",")), fmt::format("{}", fmt::join(names, ","))};
}

std::string concat_of(std::size_t count) {
  const Inputs given = inputs(count);
  return fmt::format(
      R"({{"tensors": {{{}}}, "ops": [{{"op": "concat", "inputs": [{}], "output": "y"}}]}})",
      given.tensors, given.names);
}

}  // namespace

TEST_CASE("concat takes any number of inputs") {
  for (const std::size_t count : {std::size_t{2}, std::size_t{255}, std::size_t{256},
                                  std::size_t{257}, std::size_t{20'000}}) {
    CAPTURE(count);
    const OpGraph graph = graph_of(concat_of(count));
    CHECK(tensor_named(graph, "y").type.shape == Shape{count, 4});
    TrafficCounter counter(graph, known_devices().front());
    const KernelTraffic traffic = counter.count({0});
    CHECK(traffic.bytes.read == 16 * count);
    CHECK(traffic.bytes.write == 16 * count);
    CHECK(traffic.reads.size() == count);
  }
  CHECK(fault_of(concat_of(1)) == "/ops/0/inputs: concat takes 2 or more inputs, not 1");
}

TEST_CASE("an empty part of a concat is no part of its kernel") {
  const OpGraph graph = graph_of(R"({
    "tensors": {"none": {"shape": [0, 4]}, "x": {"shape": [3, 4]}, "z": {"shape": [2, 4]}},
    "ops": [{"op": "concat", "inputs": ["none", "x", "none", "z"], "output": "y", "axis": 0},
            {"op": "concat", "inputs": ["x", "none"], "output": "same", "axis": 0},
            {"op": "concat", "inputs": ["none", "none"], "output": "nothing", "axis": 0}]})");
  CHECK(graph.ops[0].operands.size() == 2);
  CHECK(graph.ops[1].operands.size() == 1);
  PhaseFinder phases(graph);
  const auto obstacle = [&](OpId id) {
    return check_launch(phases, {id}, {.on_chip_bytes = 1U << 17U}).obstacle;
  };
  CHECK(obstacle(0) == Obstacle::kNothing);
  CHECK(obstacle(1) == Obstacle::kNothing);
  CHECK(obstacle(2) == Obstacle::kEmpty);
  TrafficCounter counter(graph, known_devices().front());
  CHECK(counter.count({0}).bytes.read == 4 * 20);
  CHECK(counter.count({0}).bytes.write == 4 * 20);
}

TEST_CASE("a launch passes 500 tensors; what has more is only counted") {
  const auto obstacle = [](std::size_t count) {
    const OpGraph graph = graph_of(concat_of(count));
    PhaseFinder phases(graph);
    return check_launch(phases, {0}, {.on_chip_bytes = 1U << 17U}).obstacle;
  };
  CHECK(obstacle(499) == Obstacle::kNothing);
  CHECK(obstacle(500) == Obstacle::kTooManyArguments);
}

TEST_CASE("a custom op states what it reads of each of its inputs, in any order") {
  constexpr std::size_t kCount = 3000;
  const Inputs given = inputs(kCount);
  std::vector<std::string> reads;
  for (std::size_t i = kCount; i-- > 0;) reads.push_back(fmt::format("\"t{}\": {}", i, i % 6));
  const auto list = [&](std::string_view names) {
    return fmt::format(R"({{"tensors": {{{}, "y": {{"shape": [1]}}}},
      "ops": [{{"op": "custom", "inputs": [{}], "output": "y", "reads": {{{}}}}}]}})",
                       given.tensors, names, fmt::join(reads, ","));
  };
  const OpGraph graph = graph_of(list(given.names));
  // 0 1 2 3 4 and 5 elements, the last of which is capped at 4, 500 times, of 4 bytes each.
  TrafficCounter counter(graph, known_devices().front());
  CHECK(counter.count({0}).bytes.read == std::uint64_t{14} * 500 * 4);
  // An input that is given twice is one tensor, of which so many elements are read.
  const OpGraph twice = graph_of(R"({"tensors": {"x": {"shape": [8]}, "y": {"shape": [1]}},
    "ops": [{"op": "custom", "inputs": ["x", "x"], "output": "y", "reads": {"x": 3}}]})");
  TrafficCounter counter_of_twice(twice, known_devices().front());
  CHECK(counter_of_twice.count({0}).bytes.read == 3 * 4);
  CHECK(fault_of(list(R"("t0")")).starts_with("/ops/0/reads/t2999: \"t2999\" is not an input"));
}
