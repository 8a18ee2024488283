#include "plan/scans.hpp"

namespace fusecalc {

Verdict check_scan(const ResolvedKernel& resolved, const Kernel& kernel, OpId scan) {
  const Outline& outline = resolved.graph().outline;
  const std::uint64_t space = outline[scan].work;
  for (std::size_t i = 0; i < kernel.size(); ++i) {
    const Outline::OpFacts& facts = outline[kernel[i]];
    if (kernel[i] != scan) {
      const bool in_step = facts.op_class == OpClass::kPointwise && facts.access == Access::kSame;
      if (!in_step) return {Obstacle::kBesideScan, scan, kernel[i]};
      if (facts.work != space) return {Obstacle::kSpaces, scan, kernel[i]};
    }
    for (const ResolvedKernel::Edge& edge : resolved.edges_of(i)) {
      const bool same = edge.input->view == Access::kSame && edge.input->elements == space;
      if (edge.inside() && !same) {
        return {Obstacle::kScanOrder, edge.input->producer, kernel[i], scan};
      }
    }
  }
  return {};
}

}  // namespace fusecalc
