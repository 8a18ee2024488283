#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "plan/legality.hpp"
#include "predict/kernel_model.hpp"
#include "traffic/counter.hpp"

namespace fusecalc {

class CheckedKernels;

// What a search minimises: bytes first, then kernels.
struct PlanCost {
  std::uint64_t bytes = 0;
  std::uint64_t kernels = 0;

  auto operator<=>(const PlanCost&) const = default;
};

// For graphs of any size, starting from `kernels` (a legal partition of the graph, or of some ops
// with no path between them through other ops, in canonical order): merges the pair of kernels that
// saves most until none is left, then moves cuts between kernels while that saves bytes.
// Near-linear in the number of ops.
std::vector<Kernel> merge_greedily(TrafficCounter& counter, const Rules& rules,
                                   std::vector<Kernel> kernels);

// Another partition of the same ops.
struct Replanned {
  std::vector<Kernel> kernels;  // empty where none is better, or was found
  bool is_best = false;         // there is no better one
};

// The legal partition of the ops of `kernels` with the fewest bytes, then the fewest kernels. There
// are at most kMostRegionOps ops, with no path from one to another through other ops. Gives up
// after `work` steps, of which it takes away those that it needed.
Replanned replan_exactly(CheckedKernels& checked, const std::vector<Kernel>& kernels,
                         std::size_t& work);

// What a search by predicted time minimises.
enum class Aim : std::uint8_t {
  kFewestBytes,  // and of plans with equally many the least time
  kLeastTime,
};

// The partition that the aim is, from a cold L2. Where two are equally good, `kernels` stays.
Replanned replan_by_time(CheckedKernels& checked, KernelModel& model, Aim aim,
                         const std::vector<Kernel>& kernels, std::size_t& work);

// Replans stretches of kernels that can run one after the other, exactly and until that saves no
// more; a graph of a few dozen ops is one stretch. The work is bounded.
std::vector<Kernel> replan(TrafficCounter& counter, const Rules& rules,
                           std::vector<Kernel> kernels);
// The same by predicted time, in a graph that is one stretch.
std::vector<Kernel> replan_by_time(TrafficCounter& counter, KernelModel& model, const Rules& rules,
                                   Aim aim, std::vector<Kernel> kernels);

// One kernel per op, except for attention patterns, which pairwise merging would not find, as
// scores and softmax alone need not be legal. In canonical order.
std::vector<Kernel> seed_attention(TrafficCounter& counter, const Rules& rules);

// Kernels that can run one after the other, in an order that does not depend on how the document
// orders independent ops.
std::vector<Kernel> canonical(const OpGraph& graph, std::vector<Kernel> kernels);

// Bytes and kernels of a partition.
PlanCost cost_of(TrafficCounter& counter, const std::vector<Kernel>& kernels);

// The time of kernels that run back to back, in canonical order and from a cold L2; some time of at
// least `limit` where it is no less.
double predicted_time(const TrafficCounter& counter, KernelModel& model,
                      std::vector<Kernel> kernels,
                      double limit = std::numeric_limits<double>::infinity());

}  // namespace fusecalc
