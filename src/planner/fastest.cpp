// The plan with the least predicted time. Fewer bytes are faster but for a few kernels: those that
// hold whole rows on few multiprocessors, those whose epilogue outlasts what it saves. So each
// kernel of the plan with the fewest bytes competes with its own parts, and with the compiler's
// kernels for the same ops.

#include <algorithm>
#include <cassert>
#include <span>
#include <utility>
#include <vector>

#include "planner/plans.hpp"
#include "planner/search.hpp"
#include "planner/two_plans.hpp"
#include "predict/plan_model.hpp"

namespace fusecalc {
namespace {

// In an order that does not depend on how the document orders independent ops.
double predicted_time(TrafficCounter& counter, KernelModel& model, std::vector<Kernel> kernels) {
  [[maybe_unused]] const bool possible = sort_canonically(counter.graph(), kernels);
  assert(possible);
  std::vector<KernelTraffic> traffic;
  traffic.reserve(kernels.size());
  std::vector<PlannedWork> works;
  for (const Kernel& kernel : kernels) {
    traffic.push_back(counter.count(kernel));
    works.push_back({.traffic = &traffic.back(), .alone = model.work_of(kernel, traffic.back())});
  }
  return predict_plan(counter.graph(), counter.device(), works).time_us;
}

double predicted_time(PlanMaker& maker, const FusionPlan& plan) {
  if (!plan.recomputation) return predicted_time(maker.counter(), maker.model(), plan.kernels);
  TrafficCounter counter(plan.recomputation->graph, maker.counter().device());
  KernelModel model(counter);
  return predicted_time(counter, model, plan.kernels);
}

class Contest {
 public:
  Contest(PlanMaker& maker, const FusionPlan& compiler)
      : maker_(maker),
        graph_(maker.counter().graph()),
        rules_(runner_rules(maker.counter().device())),
        compiler_(owners_of(graph_, compiler.kernels)),
        launchable_(launchable_parts(maker.counter(), rules_, compiler.kernels)) {}

  // The compiler's kernels, as far as our runner can launch them.
  const std::vector<Kernel>& launchable_compiler() const { return launchable_; }

  double time_of(const std::vector<Kernel>& kernels) {
    return predicted_time(maker_.counter(), maker_.model(), kernels);
  }

  // Each kernel, or the fastest of its parts.
  std::vector<Kernel> faster(const std::vector<Kernel>& kernels) {
    std::vector<Kernel> parts;
    for (const Kernel& kernel : kernels) {
      for (Kernel& part : faster(kernel)) parts.push_back(std::move(part));
    }
    return parts;
  }

 private:
  // The kernel, or the fastest of its parts; in an order in which they can run.
  std::vector<Kernel> faster(const Kernel& kernel) {
    std::vector<Kernel> best = {kernel};
    if (kernel.size() == 1) return best;
    double least = time_of(best);
    for (std::vector<Kernel>& parts : partitions_of(kernel)) {
      if (parts.size() < 2 || !launchable(parts)) continue;
      const double time = time_of(parts);
      if (time >= least) continue;
      least = time;
      best = std::move(parts);
    }
    return best;
  }

  bool launchable(const std::vector<Kernel>& parts) {
    return std::ranges::all_of(parts, [&](const Kernel& part) {
      return part.size() == 1 || check_kernel(maker_.counter().phases(), part, rules_).legal();
    });
  }

  // Each by a number for every op: ops of one number are a part. Parts that would form a cycle are
  // left out.
  std::vector<std::vector<Kernel>> partitions_of(const Kernel& kernel) {
    std::vector<std::vector<Kernel>> found;
    const auto add = [&](const auto& number_of) {
      std::vector<std::pair<std::uint32_t, Kernel>> parts;
      for (const OpId op : kernel) {
        const std::uint32_t number = number_of(op);
        auto part = std::ranges::find(parts, number, [](const auto& each) { return each.first; });
        if (part == parts.end()) part = parts.insert(part, {number, {}});
        part->second.push_back(op);
      }
      std::vector<Kernel> kernels;
      for (auto& [number, ops] : parts) kernels.push_back(std::move(ops));
      if (sort_canonically(graph_, kernels)) found.push_back(std::move(kernels));
    };
    add([](OpId op) { return op; });
    add([&](OpId op) { return compiler_[op]; });
    // Its contractions alone, what they do not need, and what they do.
    const std::vector<OpId> behind = behind_contractions(kernel);
    if (behind.empty()) return found;
    constexpr std::uint32_t kBefore = kNone - 1;
    constexpr std::uint32_t kAfter = kNone;
    const auto is_behind = [&](OpId op) { return std::ranges::binary_search(behind, op); };
    const auto contracts = [&](OpId op) { return graph_.ops[op].op_class == OpClass::kContract; };
    add([&](OpId op) { return contracts(op) ? op : is_behind(op) ? kAfter : kBefore; });
    // The first op behind a contraction stays with it: a bias, an activation.
    add([&](OpId op) {
      if (contracts(op)) return op;
      const OpId producer = is_behind(op) ? contraction_of(op) : kNone;
      return producer != kNone ? producer : is_behind(op) ? kAfter : kBefore;
    });
    return found;
  }

  // The kernel's contractions and all that needs their results; empty if it has none.
  std::vector<OpId> behind_contractions(const Kernel& kernel) const {
    std::vector<OpId> behind;
    for (const OpId op : kernel) {
      const bool needs = std::ranges::any_of(graph_.ops[op].operands, [&](const Operand& operand) {
        return operand.tensor != kNone &&
               std::ranges::binary_search(behind, graph_.value_of(operand.tensor).producer);
      });
      if (needs || graph_.ops[op].op_class == OpClass::kContract) behind.push_back(op);
    }
    return behind;
  }

  // The contraction whose result the op reads, or kNone.
  OpId contraction_of(OpId op) const {
    for (const Operand& operand : graph_.ops[op].operands) {
      if (operand.tensor == kNone) continue;
      const OpId producer = graph_.value_of(operand.tensor).producer;
      if (producer != kNone && graph_.ops[producer].op_class == OpClass::kContract) return producer;
    }
    return kNone;
  }

  PlanMaker& maker_;
  const OpGraph& graph_;
  Rules rules_;
  std::vector<KernelId> compiler_;  // the compiler's kernel of every op
  std::vector<Kernel> launchable_;
};

}  // namespace

FusionPlan faster_at_same_bytes(PlanMaker& maker, FusionPlan plan, const FusionPlan& compiler) {
  Contest contest(maker, compiler);
  TrafficCounter& counter = maker.counter();
  const auto bytes = [&](const std::vector<Kernel>& kernels) {
    return cost_of(counter, kernels).bytes;
  };
  plan.kernels = better_parts(
      counter.graph(), plan.kernels, contest.launchable_compiler(),
      [&](const std::vector<Kernel>& first, const std::vector<Kernel>& second) {
        return bytes(first) == bytes(second) && contest.time_of(second) < contest.time_of(first);
      });
  return plan;
}

FusionPlan fastest_plan(PlanMaker& maker, const FusionPlan& compiler, const FusionPlan& best) {
  Contest contest(maker, compiler);
  FusionPlan plan{
      better_parts(maker.counter().graph(), contest.faster(best.kernels),
                   contest.faster(contest.launchable_compiler()),
                   [&](const std::vector<Kernel>& first, const std::vector<Kernel>& second) {
                     return contest.time_of(second) < contest.time_of(first);
                   })};
  const FusionPlan partition = plan;
  double least = predicted_time(maker, plan);
  const auto consider = [&](const FusionPlan& other) {
    const double time = predicted_time(maker, other);
    if (time >= least) return;
    least = time;
    plan = other;
  };
  consider(*maker.plan(PlanKind::kUnfused));
  consider(best);
  const FusionPlan& fewest = *maker.plan(PlanKind::kAuto);
  if (fewest.recomputation) consider(fewest);
  if (partition.kernels != best.kernels) consider(recomputed(maker.counter(), partition));
  const OpGraph& graph = plan.graph_or(maker.counter().graph());
  [[maybe_unused]] const bool possible = sort_kernels(graph, plan.kernels);
  assert(possible);
  return plan;
}

}  // namespace fusecalc
