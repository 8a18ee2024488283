#pragma once

#include <vector>

#include "graph/op_graph.hpp"
#include "plan/kernel.hpp"
#include "predict/kernel_work.hpp"

namespace fusecalc {

// A kernel of ours around attention: one op, or two products with what lies between them.
// `beside`: instructions for an element of all other ops.
KernelWork attention_work(const OpGraph& graph, const Kernel& kernel,
                          const std::vector<OpId>& products, const KernelTraffic& traffic,
                          double beside, const Device& device);

}  // namespace fusecalc
