#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "measure/graph_memory.hpp"
#include "measure/plan_runner.hpp"

namespace fusecalc {

// Turns generated kernels into launches: has the library prepare its products, compiles the
// sources, and fills in the arguments.
class Preparation {
 public:
  Preparation(GpuBackend& gpu, const GraphMemory& memory) : gpu_(gpu), memory_(memory) {}

  // Prepares the launch of `kernel`, whose address must stay valid. An unfused product runs in the
  // library, as in any framework, by the fastest of a few algorithms, and in a generated kernel
  // only if the library does not support it, or if that is faster where the library is slow.
  void add(const GeneratedKernel& code, PreparedKernel& kernel);
  // Finishes all kernels added, including all variants of each.
  void finish(const Progress& progress);

 private:
  struct Added {
    const GeneratedKernel* code = nullptr;
    PreparedKernel* kernel = nullptr;
    BufferAt workspace{};
    std::vector<PreparedMatmul> products{};  // by the library, with each algorithm that it proposes
    std::string no_product{};                // why the library does not run it

    bool lone() const { return kernel->operations == 1; }
    // Whether tiles take the operands only after a copy, which the library does without.
    bool pads() const { return code->packing && code->library && code->library->a != kNone; }
    // Whether generated code runs, or may run: instead of a product of the library alone where that
    // is slow.
    bool ours() const {
      return products.empty() || !lone() || pads() || code->library->matmul.may_be_slow();
    }
  };

  MatmulOperands operands_of(const LibraryProduct& product, const Added& added) const;
  void prepare_library(Added& added);
  void compile(const Progress& progress);
  std::vector<Variant> variants_of(const Added& added);
  Variant library_variant(const PreparedMatmul& product, const Added& added);
  Variant generated_variant(const GeneratedKernel& code, const Added& added);
  Launch entry_of(const GeneratedKernel& code, std::size_t entry, const FollowingEntry& extent,
                  const BufferAt& workspace);
  Launch first_entry(const GeneratedKernel& code, const BufferAt& workspace);
  void add_packing(Variant& variant, const Added& added);

  GpuBackend& gpu_;
  const GraphMemory& memory_;
  std::vector<Added> added_;
  std::vector<DeviceBuffer> workspaces_;
  std::map<std::string, std::vector<CompiledKernel>> compiled_;  // by source
};

}  // namespace fusecalc
