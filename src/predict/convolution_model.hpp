#pragma once

#include "graph/op_graph.hpp"
#include "predict/kernel_work.hpp"

namespace fusecalc {

// A kernel of ours around a convolution; `epilogue`: instructions for an element of the result.
KernelWork convolution_work(const OpGraph& graph, const Op& op, const KernelTraffic& traffic,
                            double epilogue, const Device& device);

}  // namespace fusecalc
