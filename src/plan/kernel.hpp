#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "graph/op_graph.hpp"
#include "graph/recompute.hpp"

namespace fusecalc {

// Ops that run as one, in ascending order.
using Kernel = std::vector<OpId>;

// A kernel's place in its plan.
using KernelId = std::uint32_t;

// The kernel of every op; kNone for ops in none.
std::vector<KernelId> owners_of(const OpGraph& graph, const std::vector<Kernel>& kernels);

// A partition of a graph's ops into kernels, in an order in which they can run.
struct FusionPlan {
  std::vector<Kernel> kernels;
  // Where ops stand in several kernels: the graph with their copies, of which the kernels are.
  std::shared_ptr<const Recomputation> recomputation = nullptr;

  const OpGraph& graph_or(const OpGraph& document) const {
    return recomputation ? recomputation->graph : document;
  }
};

// A partition of one kernel's ops into several kernels, and the bytes that these move.
struct Split {
  std::vector<Kernel> kernels;
  std::uint64_t bytes = 0;
};

// One kernel per op.
FusionPlan unfused_plan(const OpGraph& graph);

// Puts the kernels into an order in which they can run, the earliest first. Where there is none,
// returns false and leaves in `kernels` those that form a cycle, in its order.
[[nodiscard]] bool sort_kernels(const OpGraph& graph, std::vector<Kernel>& kernels);

enum class RunOrder : std::uint8_t { kEarly, kLate };

// The same, but the order depends on the ranks of ops and not on how the document orders them: each
// kernel as early as its first op allows, or as late as its last one does.
[[nodiscard]] bool sort_canonically(const OpGraph& graph, std::vector<Kernel>& kernels,
                                    RunOrder order = RunOrder::kEarly);

}  // namespace fusecalc
