#pragma once

#include <cstdint>

#include "device/device.hpp"
#include "graph/op_graph.hpp"
#include "plan/phases.hpp"
#include "traffic/kernel_traffic.hpp"

namespace fusecalc {

// What the L2 fetches from the DRAM: whole pieces of so many bytes, by CUDA's default
// (cudaLimitMaxL2FetchGranularity).
constexpr std::uint64_t piece_bytes(const Device& device) {
  return device.capability >= kFirstWithCopies ? 64 : 32;
}

// Bytes of the pieces that have a part of a tensor: the part's runs, and what lies beside them.
double fetched_bytes(const StridedMap& part, std::uint64_t element_bytes, std::uint64_t piece);

// Bytes of the pieces that have a run of so many, which begins at any multiple of its length.
double fetched_bytes_of_run(std::uint64_t bytes, std::uint64_t piece);

// Bytes that arrive beside those that count, where a kernel reads a part of this value.
double bytes_beside(const OpGraph& graph, const Kernel& kernel, const KernelTraffic::Entry& read,
                    const Device& device);

}  // namespace fusecalc
