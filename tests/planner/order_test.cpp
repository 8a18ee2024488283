// Plans do not depend on the order in which a document has independent ops, nor on their names.

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "analysis/analyze.hpp"
#include "core/error.hpp"
#include "graph/graph_text.hpp"
#include "plan/random_graph.hpp"
#include "planner/plans.hpp"
#include "support/sanitizers.hpp"

using namespace fusecalc;
using namespace fusecalc::testing;

namespace {

using Json = nlohmann::json;

// The same graph: its ops in another order, and renamed where `names` maps to something else.
std::string shuffled(const std::string& text, Dice& dice, bool renames) {
  Json document = Json::parse(text);
  Json& ops = document["ops"];
  for (std::size_t i = ops.size(); i > 1; --i) std::swap(ops[i - 1], ops[dice.below(i)]);
  if (!renames) return document.dump();
  std::map<std::string, std::string> names;
  const auto rename = [&](Json& name) {
    if (!name.is_string()) return;
    auto& renamed = names[name.get<std::string>()];
    if (renamed.empty()) renamed = fmt::format("n{}_{}", dice.below(1'000'000), names.size());
    name = renamed;
  };
  const auto rename_keys = [&](Json& object) {
    Json renamed = Json::object();
    for (auto& [key, value] : object.items()) {
      Json name = key;
      rename(name);
      renamed[name.get<std::string>()] = value;
    }
    object = renamed;
  };
  rename_keys(document["tensors"]);
  for (Json& op : ops) {
    rename(op["name"]);
    for (Json& input : op["inputs"]) rename(input);
    if (op.contains("output")) rename(op["output"]);
    if (op.contains("outputs")) {
      for (Json& output : op["outputs"]) rename(output);
    }
    if (op.contains("inplace")) {
      rename_keys(op["inplace"]);
      for (auto& [output, home] : op["inplace"].items()) rename(home);
    }
  }
  if (document.contains("outputs")) {
    for (Json& output : document["outputs"]) rename(output);
  }
  return document.dump();
}

// "unfused 12+4 in 3, 8.75 us; ...": bytes read, bytes written, kernels and time of every plan.
std::string plans_of(const std::string& text) {
  OpGraph graph = graph_of(text);
  const Analysis analysis =
      analyze_graph(std::move(graph), "t", known_devices().front(), std::nullopt);
  std::string plans;
  for (const PlanAnalysis& plan : analysis.graph->plans) {
    plans += fmt::format("{} {}+{} in {}, {:.3f} us; ", name_of(plan.kind), plan.bytes.read,
                         plan.bytes.write, plan.kernels.size(), plan.predicted.time_us);
  }
  return plans;
}

}  // namespace

TEST_CASE("which of three equal products share a kernel does not depend on their order") {
  const auto fastest = [](const std::vector<std::string>& products) {
    std::string ops;
    for (const std::string& name : products) {
      ops += fmt::format(
          R"({{"op": "linear", "inputs": ["x", "w{0}"], "output": "{0}"}},
             {{"op": "view", "inputs": ["{0}"], "output": "{0}s", "shape": [8, 2048, 16, 128]}},
             {{"op": "permute_view", "inputs": ["{0}s"], "output": "{0}h", "perm": [0, 2, 1, 3]}}, )",
          name);
    }
    const OpGraph graph = graph_of(R"({"dtype": "bf16", "tensors": {
      "x": {"shape": [8, 2048, 2048]}, "wq": {"shape": [2048, 2048]},
      "wk": {"shape": [2048, 2048]}, "wv": {"shape": [2048, 2048]}}, "ops": [)" +
                                   ops + R"({"op": "attention", "inputs": ["qh", "kh", "vh"],
                                             "output": "y", "causal": true}]})");
    PlanMaker maker(graph, known_devices().front());
    std::set<std::set<std::string>> kernels;
    for (const Kernel& kernel : maker.plan(PlanKind::kFastest)->kernels) {
      std::set<std::string> names;
      for (const OpId op : kernel) names.insert(graph.tensors[graph.ops[op].outputs[0]].name);
      kernels.insert(names);
    }
    return kernels;
  };
  const auto expected = fastest({"q", "k", "v"});
  CHECK(expected.size() == 3);
  CHECK(fastest({"k", "v", "q"}) == expected);
  CHECK(fastest({"v", "k", "q"}) == expected);
  CHECK(fastest({"v", "q", "k"}) == expected);
}

TEST_CASE("shuffling and renaming the ops of a random graph changes no plan's bytes or time") {
  const char* text = std::getenv("FUSECALC_LONG_TESTS");
  const std::size_t usual = testing::kSanitized ? 10 : 60;
  const std::size_t count = text == nullptr ? usual : static_cast<std::size_t>(std::atoi(text));
  std::size_t graphs = 0;
  for (std::uint64_t seed = 20'000'000; graphs < count; ++seed) {
    CAPTURE(seed);
    const std::string document = random_op_list(seed, 12 + seed % 29);
    std::string plans;
    try {
      plans = plans_of(document);
    } catch (const Error&) {  // as in search_test.cpp
      continue;
    }
    ++graphs;
    Dice dice(seed);
    for (const bool renames : {false, true}) {
      CAPTURE(renames);
      CHECK(plans_of(shuffled(document, dice, renames)) == plans);
    }
  }
}
