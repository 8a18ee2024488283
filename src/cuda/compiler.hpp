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

// What NVRTC makes of a source: an image for the driver to load, and ptxas's report.
struct CompiledImage {
  std::string image;
  std::string log;
  double seconds = 0;  // that compiling it took, also where that was long ago
  bool cached = false;
};

// "13.0", of the NVRTC in use.
std::string compiler_version();

// The --gpu-architecture for a device of this compute capability (90 for 9.0): its own machine code
// where NVRTC knows it, or the newest PTX below it, which the driver then translates.
std::string architecture_for(int capability);

// Throws Error with NVRTC's log where the source does not compile.
CompiledImage compile_image(const KernelSource& source, const std::string& architecture,
                            const KernelCache& cache);

// The same for several sources, a thread for each processor that it may use, 16 at most. Calls
// `tell` over and over with how many are done; when it throws, those that are being compiled are
// finished and no others begun.
std::vector<CompiledImage> compile_images(std::span<const KernelSource> sources,
                                          const std::string& architecture, const KernelCache& cache,
                                          const std::function<void(std::size_t)>& tell);

// What ptxas reports of an entry, per thread but for the last.
struct EntryReport {
  unsigned registers = 0;
  std::uint64_t spill_bytes = 0;   // stored and loaded
  std::uint64_t stack_bytes = 0;   // local memory, spills included
  std::uint64_t shared_bytes = 0;  // static, per block
};

// Nothing where the log does not say: the driver, not NVRTC, makes machine code of PTX.
std::optional<EntryReport> report_of(const std::string& log, const std::string& entry);

}  // namespace fusecalc::cuda
