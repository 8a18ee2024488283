#include "codegen/random_groups.hpp"

#include <algorithm>

#include "plan/partition.hpp"
#include "planner/plans.hpp"
#include "support/plans.hpp"

namespace fusecalc::testing {

std::vector<Kernel> random_groups(PhaseFinder& phases, const Rules& rules, bool legal, Dice& dice) {
  const OpGraph& graph = phases.graph();
  const auto orders = orders_of(graph);
  std::vector<Kernel> kernels;
  for (OpId id = 0; id < graph.ops.size(); ++id) kernels.push_back({id});
  for (std::size_t attempt = 0; attempt < 3 * graph.ops.size() && kernels.size() > 1; ++attempt) {
    std::vector<Kernel> merged = kernels;
    std::swap(merged[dice.below(merged.size())], merged.back());
    Kernel last = std::move(merged.back());
    merged.pop_back();
    Kernel& other = merged[dice.below(merged.size())];
    other.insert(other.end(), last.begin(), last.end());
    std::ranges::sort(other);
    if (legal && !check_kernel(phases, other, rules).legal()) continue;
    if (can_run(orders, merged)) kernels = std::move(merged);
  }
  return kernels;
}

std::vector<std::vector<Kernel>> random_plans(TrafficCounter& counter, std::uint64_t seed) {
  Dice dice(seed);
  const Rules rules = runner_rules(counter.device());
  const FusionPlan compiler = compiler_plan(counter);
  return {unfused_plan(counter.graph()).kernels, compiler.kernels,
          make_plan(counter, PlanKind::kAuto).kernels,
          random_groups(counter.phases(), rules, true, dice),
          random_groups(counter.phases(), rules, false, dice)};
}

}  // namespace fusecalc::testing
