#pragma once

#include <string>
#include <vector>

#include "graph/size_chain.hpp"
#include "measure/plan_runner.hpp"

namespace fusecalc {

// kernels/stream.cuh, and what launches take it for.
KernelSource stream_source();

// Measures a list of sizes with kernels that move exactly those bytes: one per operation, against
// one that reads the first input and writes the last output. `document` starts messages about the
// list, such as that it does not fit into the device's memory.
Measurement measure_chain(GpuBackend& gpu, const SizeChain& chain,
                          const std::vector<SizedOperation>& operations,
                          const MeasureOptions& options, const Progress& progress,
                          const std::string& document);

}  // namespace fusecalc
