#pragma once

#include <vector>

#include "measure/module.hpp"

namespace fusecalc::gpu {

// Everything that measuring needs of this machine, in the order of use; what builds on something
// that failed is skipped. Throws nothing that a check can tell.
std::vector<Check> examine(const GpuOptions& options);

}  // namespace fusecalc::gpu
