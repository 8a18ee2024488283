#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/threads.hpp"
#include "plan/legality.hpp"
#include "plan/plan_kind.hpp"
#include "predict/kernel_model.hpp"
#include "traffic/counter.hpp"

namespace fusecalc {

// Makes the plans of one graph, each when it is first asked for: a search may start from what
// another one found. Several threads may ask.
class PlanMaker {
 public:
  PlanMaker(const OpGraph& graph, const Device& device) : graph_(graph), device_(device) {}

  const OpGraph& graph() const { return graph_; }
  const Device& device() const { return device_; }
  // Null where the graph has no such plan, or where that is a bound and no partition.
  const FusionPlan* plan(PlanKind kind);
  // The plan `auto` before ops are recomputed: each stands in one kernel.
  const FusionPlan& auto_partition();
  // The same before ties of bytes are settled by time.
  const FusionPlan& unsettled_auto();
  // The plan `fastest` before ops are recomputed.
  const FusionPlan& fastest_partition();
  // The same with ops recomputed where that moves fewer bytes, and with more of them.
  const std::vector<FusionPlan>& recomputed_fastest();
  // The plan `auto` before kernels that recompute are merged, likewise.
  const std::vector<FusionPlan>& recomputed_auto();
  // The plan `compiler`, likewise.
  const FusionPlan& compiler_partition();
  // Its kernels, split into single ops where our runner cannot launch them.
  const std::vector<Kernel>& launchable_compiler();
  // Whether our runner can launch all kernels of the plan `compiler`.
  bool launches_compiler();
  // The kernels of the plan `unfused`, which stand in the other plans, too.
  const std::vector<CountedKernel>& lone_ops();

 private:
  const OpGraph& graph_;
  const Device& device_;
  std::array<Lazy<std::optional<FusionPlan>>, kPlanWords.size()> plans_;
  Lazy<FusionPlan> auto_partition_;
  Lazy<FusionPlan> unsettled_auto_;
  Lazy<FusionPlan> fastest_partition_;
  Lazy<std::vector<FusionPlan>> recomputed_fastest_;
  Lazy<std::vector<FusionPlan>> recomputed_auto_;
  Lazy<FusionPlan> compiler_partition_;
  Lazy<std::vector<Kernel>> launchable_compiler_;
  Lazy<bool> launches_compiler_;
  Lazy<std::vector<CountedKernel>> lone_ops_;
};

// How a plan is found. Adding a kind, its words and its row adds it to --plan, to the completions,
// and to every report of `analyze` and `measure`.
struct PlanRow {
  PlanKind kind;
  // What one of its kernels may hold: boundaries are explained by these rules.
  Rules (*rules)(const Device&);
  // Nothing where the graph has no such plan. Null for a bound: no kernels could reach it.
  std::optional<FusionPlan> (*search)(PlanMaker&);
  // Its kernels are the document's: our runner may be unable to launch one, or launch its parts
  // with less traffic.
  bool given = false;
  // Whether our runner is meant to launch it: kernels for which it cannot are marked.
  bool launched = false;
  // Why `measure` does not take it for --plan; empty where it does.
  std::string_view not_measured{};

  bool is_bound() const { return search == nullptr; }
};

// In the order of PlanKind.
std::span<const PlanRow> plan_table();
const PlanRow& row_of(PlanKind kind);

// Whether our own runner can launch all kernels of a plan.
bool can_launch(const PlanMaker& maker, const FusionPlan& plan);

// What a general graph compiler would make of the graph, before it recomputes ops.
FusionPlan compiler_plan(TrafficCounter& counter);
// The plan, with the compiler's kernels where these move the same bytes in less predicted time.
FusionPlan faster_at_same_bytes(PlanMaker& maker, FusionPlan plan);
// The plan, with parts replanned where that moves no more bytes in less predicted time.
FusionPlan settled_by_time(PlanMaker& maker, FusionPlan plan);
// Of its kernels in canonical order; where that is at least `limit`, some time of at least it.
double predicted_time(PlanMaker& maker, const FusionPlan& plan,
                      double limit = std::numeric_limits<double>::infinity());
// Kernels of the plan `auto` and of the compiler, or their parts, whichever are predicted faster.
FusionPlan faster_parts(PlanMaker& maker);
// The least predicted time that our own runner can launch: of these, or of a plan that recomputes;
// as a whole never slower than one kernel per op.
FusionPlan fastest_plan(PlanMaker& maker);
// The plan itself, then plans each of which moves fewer bytes than the one before: with cheap ops
// computed again in kernels that read their results, where these were stored.
std::vector<FusionPlan> recomputed(TrafficCounter& counter, const FusionPlan& plan,
                                   const Rules& rules);
// The groups of the document, which must have some, and the other ops as single kernels. An op of
// several groups is recomputed in all but one. Throws an Error if the groups form a cycle.
FusionPlan explicit_plan(const OpGraph& graph);

// The best legal partition of a kernel's ops, if it moves fewer bytes than the kernel.
std::optional<Split> better_split(TrafficCounter& counter, const Kernel& kernel);

}  // namespace fusecalc
