#pragma once

#include <vector>

#include "predict/kernel_model.hpp"

namespace fusecalc {

// A kernel of a plan, and what it has to do when it runs alone.
struct PlannedWork {
  const KernelTraffic* traffic = nullptr;
  KernelWork alone;
};

// Predicts a plan whose kernels run back to back, from a cold L2: what one kernel leaves in the L2
// serves the next ones.
Prediction predict_plan(const OpGraph& graph, const Device& device,
                        const std::vector<PlannedWork>& kernels);

}  // namespace fusecalc
