#pragma once

#include "codegen/generated.hpp"
#include "device/device.hpp"
#include "traffic/kernel_traffic.hpp"

namespace fusecalc {

// The code of one kernel. Throws Error (unavailable) if code cannot be generated for one of its
// ops.
GeneratedKernel generate(TrafficCounter& counter, const Kernel& kernel, const Device& device);

}  // namespace fusecalc
