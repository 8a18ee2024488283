#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.hpp"
#include "backend/kernel_cache.hpp"

namespace fusecalc::cuda {

// NVRTC's output for a source: an image for the driver to load, and ptxas's report.
struct CompiledImage {
  std::string image;
  std::string log;
  double seconds = 0;  // of compiling it, also if it came from the cache
  bool cached = false;
};

// "13.0", of the NVRTC in use.
std::string compiler_version();

// The --gpu-architecture for a device of this compute capability: its own machine code
// where NVRTC knows it, or the newest PTX below it, which the driver then translates.
std::string architecture_for(ComputeCapability capability);

// Throws Error with NVRTC's log if the source does not compile.
CompiledImage compile_image(const KernelSource& source, const std::string& architecture,
                            const KernelCache& cache);

// The same for several sources, with one thread per available processor, at most 16. Calls `tell`
// repeatedly with the number done; if it throws, sources being compiled are finished and no others
// are started.
std::vector<CompiledImage> compile_images(std::span<const KernelSource> sources,
                                          const std::string& architecture, const KernelCache& cache,
                                          const std::function<void(std::size_t)>& tell);

// The resources of an entry that ptxas reports, per thread except for the last.
struct EntryReport {
  unsigned registers = 0;
  std::uint64_t spill_bytes = 0;   // stored and loaded
  std::uint64_t stack_bytes = 0;   // local memory, spills included
  std::uint64_t shared_bytes = 0;  // static, per block
};

// Empty if the log does not say: PTX is compiled to machine code by the driver, not by NVRTC.
std::optional<EntryReport> report_of(const std::string& log, const std::string& entry);

}  // namespace fusecalc::cuda
