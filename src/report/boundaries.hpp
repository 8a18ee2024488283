#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/paths.hpp"
#include "report/analysis.hpp"

namespace fusecalc {

// Two kernels of a plan that share a tensor, and why they are two.
struct Boundary {
  KernelId with = 0;  // the other kernel's place in the plan
  TensorId tensor = kNone;
  Verdict verdict;               // what stands in the way
  std::int64_t bytes_saved = 0;  // by fusing them all the same, where nothing does
};

// Finds the boundaries of one plan, kernel by kernel: towards the readers of what a kernel writes,
// and towards the next reader of what it reads.
class BoundaryFinder {
 public:
  BoundaryFinder(const GraphAnalysis& analysis, const PlanReport& plan);

  // Valid until the next call.
  const std::vector<Boundary>& of(KernelId kernel);

 private:
  const std::vector<KernelId>& readers_of(TensorId value);
  OpId first_reader(KernelId kernel, TensorId value) const;
  KernelId next_reader(KernelId kernel, TensorId value) const;
  void add(KernelId a, KernelId b, TensorId tensor);
  Boundary judge(KernelId a, KernelId b);

  const OpGraph& graph_;
  const PlanReport& plan_;
  TrafficCounter counter_;
  Rules rules_;
  std::vector<Kernel> kernels_;
  std::vector<KernelId> owner_;
  std::optional<PathFinder> paths_;
  std::vector<Boundary> found_;
  std::vector<KernelId> readers_;
  Kernel both_;
};

// The reason of a boundary in words.
std::string reason_of(const GraphAnalysis& analysis, const Boundary& boundary);
// The same with the kinds of the two ops that it stands between: "linear -> linear: ...".
std::string boundary_in_words(const GraphAnalysis& analysis, const Boundary& boundary);

}  // namespace fusecalc
