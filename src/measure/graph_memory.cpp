#include "measure/graph_memory.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.hpp"
#include "core/format.hpp"
#include "measure/verify.hpp"

namespace fusecalc {

std::uint64_t usable_bytes(GpuBackend& gpu) {
  constexpr std::uint64_t kReserve = std::uint64_t{256} << 20U;
  const std::uint64_t free = gpu.free_bytes();
  return free - std::min(free, kReserve);
}

void GraphMemory::allocate(const std::set<TensorId>& storages, std::uint64_t besides) {
  std::uint64_t bytes = besides;
  for (const TensorId id : storages) bytes += graph_.tensors[id].bytes;
  if (bytes > usable_bytes(gpu_)) {
    throw Error(
        Fault::kBadInput,
        fmt::format("{}: its tensors need {} of device memory, and {} has {} free of {}; make it "
                    "smaller with --dim",
                    graph_.document, human_bytes(bytes), gpu_.device().name,
                    human_bytes(gpu_.free_bytes()), human_bytes(gpu_.device().memory_bytes)));
  }
  for (const TensorId id : storages) storages_.try_emplace(id, gpu_, graph_.tensors[id].bytes);
}

void GraphMemory::fill_inputs() {
  for (const auto& [id, buffer] : storages_) gpu_.poison(buffer);
  place_inputs();
}

void GraphMemory::fill_all() {
  for (const auto& [id, buffer] : storages_) {
    const DType dtype = graph_.tensors[id].type.dtype;
    gpu_.fill(buffer, {.dtype = dtype, .low = 0, .high = 1, .seed = seed_ + id});
  }
  place_inputs();
}

void GraphMemory::place(const GraphInput& input) {
  const auto found = storages_.find(graph_.storage_of(input.tensor));
  if (found != storages_.end()) place_input(gpu_, input, found->second.at(0));
}

void GraphMemory::place_inputs() {
  for (const GraphInput& input : inputs_) place(input);
  gpu_.finish();
}

}  // namespace fusecalc
