#pragma once

#include <vector>

#include "backend/module.hpp"

namespace fusecalc::cuda {

// Checks everything that measuring needs of this machine, in order of use; checks that depend on a
// failed one are skipped. Errors of a check become its finding.
std::vector<Check> diagnose(const GpuOptions& options);

}  // namespace fusecalc::cuda
