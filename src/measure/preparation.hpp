#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "measure/graph_memory.hpp"
#include "measure/plan_runner.hpp"

namespace fusecalc {

// Makes what is launched out of what was generated: has the library prepare its products, compiles
// the sources, and fills in the arguments.
class Preparation {
 public:
  Preparation(GpuBackend& gpu, const GraphMemory& memory) : gpu_(gpu), memory_(memory) {}

  // To be launched as `kernel`, which must stay where it is. A product that stands alone is the
  // library's, as in any framework, and ours only where the library does not take it.
  void add(const GeneratedKernel& code, PreparedKernel& kernel);
  // Finishes what was added. Where there are several ways to run a kernel, all are ready.
  void finish(const Progress& progress);

 private:
  struct Added {
    const GeneratedKernel* code = nullptr;
    PreparedKernel* kernel = nullptr;
    BufferAt workspace{};
    std::optional<PreparedMatmul> product{};
    std::string no_product{};  // why the library has none

    bool lone() const { return kernel->operations == 1; }
    // Whether code of ours runs, or may run.
    bool ours() const { return !product || !lone() || code->packing; }
  };

  void ask_library(Added& added);
  void compile(const Progress& progress);
  std::vector<Variant> variants_of(const Added& added);
  Variant library_variant(const Added& added);
  Variant generated_variant(const GeneratedKernel& code, const Added& added);
  Launch entry_of(const GeneratedKernel& code, std::size_t entry, const FollowingEntry& extent,
                  const BufferAt& workspace);
  Launch first_entry(const GeneratedKernel& code, const BufferAt& workspace);
  void add_packing(Variant& way, const Added& added);

  GpuBackend& gpu_;
  const GraphMemory& memory_;
  std::vector<Added> added_;
  std::vector<DeviceBuffer> workspaces_;
  std::map<std::string, std::vector<CompiledKernel>> compiled_;  // by source
};

}  // namespace fusecalc
