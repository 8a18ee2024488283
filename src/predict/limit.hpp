#pragma once

#include "predict/kernel_work.hpp"

namespace fusecalc {

// The least that any kernels could take: the limit's bytes, of rows that indices name each once,
// and products at the full rate of tensor cores.
Prediction predict_limit(const OpGraph& graph, const KernelTraffic& traffic, const Device& device);

}  // namespace fusecalc
