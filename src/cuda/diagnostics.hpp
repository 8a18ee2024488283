#pragma once

#include <vector>

#include "backend/module.hpp"

namespace fusecalc::cuda {

// Everything that measuring needs of this machine, in the order of use; what builds on something
// that failed is skipped. Throws nothing that a check can tell.
std::vector<Check> diagnose(const GpuOptions& options);

}  // namespace fusecalc::cuda
