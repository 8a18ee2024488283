// Kernels of random op lists compile, without a GPU, from any plan.

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <set>
#include <string>
#include <string_view>

#include "codegen/random_groups.hpp"
#include "codegen/random_ops.hpp"
#include "graph/graph_text.hpp"
#include "graph/inference.hpp"
#include "kernel_checks.hpp"
#include "planner/plans.hpp"

namespace fusecalc::cuda {
namespace {

using testing::random_ops;
using testing::RandomOps;

constexpr std::size_t kSplits = 4;  // run side by side

std::size_t lists_of_a_share() {
  const char* const longer = std::getenv("FUSECALC_RANDOM_LISTS");
  return longer != nullptr ? std::strtoul(longer, nullptr, 10) / kSplits : 12;
}

void check_share(std::size_t share) {
  KernelChecks checks(kArchitectures[0]);
  for (const Architecture& architecture : kArchitectures) {
    checks.turn_to(architecture);
    for (std::size_t i = 0; i < lists_of_a_share(); ++i) {
      const std::uint64_t seed = i * kSplits + share;
      CAPTURE(seed);
      const RandomOps list = random_ops(seed, 2 + seed % 9);
      CAPTURE(list.text);
      TrafficCounter counter = checks.counter_of(list.graph);
      testing::Dice dice(seed);
      for (const std::vector<Kernel>& plan : testing::random_plans(counter, seed)) {
        for (const Kernel& kernel : plan) {
          // Lone ops have a test of their own.
          if (kernel.size() > 1 || dice.chance(20)) checks.check(counter, kernel);
        }
      }
    }
    MESSAGE("with ", std::string(architecture.name), ": ", checks.compiled(), " kernels, ",
            checks.left_out(), " left out");
  }
  CHECK(checks.compiled() > kArchitectures.size() * lists_of_a_share());
}

TEST_CASE("random groups compile, first share") { check_share(0); }
TEST_CASE("random groups compile, second share") { check_share(1); }
TEST_CASE("random groups compile, third share") { check_share(2); }
TEST_CASE("random groups compile, fourth share") { check_share(3); }

TEST_CASE("kernels that compute ops of other kernels again compile") {
  KernelChecks checks(kArchitectures[1]);
  std::size_t plans = 0;
  for (std::uint64_t seed = 0; plans < lists_of_a_share(); ++seed) {
    CAPTURE(seed);
    const RandomOps list = random_ops(seed, 6 + seed % 9);
    CAPTURE(list.text);
    TrafficCounter counter = checks.counter_of(list.graph);
    PlanMaker maker(list.graph, counter.device());
    const FusionPlan& plan = *maker.plan(PlanKind::kAuto);
    if (!plan.recomputation) continue;
    ++plans;
    const Recomputation& recomputation = *plan.recomputation;
    std::set<OpId> copied;
    for (const std::vector<OpId>& copies : recomputation.copies) {
      for (const OpId copy : copies) copied.insert(recomputation.original[copy]);
    }
    TrafficCounter own = checks.counter_of(recomputation.graph);
    for (const Kernel& kernel : plan.kernels) {
      const bool shares = std::ranges::any_of(
          kernel, [&](OpId op) { return copied.contains(recomputation.original[op]); });
      if (shares) checks.check(own, kernel);
    }
  }
  MESSAGE(checks.compiled(), " kernels, ", checks.left_out(), " left out");
  CHECK(checks.left_out() == 0);
  CHECK(checks.compiled() > plans);
}

// Of the newer ones, texts of one op are those of sm_80.
TEST_CASE("each op alone compiles, and each type") {
  for (const Architecture& architecture : {kArchitectures[0], kArchitectures[1]}) {
    KernelChecks checks(architecture);
    std::set<std::string_view> ops;
    std::set<DType> types;
    for (std::uint64_t seed = 0; seed < 1000; ++seed) {
      const RandomOps list = random_ops(seed, 2 + seed % 9);
      CAPTURE(list.text);
      TrafficCounter counter = checks.counter_of(list.graph);
      for (OpId id = 0; id < list.graph.ops.size(); ++id) {
        const Op& op = list.graph.ops[id];
        const Tensor& result = list.graph.tensors[op.outputs[0]];
        // A kernel that only hands out further results writes none of this type.
        if (!result.output && list.graph.readers[op.outputs[0]].empty()) continue;
        const DType type = result.type.dtype;
        if (ops.contains(op.row->name) && types.contains(type)) continue;
        const std::size_t before = checks.compiled();
        checks.check(counter, Kernel{id});
        if (checks.compiled() == before) continue;
        ops.insert(op.row->name);
        // What nothing needs is not written.
        const bool needed = list.graph.tensors[op.outputs[0]].output ||
                            list.graph.readers[op.outputs[0]].size() > 0;
        if (needed) types.insert(type);
      }
    }
    for (const OpRow& row : op_table()) {
      const bool has_code = row.op_class != OpClass::kView && row.has_kernel;
      CAPTURE(row.name);
      CHECK(ops.contains(row.name) == has_code);
    }
    // Two to a byte is read, and not written.
    CHECK(types.size() == dtype_names().size() - 3);
  }
}

// What random lists found, as short as it can be said.
constexpr std::array kOnceBroken = {
    // A row's result after an inline number.
    R"({"tensors": {"x": {"shape": [96, 16]}},
        "ops": [{"op": "max", "inputs": ["x"], "output": "m", "axes": [1]},
                {"op": "sub", "inputs": [1, "m"], "output": "y"}], "fuse": [["op#0", "op#1"]]})",
    // A loss of one class, and the same row's state in two places.
    R"({"tensors": {"x": {"shape": [1]}, "t": {"shape": [], "dtype": "i32"}},
        "ops": [{"op": "logsumexp", "inputs": ["x"], "output": "l", "axes": [0], "keepdim": true},
                {"op": "cross_entropy", "inputs": ["l", "t"], "output": "c"},
                {"op": "softmax", "inputs": ["l"], "output": "s"}],
        "fuse": [["op#0", "op#1", "op#2"]]})",
    // The same of a row.
    R"({"tensors": {"x": {"shape": [64]}, "t": {"shape": [], "dtype": "i32"}},
        "ops": [{"op": "max", "inputs": ["x"], "output": "m", "axes": [0], "keepdim": true},
                {"op": "cross_entropy", "inputs": ["m", "t"], "output": "c"}],
        "fuse": [["op#0", "op#1"]]})",
    // Columns of single elements.
    R"({"tensors": {"x": {"shape": [3, 4, 3]}},
        "ops": [{"op": "min", "inputs": ["x"], "output": "m", "axes": [1]},
                {"op": "abs", "inputs": ["m"], "output": "y"}], "fuse": [["op#0", "op#1"]]})",
    // A bound that is not given, behind a contraction.
    R"({"tensors": {"q": {"shape": [2, 4, 128, 64], "dtype": "bf16"}},
        "ops": [{"op": "attention", "inputs": ["q", "q", "q"], "output": "a"},
                {"op": "clamp", "inputs": ["a"], "output": "y", "min": 0}],
        "fuse": [["op#0", "op#1"]]})",
    // Four bits, needed in two passes over a row.
    R"({"tensors": {"x": {"shape": [192, 7], "dtype": "i4"}},
        "ops": [{"op": "neg", "inputs": ["x"], "output": "n"},
                {"op": "logsumexp", "inputs": ["n"], "output": "l", "axes": [0], "keepdim": true},
                {"op": "add", "inputs": ["n", "l"], "output": "y"}],
        "fuse": [["op#0", "op#1", "op#2"]]})",
    // Bytes that are held for another look: with a register for each, 1024 threads spill.
    R"({"tensors": {"x": {"shape": [4, 30000], "dtype": "fp8_e4m3"},
                    "c": {"shape": [30000], "dtype": "fp8_e4m3"},
                    "w": {"shape": [30000], "dtype": "f32"}, "b": {"shape": [30000], "dtype": "f32"}},
        "ops": [{"op": "layer_norm", "inputs": ["x", "w", "b"], "output": "l"},
                {"op": "pow", "inputs": ["x", "c"], "output": "p"},
                {"op": "add", "inputs": ["p", "x"], "output": "a"},
                {"op": "group_norm", "inputs": ["a"], "output": "y", "groups": 1}],
        "outputs": ["l", "p", "y"], "fuse": [["op#0", "op#1", "op#2", "op#3"]]})",
    // A memory that held another type before.
    R"({"tensors": {"x": {"shape": [4, 1000], "dtype": "i32"}},
        "ops": [{"op": "log", "inputs": ["x"], "output": "y", "inplace": {"y": "x"}},
                {"op": "square", "inputs": ["y"], "output": "s"},
                {"op": "logsumexp", "inputs": ["s"], "output": "l", "axes": [1]}],
        "fuse": [["op#1", "op#2"]]})",
};

TEST_CASE("a reduction over one element after a contraction is not generated") {
  KernelChecks checks(kArchitectures[0]);
  const OpGraph graph = testing::graph_of(
      R"({"tensors": {"x": {"shape": [4096], "dtype": "bf16"}},
          "ops": [{"op": "matmul", "inputs": ["x", "x"], "output": "d"},
                  {"op": "max", "inputs": ["d"], "output": "y"}],
          "fuse": [["op#0", "op#1"]]})");
  TrafficCounter counter = checks.counter_of(graph);
  checks.check(counter, explicit_plan(graph).kernels);
  CHECK(checks.compiled() == 0);
  CHECK(checks.left_out() == 1);
}

TEST_CASE("bugs that random lists found stay fixed") {
  for (const Architecture& architecture : {kArchitectures[0], kArchitectures[1]}) {
    KernelChecks checks(architecture);
    for (const char* text : kOnceBroken) {
      CAPTURE(std::string(text));
      const OpGraph graph = testing::graph_of(text);
      TrafficCounter counter = checks.counter_of(graph);
      checks.check(counter, explicit_plan(graph).kernels);
    }
    CHECK(checks.compiled() == kOnceBroken.size() + 1);  // the last one has two kernels
    CHECK(checks.left_out() == 0);
  }
}

}  // namespace
}  // namespace fusecalc::cuda
