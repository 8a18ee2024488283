// The plan with the least predicted time. Fewer bytes are faster but for a few kernels: those that
// hold whole rows on few multiprocessors, those whose epilogue outlasts what it saves. So each
// kernel of the plan with the fewest bytes competes with its own parts, and with the compiler's
// kernels for the same ops.

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <future>
#include <limits>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "core/threads.hpp"
#include "plan/siblings.hpp"
#include "planner/plans.hpp"
#include "planner/search.hpp"
#include "planner/two_plans.hpp"
#include "predict/plan_model.hpp"

namespace fusecalc {
namespace {

constexpr double kForever = std::numeric_limits<double>::infinity();

// The ways to put so many things into groups: the group of each, counted from 0.
std::vector<std::vector<std::uint32_t>> groupings(std::size_t count) {
  std::vector<std::vector<std::uint32_t>> found = {{}};
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<std::vector<std::uint32_t>> longer;
    for (const std::vector<std::uint32_t>& groups : found) {
      const std::uint32_t used = groups.empty() ? 0 : 1 + *std::ranges::max_element(groups);
      for (std::uint32_t next = 0; next <= used; ++next) {
        longer.emplace_back(groups).push_back(next);
      }
    }
    found = std::move(longer);
  }
  return found;
}

class Contest {
 public:
  explicit Contest(PlanMaker& maker)
      : graph_(maker.graph()),
        rules_(runner_rules(maker.device())),
        compiler_(owners_of(graph_, maker.compiler_partition().kernels)),
        counter_(graph_, maker.device()),
        model_(counter_, &maker.lone_ops()) {}

  std::uint64_t bytes_of(const std::vector<Kernel>& kernels) {
    return cost_of(counter_, kernels).bytes;
  }

  bool is_faster(const std::vector<Kernel>& kernels, const std::vector<Kernel>& others) {
    const double least = predicted_time(counter_, model_, others);
    return predicted_time(counter_, model_, kernels, least) < least;
  }

  // A better partition of all ops, or the same one.
  std::vector<Kernel> replanned(Aim aim, const std::vector<Kernel>& kernels) {
    std::vector<Kernel> better = replan_by_time(counter_, model_, rules_, aim, kernels);
    [[maybe_unused]] const bool possible = sort_kernels(graph_, better);
    assert(possible);
    if (better == kernels) return kernels;
    const std::uint64_t bytes = bytes_of(better);
    const std::uint64_t before = bytes_of(kernels);
    if (aim == Aim::kFewestBytes && bytes < before) return better;
    // Each stretch was predicted from a cold L2. No prediction is so exact that a smaller gain
    // would be worth more bytes.
    constexpr double kLeastGain = 0.001;
    const double share = bytes > before ? 1 - kLeastGain : 1;
    const double least = share * predicted_time(counter_, model_, kernels);
    return predicted_time(counter_, model_, better, least) < least ? better : kernels;
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
    if (kernel.size() == 1) return {kernel};
    auto known = faster_.find(kernel);
    if (known == faster_.end()) known = faster_.emplace(kernel, fastest_parts(kernel)).first;
    return known->second;
  }

  std::vector<Kernel> fastest_parts(const Kernel& kernel) {
    std::vector<Kernel> best = {kernel};
    double least = predicted_time(counter_, model_, best);
    for (std::vector<Kernel>& parts : partitions_of(kernel)) {
      if (parts.size() < 2 || !launchable(parts)) continue;
      const double time = predicted_time(counter_, model_, parts, least);
      if (time >= least) continue;
      least = time;
      best = std::move(parts);
    }
    return best;
  }

  bool launchable(const std::vector<Kernel>& parts) {
    return std::ranges::all_of(parts, [&](const Kernel& part) {
      return part.size() == 1 || check_kernel(counter_.phases(), part, rules_).legal();
    });
  }

  // Into single ops, and by a number for every op: ops of one number are a part. Parts that would
  // form a cycle are left out. In canonical order. The kernel itself may be among them.
  std::vector<std::vector<Kernel>> partitions_of(const Kernel& kernel) {
    std::vector<Kernel> single;
    for (const OpId op : kernel) single.push_back({op});
    std::vector<std::vector<Kernel>> found = {canonical(graph_, std::move(single))};
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
    add([&](OpId op) { return compiler_[op]; });
    std::vector<Kernel> siblings = sibling_parts(graph_, kernel);
    const auto rank = [&](OpId op) { return graph_.rank[op]; };
    std::ranges::sort(siblings, {},
                      [&](const Kernel& part) { return rank(std::ranges::min(part, {}, rank)); });
    for (const std::vector<std::uint32_t>& groups : groupings(siblings.size())) {
      add([&](OpId op) {
        for (std::size_t i = 0; i < siblings.size(); ++i) {
          if (std::ranges::binary_search(siblings[i], op)) return groups[i];
        }
        return kNone;
      });
    }
    // Its contractions alone, what they do not need, and what they do.
    const std::vector<OpId> behind = behind_contractions(kernel);
    if (behind.empty()) return found;
    constexpr std::uint32_t kBefore = kNone - 1;
    constexpr std::uint32_t kAfter = kNone;
    const auto is_behind = [&](OpId op) { return std::ranges::binary_search(behind, op); };
    const auto contracts = [&](OpId op) { return graph_.ops[op].op_class == OpClass::kContract; };
    add([&](OpId op) { return contracts(op) ? op : is_behind(op) ? kAfter : kBefore; });
    // What they need apart from the rest.
    add([&](OpId op) { return is_behind(op) ? kAfter : kBefore; });
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

  const OpGraph& graph_;
  Rules rules_;
  std::vector<KernelId> compiler_;  // the compiler's kernel of every op
  TrafficCounter counter_;
  KernelModel model_;
  std::map<Kernel, std::vector<Kernel>> faster_;  // of kernels: most are those of both plans
};

}  // namespace

double predicted_time(PlanMaker& maker, const FusionPlan& plan, double limit) {
  TrafficCounter counter(plan.graph_or(maker.graph()), maker.device());
  KernelModel model(counter, plan.recomputation ? nullptr : &maker.lone_ops());
  return predicted_time(counter, model, plan.kernels, limit);
}

FusionPlan faster_at_same_bytes(PlanMaker& maker, FusionPlan plan) {
  Contest contest(maker);
  plan.kernels =
      better_parts(maker.graph(), plan.kernels, maker.launchable_compiler(),
                   [&](const std::vector<Kernel>& first, const std::vector<Kernel>& second) {
                     return contest.bytes_of(first) == contest.bytes_of(second) &&
                            contest.is_faster(second, first);
                   });
  return plan;
}

FusionPlan settled_by_time(PlanMaker& maker, FusionPlan plan) {
  plan.kernels = Contest(maker).replanned(Aim::kFewestBytes, plan.kernels);
  return plan;
}

FusionPlan faster_parts(PlanMaker& maker) {
  Contest contest(maker);
  const std::vector<Kernel> compiler = contest.faster(maker.launchable_compiler());
  return {contest.replanned(
      Aim::kLeastTime,
      better_parts(maker.graph(), contest.faster(maker.auto_partition().kernels), compiler,
                   [&](const std::vector<Kernel>& first, const std::vector<Kernel>& second) {
                     return contest.is_faster(second, first);
                   }))};
}

FusionPlan fastest_plan(PlanMaker& maker) {
  // A plan in the running. Several are timed at once.
  struct Timed {
    FusionPlan plan{};
    double time = kForever;
  };
  const auto timed = [&](const FusionPlan& plan) {
    return Timed{plan, predicted_time(maker, plan)};
  };
  const auto timed_unless_same = [&](const FusionPlan& same, const FusionPlan& plan) {
    return plan.recomputation || plan.kernels != same.kernels ? timed(plan) : Timed{};
  };
  const std::size_t ops = maker.graph().ops.size();
  const FusionPlan& best = maker.auto_partition();
  const FusionPlan& partition = maker.fastest_partition();
  const bool is_best = partition.kernels == best.kernels;
  std::vector<std::future<Timed>> others;
  if (!is_best) others.push_back(started(ops, [&] { return timed(best); }));
  others.push_back(
      started(ops, [&] { return timed_unless_same(best, *maker.plan(PlanKind::kAuto)); }));
  // Computing more again moves fewer bytes, but may take longer.
  const auto fastest_of = [&](std::span<const FusionPlan> plans) {
    Timed least;
    for (const FusionPlan& plan : plans) {
      if (Timed next = timed(plan); next.time < least.time) least = std::move(next);
    }
    return least;
  };
  others.push_back(started(ops, [&] {
    const std::span<const FusionPlan> plans = maker.recomputed_auto();
    return plans.size() < 3 ? Timed{} : fastest_of(plans.subspan(1, plans.size() - 2));
  }));
  if (!is_best) {
    others.push_back(
        started(ops, [&] { return fastest_of(std::span(maker.recomputed_fastest()).subspan(1)); }));
  }
  others.push_back(started(ops, [&] {
    const FusionPlan& compiled = *maker.plan(PlanKind::kCompiler);
    return compiled.recomputation && maker.launches_compiler() ? timed(compiled) : Timed{};
  }));
  Timed fastest = timed(partition);
  const FusionPlan& unfused = *maker.plan(PlanKind::kUnfused);
  if (const double time = predicted_time(maker, unfused, fastest.time); time < fastest.time) {
    fastest = {unfused, time};
  }
  for (std::future<Timed>& other : others) {
    if (Timed next = other.get(); next.time < fastest.time) fastest = std::move(next);
  }
  const OpGraph& graph = fastest.plan.graph_or(maker.graph());
  [[maybe_unused]] const bool possible = sort_kernels(graph, fastest.plan.kernels);
  assert(possible);
  return std::move(fastest.plan);
}

}  // namespace fusecalc
