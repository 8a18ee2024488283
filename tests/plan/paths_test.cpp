#include "plan/paths.hpp"

#include <doctest/doctest.h>

#include "graph/graph_text.hpp"

using namespace fusecalc;
using namespace fusecalc::testing;

TEST_CASE("an indirect path through ops that are listed later is found") {
  // 0 -> 3 -> 4 in one kernel with 1 -> 2: op 3 comes after both ends.
  const OpGraph graph = graph_of(R"({"tensors": {"x": {"shape": [4]}},
    "ops": [{"op": "exp", "inputs": ["x"], "output": "a"},
            {"op": "neg", "inputs": ["x"], "output": "l"},
            {"op": "abs", "inputs": ["l"], "output": "b"},
            {"op": "sin", "inputs": ["a"], "output": "k"},
            {"op": "cos", "inputs": ["k"], "output": "m"}]})");
  const std::vector<Kernel> kernels = {{0}, {3}, {1, 4}, {2}};
  const std::vector<KernelId> owner = owners_of(graph, kernels);
  CHECK(owner == std::vector<KernelId>{0, 2, 3, 1, 2});
  PathFinder paths(graph, kernels, owner);
  CHECK(paths.has_indirect_path(0, 3));
  CHECK(paths.has_indirect_path(3, 0));
  CHECK(paths.has_indirect_path(0, 2));
  CHECK_FALSE(paths.has_indirect_path(0, 1));
  CHECK_FALSE(paths.has_indirect_path(2, 3));
}

TEST_CASE("the order of kernels follows merges and cuts") {
  // Two chains: 0 -> 2 -> 4 and 1 -> 3 -> 5.
  const OpGraph graph = graph_of(R"({"tensors": {"x": {"shape": [4]}},
    "ops": [{"op": "exp", "inputs": ["x"], "output": "a0"},
            {"op": "exp", "inputs": ["x"], "output": "b0"},
            {"op": "neg", "inputs": ["a0"], "output": "a1"},
            {"op": "neg", "inputs": ["b0"], "output": "b1"},
            {"op": "abs", "inputs": ["a1"], "output": "a2"},
            {"op": "abs", "inputs": ["b1"], "output": "b2"}]})");
  std::vector<Kernel> kernels = unfused_plan(graph).kernels;
  std::vector<KernelId> owner = owners_of(graph, kernels);
  PathFinder paths(graph, kernels, owner);
  // The first of one chain with the last of the other: no way between them yet.
  REQUIRE_FALSE(paths.has_indirect_path(0, 5));
  kernels[0] = {0, 5};
  kernels[5].clear();
  owner[5] = 0;
  paths.merge(0, 5);
  // Now 3 runs before that kernel and 2 after it.
  CHECK(paths.has_indirect_path(3, 2));
  CHECK(paths.has_indirect_path(1, 4));
  CHECK_FALSE(paths.has_indirect_path(1, 3));
  // Op 5 is taken out again, after op 0, and joins op 3.
  kernels[0] = {0};
  kernels.back() = {};
  kernels.push_back({5});
  owner[5] = 6;
  paths.add_beside(0, true);
  REQUIRE_FALSE(paths.has_indirect_path(3, 6));
  kernels[3] = {3, 5};
  owner[5] = 3;
  paths.merge(3, 6);
  kernels.pop_back();
  paths.drop_last();
  CHECK_FALSE(paths.has_indirect_path(3, 2));
  CHECK_FALSE(paths.has_indirect_path(2, 3));
}
