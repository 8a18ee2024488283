#pragma once

#include <string_view>

#include "codegen/generate.hpp"
#include "support/devices.hpp"
#include "traffic/counter.hpp"

namespace fusecalc::testing {

// The code of a kernel for the default device, as if it had this compute capability.
inline GeneratedKernel generated(const OpGraph& graph, const Kernel& kernel,
                                 ComputeCapability capability = kHopper) {
  TrafficCounter counter(graph, known_devices().front());
  return generate(counter, kernel, device_of(capability));
}

inline Kernel all_ops(const OpGraph& graph) {
  Kernel all;
  for (OpId id = 0; id < graph.ops.size(); ++id) all.push_back(id);
  return all;
}

// All ops as one kernel.
inline GeneratedKernel generated(const OpGraph& graph) { return generated(graph, all_ops(graph)); }

inline bool contains(const GeneratedKernel& kernel, std::string_view text) {
  return kernel.source.text.find(text) != std::string_view::npos;
}

}  // namespace fusecalc::testing
