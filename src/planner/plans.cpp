#include "planner/plans.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <numeric>
#include <utility>

#include "core/error.hpp"
#include "core/text.hpp"
#include "planner/search.hpp"

namespace fusecalc {
namespace {

constexpr std::array<std::string_view, 5> kNames = {"unfused", "compiler", "auto", "explicit",
                                                    "limit"};

// Kernels as people would write them: "a" or "[a, b]".
std::string shown(const OpGraph& graph, const Kernel& kernel) {
  std::vector<std::string_view> names;
  for (const OpId op : kernel) names.push_back(graph.ops[op].name);
  return names.size() == 1 ? std::string(names[0]) : fmt::format("[{}]", fmt::join(names, ", "));
}

FusionPlan searched_plan(TrafficCounter& counter, const Rules& rules) {
  const OpGraph& graph = counter.graph();
  FusionPlan plan;
  if (graph.ops.size() <= kMostExactOps) {
    Kernel scope(graph.ops.size());
    std::iota(scope.begin(), scope.end(), OpId{0});
    plan.kernels = search_exactly(counter, rules, scope);
  } else {
    plan.kernels = search_greedily(counter, rules, seed_attention(counter, rules));
  }
  [[maybe_unused]] const bool sorted = sort_kernels(graph, plan.kernels);
  assert(sorted);
  return plan;
}

}  // namespace

std::string_view name_of(PlanKind kind) { return kNames[static_cast<std::size_t>(kind)]; }

std::span<const std::string_view> plan_names() { return kNames; }

PlanKind plan_named(std::string_view name) {
  const auto* found = std::ranges::find(kNames, name);
  assert(found != kNames.end());
  return static_cast<PlanKind>(found - kNames.begin());
}

Rules runner_rules(const Device& device) {
  return {.epilogues = true, .on_chip_bytes = device.on_chip_bytes};
}

Rules compiler_rules(const Device& device) {
  return {.epilogues = false, .on_chip_bytes = device.on_chip_bytes};
}

FusionPlan explicit_plan(const OpGraph& graph) {
  assert(graph.fuse.has_value());
  FusionPlan plan;
  std::vector<bool> grouped(graph.ops.size(), false);
  for (const Kernel& group : *graph.fuse) {
    for (const OpId op : group) grouped[op] = true;
    plan.kernels.push_back(group);
  }
  for (OpId op = 0; op < graph.ops.size(); ++op) {
    if (!grouped[op]) plan.kernels.push_back({op});
  }
  if (sort_kernels(graph, plan.kernels)) return plan;
  std::string circle;
  for (const Kernel& kernel : plan.kernels) circle += shown(graph, kernel) + " -> ";
  circle += shown(graph, plan.kernels.front());
  throw Error(Fault::kBadInput,
              fmt::format("{}: /fuse: the groups wait for each other: {}; take one of them apart",
                          graph.document, printable(circle, 400)));
}

FusionPlan compiler_plan(TrafficCounter& counter) {
  return searched_plan(counter, compiler_rules(counter.device()));
}

FusionPlan auto_plan(TrafficCounter& counter, const FusionPlan& compiler) {
  const OpGraph& graph = counter.graph();
  const bool contracts = std::ranges::any_of(
      graph.ops, [](const Op& op) { return op.op_class == OpClass::kContract; });
  // All that our runner does and a compiler does not hangs on contractions.
  if (!contracts) return compiler;
  const Rules rules = runner_rules(counter.device());
  FusionPlan plan = searched_plan(counter, rules);
  // A greedy search may end in a worse place than the same search under stricter rules: then the
  // better place is the one to start from.
  if (cost_of(counter, compiler.kernels) < cost_of(counter, plan.kernels)) {
    plan.kernels = search_greedily(counter, rules, compiler.kernels);
    [[maybe_unused]] const bool sorted = sort_kernels(graph, plan.kernels);
    assert(sorted);
  }
  return plan;
}

std::optional<Split> better_split(TrafficCounter& counter, const Kernel& kernel) {
  if (kernel.size() < 2) return std::nullopt;
  const Rules rules = runner_rules(counter.device());
  const bool legal = check_kernel(counter.phases(), kernel, rules).legal();
  const std::uint64_t whole = counter.bytes(kernel).total();
  Split split;
  if (kernel.size() <= kMostExactOps) {
    split.kernels = search_exactly(counter, rules, kernel);
  } else {
    std::vector<Kernel> lone;
    for (const OpId op : kernel) lone.push_back({op});
    split.kernels = search_greedily(counter, rules, std::move(lone));
  }
  split.bytes = cost_of(counter, split.kernels).bytes;
  if (split.kernels.size() < 2 || (legal && split.bytes >= whole)) return std::nullopt;
  return split;
}

}  // namespace fusecalc
