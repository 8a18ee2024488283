#pragma once

#include "codegen/generated.hpp"
#include "device/device.hpp"
#include "traffic/counter.hpp"

namespace fusecalc {

// The code of one kernel. Throws Error (unavailable) for kernels that check_launch() refuses, with
// its reason.
GeneratedKernel generate(TrafficCounter& counter, const Kernel& kernel, const Device& device);

}  // namespace fusecalc
