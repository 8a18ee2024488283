#pragma once

#include "graph/op_graph.hpp"
#include "plan/kernel.hpp"
#include "predict/kernel_work.hpp"

namespace fusecalc {

// A kernel of ours around a convolution; `epilogue`: instructions for an element of the result.
KernelWork convolution_work(const OpGraph& graph, const Kernel& kernel, const Op& op,
                            const KernelTraffic& traffic, double epilogue, const Device& device);

}  // namespace fusecalc
