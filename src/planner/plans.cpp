#include "planner/plans.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <utility>

#include "core/error.hpp"
#include "core/text.hpp"
#include "planner/recompute.hpp"
#include "planner/search.hpp"
#include "planner/sharing.hpp"
#include "planner/two_plans.hpp"

namespace fusecalc {
namespace {

// A kernel as a document would list it: "a" or "[a, b]".
std::string shown(const OpGraph& graph, const Kernel& kernel) {
  std::vector<std::string_view> names;
  for (const OpId op : kernel) names.push_back(graph.ops[op].name);
  return names.size() == 1 ? std::string(names[0]) : fmt::format("[{}]", fmt::join(names, ", "));
}

// Starts from kernels in canonical order.
std::vector<Kernel> searched(TrafficCounter& counter, const Rules& rules,
                             std::vector<Kernel> kernels) {
  return replan(counter, rules, merge_greedily(counter, rules, std::move(kernels)));
}

FusionPlan plan_of(const OpGraph& graph, std::vector<Kernel> kernels) {
  [[maybe_unused]] const bool possible = sort_kernels(graph, kernels);
  assert(possible);
  return {std::move(kernels)};
}

// Whether our runner's rules may allow more than a compiler's: for contractions, and for sums of
// rows beside sums of columns.
bool exceeds_compiler(const OpGraph& graph) {
  bool rows = false;
  bool columns = false;
  for (const Op& op : graph.ops) {
    if (op.op_class == OpClass::kContract) return true;
    if (op.rows.empty()) continue;
    (op.rows.reduces_innermost() ? rows : columns) = true;
  }
  return rows && columns;
}

// The fewest bytes that our own runner can launch; never worse than the compiler's plan, where all
// of that can be launched. Ops that have no kernel of ours stay alone.
FusionPlan auto_plan(PlanMaker& maker) {
  const OpGraph& graph = maker.graph();
  const Rules rules = runner_rules(maker.device());
  TrafficCounter counter(graph, maker.device());
  std::vector<Kernel> kernels;
  const auto search = [&] { kernels = searched(counter, rules, seed_attention(counter, rules)); };
  // The search need not wait for another thread that makes the compiler's plan.
  if (exceeds_compiler(graph)) search();
  const FusionPlan& compiler = maker.compiler_partition();
  std::vector<Kernel> start = maker.launchable_compiler();
  if (!exceeds_compiler(graph)) {
    if (start.size() == compiler.kernels.size()) return compiler;
    search();
  }
  // A search may end in a worse plan than the same search under stricter rules; if so, restart from
  // the better plan.
  if (cost_of(counter, start) < cost_of(counter, kernels)) {
    kernels = searched(counter, rules, canonical(graph, std::move(start)));
  }
  return plan_of(graph, std::move(kernels));
}

// Where both plans start from the same kernels, all of which can be launched, they recompute the
// same: the search is made once.
FusionPlan recomputing_compiler(PlanMaker& maker) {
  const FusionPlan& partition = maker.compiler_partition();
  const bool as_auto =
      !exceeds_compiler(maker.graph()) && maker.auto_partition().kernels == partition.kernels;
  if (as_auto) return *maker.plan(PlanKind::kAuto);
  TrafficCounter counter(maker.graph(), maker.device());
  const Rules rules = compiler_rules(maker.device());
  return merged(maker.graph(), maker.device(), recomputed(counter, partition, rules).back(), rules);
}

// Equally many bytes in more time: a later plan is taken for its bytes, or for its time.
bool is_better(PlanMaker& maker, const FusionPlan& plan, const FusionPlan& other) {
  const auto bytes_of = [&](const FusionPlan& each) {
    TrafficCounter counter(each.graph_or(maker.graph()), maker.device());
    return cost_of(counter, each.kernels).bytes;
  };
  const std::uint64_t bytes = bytes_of(plan);
  const std::uint64_t least = bytes_of(other);
  if (bytes != least) return bytes < least;
  const double time = predicted_time(maker, other);
  return predicted_time(maker, plan, time) < time;
}

// What is recomputed may save more where ties were decided otherwise, in faster parts, in the
// compiler's plan, or where ops were recomputed before kernels were made of them.
FusionPlan recomputing_auto(PlanMaker& maker) {
  const FusionPlan& partition = maker.auto_partition();
  const FusionPlan& unsettled = maker.unsettled_auto();
  TrafficCounter counter(maker.graph(), maker.device());
  const Rules rules = runner_rules(maker.device());
  const auto more_merged = [&](FusionPlan plan) {
    return merged(maker.graph(), maker.device(), std::move(plan), rules);
  };
  FusionPlan best = maker.recomputed_auto().back();
  const auto consider = [&](const FusionPlan& plan) {
    if (plan.recomputation && is_better(maker, plan, best)) best = plan;
  };
  if (unsettled.kernels != partition.kernels)
    consider(recomputed(counter, unsettled, rules).back());
  const FusionPlan& faster = maker.fastest_partition();
  if (faster.kernels != partition.kernels) consider(maker.recomputed_fastest().back());
  const bool as_compiler =
      !exceeds_compiler(maker.graph()) && partition.kernels == maker.compiler_partition().kernels;
  consider(more_merged(best));
  const auto with_copies = planned_with_copies(maker.graph(), maker.device(), rules);
  if (with_copies) consider(more_merged(*with_copies));
  if (as_compiler) return best;
  if (maker.launches_compiler()) consider(more_merged(*maker.plan(PlanKind::kCompiler)));
  return best;
}

using MaybePlan = std::optional<FusionPlan>;

constexpr std::array kPlans = {
    PlanRow{.kind = PlanKind::kUnfused,
            .rules = runner_rules,
            .search = [](PlanMaker& maker) -> MaybePlan { return unfused_plan(maker.graph()); },
            .not_measured = "it is the baseline of the other plans; name one of those"},
    PlanRow{.kind = PlanKind::kCompiler,
            .rules = compiler_rules,
            .search = [](PlanMaker& maker) -> MaybePlan { return recomputing_compiler(maker); }},
    PlanRow{.kind = PlanKind::kAuto,
            .rules = runner_rules,
            .search = [](PlanMaker& maker) -> MaybePlan { return recomputing_auto(maker); },
            .launched = true},
    PlanRow{.kind = PlanKind::kFastest,
            .rules = runner_rules,
            .search = [](PlanMaker& maker) -> MaybePlan { return fastest_plan(maker); },
            .launched = true},
    PlanRow{.kind = PlanKind::kExplicit,
            .rules = runner_rules,
            .search = [](PlanMaker& maker) -> MaybePlan {
              const OpGraph& graph = maker.graph();
              return graph.fuse ? MaybePlan(explicit_plan(graph)) : std::nullopt;
            },
            .given = true,
            .launched = true},
    PlanRow{.kind = PlanKind::kLimit,
            .rules = runner_rules,
            .search = nullptr,
            .not_measured = "the limit is a bound and has no kernels to run"},
};

static_assert(kPlans.size() == kPlanWords.size() && in_order(kPlans));

}  // namespace

const FusionPlan* PlanMaker::plan(PlanKind kind) {
  const PlanRow& row = row_of(kind);
  if (row.is_bound()) return nullptr;
  const std::optional<FusionPlan>& plan =
      plans_[static_cast<std::size_t>(kind)].get([&] { return row.search(*this); });
  return plan ? &*plan : nullptr;
}

const FusionPlan& PlanMaker::auto_partition() {
  return auto_partition_.get([&] { return settled_by_time(*this, unsettled_auto()); });
}

const FusionPlan& PlanMaker::unsettled_auto() {
  return unsettled_auto_.get([&] { return faster_at_same_bytes(*this, auto_plan(*this)); });
}

const FusionPlan& PlanMaker::fastest_partition() {
  return fastest_partition_.get([&] { return faster_parts(*this); });
}

const std::vector<FusionPlan>& PlanMaker::recomputed_fastest() {
  return recomputed_fastest_.get([&] {
    TrafficCounter counter(graph_, device_);
    return recomputed(counter, fastest_partition(), runner_rules(device_));
  });
}

const std::vector<FusionPlan>& PlanMaker::recomputed_auto() {
  return recomputed_auto_.get([&] {
    TrafficCounter counter(graph_, device_);
    return recomputed(counter, auto_partition(), runner_rules(device_));
  });
}

const FusionPlan& PlanMaker::compiler_partition() {
  return compiler_partition_.get([&] {
    TrafficCounter counter(graph_, device_);
    return compiler_plan(counter);
  });
}

const std::vector<Kernel>& PlanMaker::launchable_compiler() {
  return launchable_compiler_.get([&] {
    TrafficCounter counter(graph_, device_);
    return launchable_parts(counter, runner_rules(device_), compiler_partition().kernels);
  });
}

bool PlanMaker::launches_compiler() {
  return launches_compiler_.get([&] { return can_launch(*this, *plan(PlanKind::kCompiler)); });
}

const std::vector<CountedKernel>& PlanMaker::lone_ops() {
  return lone_ops_.get([&] {
    TrafficCounter counter(graph_, device_);
    KernelModel model(counter);
    std::vector<CountedKernel> ops;
    ops.reserve(graph_.ops.size());
    for (OpId op = 0; op < graph_.ops.size(); ++op) ops.push_back(model.count({op}));
    return ops;
  });
}

std::vector<Kernel> canonical(const OpGraph& graph, std::vector<Kernel> kernels) {
  [[maybe_unused]] const bool possible = sort_canonically(graph, kernels);
  assert(possible);
  return kernels;
}

std::span<const PlanRow> plan_table() { return kPlans; }

const PlanRow& row_of(PlanKind kind) { return kPlans[static_cast<std::size_t>(kind)]; }

bool can_launch(const PlanMaker& maker, const FusionPlan& plan) {
  TrafficCounter counter(plan.graph_or(maker.graph()), maker.device());
  const Rules rules = runner_rules(maker.device());
  return std::ranges::all_of(plan.kernels, [&](const Kernel& kernel) {
    return check_kernel(counter.phases(), kernel, rules).legal();
  });
}

FusionPlan explicit_plan(const OpGraph& graph) {
  assert(graph.fuse.has_value());
  std::vector<bool> grouped(graph.ops.size(), false);
  for (const Kernel& group : *graph.fuse) {
    for (const OpId op : group) grouped[op] = true;
  }
  std::vector<Kernel> groups = *graph.fuse;
  for (OpId op = 0; op < graph.ops.size(); ++op) {
    if (!grouped[op]) groups.push_back({op});
  }
  FusionPlan plan = shared_plan(graph, groups);
  std::erase_if(plan.kernels, [](const Kernel& kernel) { return kernel.empty(); });
  const OpGraph& planned = plan.graph_or(graph);
  if (sort_kernels(planned, plan.kernels)) return plan;
  std::string cycle;
  for (const Kernel& kernel : plan.kernels) cycle += shown(planned, kernel) + " -> ";
  cycle += shown(planned, plan.kernels.front());
  throw Error(Fault::kBadInput,
              fmt::format("{}: /fuse: the groups form a cycle: {}; split one of them",
                          graph.document, printable(cycle, 400)));
}

FusionPlan compiler_plan(TrafficCounter& counter) {
  const Rules rules = compiler_rules(counter.device());
  return plan_of(counter.graph(), searched(counter, rules, seed_attention(counter, rules)));
}

std::optional<Split> better_split(TrafficCounter& counter, const Kernel& kernel) {
  if (kernel.size() < 2) return std::nullopt;
  const Rules rules = runner_rules(counter.device());
  const std::uint64_t whole = counter.bytes(kernel).total();
  std::vector<Kernel> lone;
  for (const OpId op : kernel) lone.push_back({op});
  Split split;
  split.kernels = plan_of(counter.graph(),
                          searched(counter, rules, canonical(counter.graph(), std::move(lone))))
                      .kernels;
  split.bytes = cost_of(counter, split.kernels).bytes;
  if (split.kernels.size() < 2 || split.bytes >= whole) return std::nullopt;
  return split;
}

}  // namespace fusecalc
