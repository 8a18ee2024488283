#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plan/legality.hpp"
#include "traffic/kernel_traffic.hpp"

namespace fusecalc {

// The order is that of the output.
enum class PlanKind : std::uint8_t { kUnfused, kCompiler, kAuto, kExplicit, kLimit };

std::string_view name_of(PlanKind kind);
std::span<const std::string_view> plan_names();
PlanKind plan_named(std::string_view name);

// What our own runner, and what a general graph compiler, may put into one kernel.
Rules runner_rules(const Device& device);
Rules compiler_rules(const Device& device);

// What a general graph compiler would make of the graph.
FusionPlan compiler_plan(TrafficCounter& counter);
// The fewest bytes that our own runner can launch; never worse than the compiler's plan.
FusionPlan auto_plan(TrafficCounter& counter, const FusionPlan& compiler);
// The document's own groups, the other ops alone. The graph must have some. Throws Error where they
// wait for each other.
FusionPlan explicit_plan(const OpGraph& graph);

// How else the ops of one kernel could run.
struct Split {
  std::vector<Kernel> kernels;
  std::uint64_t bytes = 0;
};

// The best legal partition of a kernel's ops, where it moves fewer bytes than the kernel or the
// kernel itself cannot be launched.
std::optional<Split> better_split(TrafficCounter& counter, const Kernel& kernel);

}  // namespace fusecalc
