#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/op_graph.hpp"

namespace fusecalc {

// CUDA C++ text that becomes one module. Its entries are extern "C" and come back in order.
struct KernelSource {
  std::string text;
  std::vector<std::string> entries;
  std::vector<std::string> options{};  // for NVRTC, beyond the architecture
};

// A kernel as text, and how it is launched.
struct GeneratedKernel {
  KernelSource source;
  // The memory that it takes a pointer to, in order: that of these tensors (OpGraph::storage_of).
  std::vector<TensorId> storages;
  // One pointer more where it is not 0: memory that blocks share, all zero before the first launch.
  std::uint64_t workspace_bytes = 0;
  std::uint64_t blocks = 1;
  unsigned threads = 0;
  std::uint32_t shared_bytes = 0;  // dynamic
  bool cooperative = false;        // blocks wait for each other
  bool looks_again = false;        // reads its rows from memory more than once
  std::string schedule;            // for people: how the work is spread
};

}  // namespace fusecalc
