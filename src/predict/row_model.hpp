#pragma once

#include "device/device.hpp"
#include "plan/phases.hpp"
#include "predict/kernel_work.hpp"

namespace fusecalc {

// What kernels over rows take beside their traffic.

// A kernel with reductions; `space`: elements that it loops over.
void add_row_latency(const OpGraph& graph, const Kernel& kernel, const Phases& phases, double space,
                     const Device& device, KernelWork& work);

// The gradients of a layer_norm or an rms_norm as one op.
void add_norm_backward(const OpGraph& graph, const Op& op, const Device& device, KernelWork& work);

// Rows that clusters of blocks hold together (`fit`: they may be held): the time in which those
// that run at once move nothing.
double cluster_waves_us(const Phases& phases, bool fit, const Device& device);

}  // namespace fusecalc
