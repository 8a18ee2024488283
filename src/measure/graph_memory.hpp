#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "backend/device_buffer.hpp"
#include "measure/inputs.hpp"

namespace fusecalc {

// A graph's tensors on a device, each where OpGraph::storage_of puts it, and what is in them.
class GraphMemory {
 public:
  GraphMemory(GpuBackend& gpu, const OpGraph& graph, std::uint64_t seed)
      : gpu_(gpu), graph_(graph), inputs_(random_inputs(graph, seed)), seed_(seed) {}

  const std::vector<GraphInput>& inputs() const { return inputs_; }
  std::uint64_t seed() const { return seed_; }

  // Throws Error where the device has no room for these storages and for as many bytes `besides`.
  void allocate(const std::set<TensorId>& storages, std::uint64_t besides);
  BufferAt at(TensorId tensor) const { return storages_.at(graph_.storage_of(tensor)).at(0); }

  // Fresh inputs; what kernels write holds nothing that they could have written.
  void fill_inputs();
  // Something for every kernel to work on, where some of what they need was never made.
  void fill_all();

 private:
  void place_inputs();

  GpuBackend& gpu_;
  const OpGraph& graph_;
  std::vector<GraphInput> inputs_;
  std::uint64_t seed_;
  std::map<TensorId, DeviceBuffer> storages_;
};

}  // namespace fusecalc
