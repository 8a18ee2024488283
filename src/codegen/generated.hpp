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
  // Uses what only the device's own architecture has (wgmma), not its successors: sm_90a.
  bool architecture_bound = false;
};

// Why a kernel may move other bytes than were counted for it, where its code tells; empty parts say
// that it should not.
struct KnownGaps {
  std::string more_reads{};
  std::string fewer_reads{};
  std::string more_writes{};
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
  KnownGaps gaps;
  std::string schedule;  // for people: how the work is spread
};

}  // namespace fusecalc
