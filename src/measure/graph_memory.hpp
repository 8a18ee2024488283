#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "backend/device_buffer.hpp"
#include "measure/inputs.hpp"

namespace fusecalc {

// The device memory that is free, but for what the driver may allocate.
std::uint64_t usable_bytes(GpuBackend& gpu);

// The tensors of a graph in device memory, one buffer per OpGraph::storage_of, and their contents.
class GraphMemory {
 public:
  GraphMemory(GpuBackend& gpu, const OpGraph& graph, std::uint64_t seed)
      : gpu_(gpu), graph_(graph), inputs_(random_inputs(graph, seed)), seed_(seed) {}

  const std::vector<GraphInput>& inputs() const { return inputs_; }
  std::uint64_t seed() const { return seed_; }

  // Throws Error if the device has no room for these storages and `besides` more bytes.
  void allocate(const std::set<TensorId>& storages, std::uint64_t besides);
  BufferAt at(TensorId tensor) const { return storages_.at(graph_.storage_of(tensor)).at(0); }

  // Puts an input in its place; not one that no kernel reads, which has none.
  void place(const GraphInput& input);
  // Fills the inputs, and poisons the tensors that kernels write.
  void fill_inputs();
  // Fills all tensors, for kernels whose inputs were not computed.
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
