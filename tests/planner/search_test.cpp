// The planner against every legal partition of small random graphs, and its promises on large ones.

#include "planner/search.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "graph/graph_text.hpp"
#include "plan/partition.hpp"
#include "plan/random_graph.hpp"
#include "planner/exhaustive.hpp"
#include "planner/plans.hpp"
#include "predict/plan_model.hpp"
#include "support/plans.hpp"
#include "support/sanitizers.hpp"

using namespace fusecalc;
using namespace fusecalc::testing;

namespace {

// Set to run more and larger random graphs: FUSECALC_LONG_TESTS=3000 takes that many of each size.
constexpr const char* kLong = "FUSECALC_LONG_TESTS";
// The most ops of which all partitions are tried.
constexpr std::size_t kMostBruteOps = 12;

std::optional<OpGraph> random_graph(std::uint64_t seed, std::size_t ops) {
  try {
    return graph_of(random_op_list(seed, ops));
  } catch (const Error& error) {
    // An in-place op may have cut off a reader of the old value, products may have grown too large,
    // and nothing else may be wrong.
    const std::string fault = error.what();
    const bool expected = fault.find("overwrites") != std::string::npos ||
                          fault.find("is already overwritten") != std::string::npos ||
                          fault.find("more than 9223372036854775807") != std::string::npos;
    REQUIRE_MESSAGE(expected, fault);
    return std::nullopt;
  }
}

// Walks over all partitions into legal kernels, and finds one that can run and costs less.
class BruteForce {
 public:
  BruteForce(TrafficCounter& counter, const Rules& rules)
      : counter_(counter),
        rules_(rules),
        count_(counter.graph().ops.size()),
        orders_(orders_of(counter.graph())),
        known_(std::size_t{1} << count_, kUnknown) {}

  std::optional<PlanCost> cheaper_than(PlanCost limit) {
    best_ = limit;
    found_.clear();
    kernels_.clear();
    extend((std::uint64_t{1} << count_) - 1, {});
    return found_.empty() ? std::nullopt : std::optional(best_);
  }
  // What it found.
  const std::vector<Kernel>& kernels() const { return found_; }

 private:
  static constexpr std::uint64_t kUnknown = ~std::uint64_t{0};
  static constexpr std::uint64_t kIllegal = kUnknown - 1;

  void extend(std::uint64_t rest, PlanCost cost) {
    if (!(cost < best_)) return;
    if (rest == 0) {
      if (!can_run(orders_, kernels_)) return;
      best_ = cost;
      found_ = kernels_;
      return;
    }
    const std::uint64_t first = rest & (~rest + 1);
    const std::uint64_t others = rest & ~first;
    for (std::uint64_t with = others;; with = (with - 1) & others) {
      const std::uint64_t kernel = first | with;
      const std::uint64_t bytes = bytes_of(kernel);
      if (bytes != kIllegal) {
        kernels_.push_back(ops_of(kernel));
        extend(rest & ~kernel, {.bytes = cost.bytes + bytes, .kernels = cost.kernels + 1});
        kernels_.pop_back();
      }
      if (with == 0) break;
    }
  }

  std::uint64_t bytes_of(std::uint64_t mask) {
    std::uint64_t& bytes = known_[mask];
    if (bytes == kUnknown) {
      const Kernel kernel = ops_of(mask);
      const bool legal = check_kernel(counter_.phases(), kernel, rules_).legal();
      bytes = legal ? counter_.bytes(kernel).total() : kIllegal;
    }
    return bytes;
  }

  Kernel ops_of(std::uint64_t mask) const {
    Kernel kernel;
    for (OpId op = 0; op < count_; ++op) {
      if ((mask >> op & 1U) != 0) kernel.push_back(op);
    }
    return kernel;
  }

  TrafficCounter& counter_;
  const Rules& rules_;
  std::size_t count_;
  std::vector<std::pair<OpId, OpId>> orders_;
  std::vector<std::uint64_t> known_;
  std::vector<Kernel> kernels_;
  PlanCost best_;
  std::vector<Kernel> found_;
};

void check_sound(TrafficCounter& counter, const Rules& rules, const std::vector<Kernel>& kernels) {
  REQUIRE(is_partition(counter.graph(), kernels));
  REQUIRE(can_run(orders_of(counter.graph()), kernels));
  for (const Kernel& kernel : kernels) {
    const Verdict verdict = check_kernel(counter.phases(), kernel, rules);
    REQUIRE_MESSAGE(verdict.legal(), explain(counter.graph(), verdict));
  }
}

// Also where ops stand in several kernels: auto moves the fewest bytes of what can be launched.
void check_order_of_plans(const OpGraph& graph, const Device& device) {
  PlanMaker maker(graph, device);
  const auto bytes_of = [&](const FusionPlan& plan) {
    TrafficCounter counter(plan.graph_or(graph), device);
    return cost_of(counter, plan.kernels).bytes;
  };
  const FusionPlan& compiler = *maker.plan(PlanKind::kCompiler);
  CHECK(bytes_of(compiler) <= bytes_of(maker.compiler_partition()));
  TrafficCounter counter(compiler.graph_or(graph), device);
  const Rules rules = runner_rules(device);
  const bool launchable = std::ranges::all_of(compiler.kernels, [&](const Kernel& kernel) {
    return kernel.size() == 1 || check_kernel(counter.phases(), kernel, rules).legal();
  });
  if (launchable) CHECK(bytes_of(*maker.plan(PlanKind::kAuto)) <= bytes_of(compiler));
}

double predicted_time(TrafficCounter& counter, std::vector<Kernel> kernels) {
  REQUIRE(sort_canonically(counter.graph(), kernels));
  KernelModel model(counter);
  PlanModel plan(counter.graph(), counter.device(), kernels.size());
  for (const Kernel& kernel : kernels) {
    const CountedKernel& counted = model.count(kernel);
    plan.add(counted.traffic, counted.work);
  }
  return plan.time_us();
}

void check_against_brute_force(std::uint64_t seed, std::size_t ops) {
  CAPTURE(seed);
  CAPTURE(ops);
  const std::optional<OpGraph> graph = random_graph(seed, ops);
  if (!graph || graph->ops.size() > kMostBruteOps) return;
  const Device& device = known_devices().front();
  TrafficCounter counter(*graph, device);
  for (const PlanKind kind : {PlanKind::kCompiler, PlanKind::kAuto}) {
    const Rules rules = kind == PlanKind::kAuto ? runner_rules(device) : compiler_rules(device);
    const FusionPlan plan = make_plan(counter, kind);
    check_sound(counter, rules, plan.kernels);
    const PlanCost cost = cost_of(counter, plan.kernels);
    BruteForce all(counter, rules);
    const std::optional<PlanCost> cheaper = all.cheaper_than(cost);
    // Of plans with the fewest bytes auto is the faster one, even in more kernels.
    const bool faster =
        kind == PlanKind::kAuto && cheaper && cheaper->bytes == cost.bytes &&
        predicted_time(counter, plan.kernels) < predicted_time(counter, all.kernels());
    CHECK_MESSAGE((!cheaper || faster), name_of(kind)
                                            << " costs " << cost.bytes << " bytes in "
                                            << cost.kernels << " kernels, but " << cheaper->bytes
                                            << " in " << cheaper->kernels << " can be had:\n"
                                            << random_op_list(seed, ops));
  }
}

std::size_t long_tests() {
  const char* text = std::getenv(kLong);
  return text == nullptr ? 0 : static_cast<std::size_t>(std::atoi(text));
}

// How far plans are from the best one, over many graphs.
struct Distance {
  std::size_t graphs = 0;
  std::size_t off = 0;        // more bytes than the best
  std::size_t off_by_2 = 0;   // by more than 2 %
  std::size_t off_by_10 = 0;  // by more than 10 %
  double worst = 0;
  std::uint64_t worst_seed = 0;

  void add(std::uint64_t seed, std::uint64_t bytes, std::uint64_t best) {
    ++graphs;
    if (bytes <= best) return;
    const double more = static_cast<double>(bytes - best) / static_cast<double>(best);
    ++off;
    if (more > 0.02) ++off_by_2;
    if (more > 0.1) ++off_by_10;
    if (more > worst) {
      worst = more;
      worst_seed = seed;
    }
  }
};

std::string summary_of(std::string_view what, const Distance& distance) {
  return fmt::format(
      "{}: of {} graphs {} above the best, {} by more than 2 %, {} by more than 10 %; at most "
      "{:.1f} "
      "% (seed {})",
      what, distance.graphs, distance.off, distance.off_by_2, distance.off_by_10,
      100 * distance.worst, distance.worst_seed);
}

// Attention is never found pair by pair: each half is illegal alone. Large graphs begin with it,
// too.
PlanCost greedy_cost(TrafficCounter& counter, const Rules& rules) {
  const std::vector<Kernel> kernels =
      merge_greedily(counter, rules, seed_attention(counter, rules));
  check_sound(counter, rules, kernels);
  return cost_of(counter, kernels);
}

}  // namespace

TEST_CASE("no legal partition of a small graph is better than the plans") {
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    check_against_brute_force(seed, 3 + seed % 5);
  }
}

TEST_CASE("no legal partition of ten ops is better than the plans") {
  const std::size_t count = long_tests() > 0 ? long_tests() : 20;
  for (std::uint64_t seed = 0; seed < count; ++seed) {
    for (std::size_t ops = 8; ops <= 10; ++ops) check_against_brute_force(1'000'000 + seed, ops);
  }
}

TEST_CASE("an exhaustive search of 13 to 20 ops finds next to nothing better than the plans") {
  Distance distance;
  const std::size_t count = long_tests() > 0 ? long_tests() : 12;
  for (std::uint64_t seed = 6'000'000; distance.graphs < 2 * count; ++seed) {
    CAPTURE(seed);
    const std::optional<OpGraph> graph = random_graph(seed, 14 + seed % 9);
    if (!graph || graph->ops.size() < 13 || graph->ops.size() > kMostExhaustiveOps) continue;
    TrafficCounter counter(*graph, known_devices().front());
    for (const PlanKind kind : {PlanKind::kCompiler, PlanKind::kAuto}) {
      const Rules rules = row_of(kind).rules(counter.device());
      const std::uint64_t bytes = cost_of(counter, make_plan(counter, kind).kernels).bytes;
      distance.add(seed, bytes, fewest_bytes(counter, rules, bytes));
    }
  }
  const std::string summary = summary_of("plans", distance);
  if (long_tests() > 0) MESSAGE(summary);
  INFO(summary);
  CHECK(distance.off * 100 <= distance.graphs);
  CHECK(distance.off_by_2 == 0);
}

TEST_CASE("a greedy search is legal, saves, and ends near the best plan") {
  Distance distance;
  const std::size_t count = long_tests() > 0 ? long_tests() : 400;
  for (std::uint64_t seed = 0; seed < count; ++seed) {
    CAPTURE(seed);
    const std::optional<OpGraph> graph = random_graph(seed, 4 + seed % 7);
    if (!graph || graph->ops.size() > kMostBruteOps) continue;
    TrafficCounter counter(*graph, known_devices().front());
    const Rules rules = runner_rules(counter.device());
    const PlanCost greedy = greedy_cost(counter, rules);
    CHECK(greedy <= cost_of(counter, unfused_plan(*graph).kernels));
    const PlanCost best = cost_of(counter, make_plan(counter, PlanKind::kAuto).kernels);
    CHECK(best <= greedy);
    distance.add(seed, greedy.bytes, best.bytes);
  }
  const std::string summary = summary_of("greedy", distance);
  if (long_tests() > 0) MESSAGE(summary);
  INFO(summary);
  CHECK(distance.off_by_2 * 50 <= distance.graphs);
}

TEST_CASE("plans of graphs of any size are legal, ordered by cost, and the same in every run") {
  constexpr std::array<std::size_t, 7> kSizes = {14, 20, 35, 50, 120, 400, 2000};
  constexpr std::uint64_t kOps = testing::kSanitized ? 100 : 800;  // of each size
  for (const std::size_t ops : kSizes) {
    if (testing::kSanitized && ops > 400) continue;
    const std::uint64_t seeds = std::clamp<std::uint64_t>(kOps / ops, 1, 40);
    for (std::uint64_t seed = 0; seed < seeds; ++seed) {
      CAPTURE(ops);
      CAPTURE(seed);
      const std::optional<OpGraph> graph = random_graph(2'000'000 + seed, ops);
      if (!graph) continue;
      const Device& device = known_devices().front();
      TrafficCounter counter(*graph, device);
      const FusionPlan compiler = make_plan(counter, PlanKind::kCompiler);
      const FusionPlan best = make_plan(counter, PlanKind::kAuto);
      check_sound(counter, compiler_rules(device), compiler.kernels);
      check_sound(counter, runner_rules(device), best.kernels);
      const PlanCost apart = cost_of(counter, unfused_plan(*graph).kernels);
      CHECK(cost_of(counter, compiler.kernels) <= apart);
      // A compiler may merge what our runner cannot launch, such as an op that nothing uses.
      const bool launchable = std::ranges::all_of(compiler.kernels, [&](const Kernel& kernel) {
        return kernel.size() == 1 ||
               check_kernel(counter.phases(), kernel, runner_rules(device)).legal();
      });
      if (launchable) {
        CHECK(cost_of(counter, best.kernels) <= cost_of(counter, compiler.kernels));
      }
      CHECK(count_limit(*graph, device).bytes.total() <= cost_of(counter, best.kernels).bytes);
      check_order_of_plans(*graph, device);
      TrafficCounter again(*graph, device);
      CHECK(make_plan(again, PlanKind::kCompiler).kernels == compiler.kernels);
      CHECK(make_plan(again, PlanKind::kAuto).kernels == best.kernels);
    }
  }
}
