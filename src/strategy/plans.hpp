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

// One of the plans that are partitions (all but kLimit; kExplicit only where the graph has one).
// Throws Error where the document's own groups wait for each other.
FusionPlan make_plan(TrafficCounter& counter, PlanKind kind);

// How else the ops of one kernel could run.
struct Split {
  std::vector<Kernel> kernels;
  std::uint64_t bytes = 0;
};

// The best legal partition of a kernel's ops, where it moves fewer bytes than the kernel or the
// kernel itself cannot be launched.
std::optional<Split> better_split(TrafficCounter& counter, const Kernel& kernel);

}  // namespace fusecalc
