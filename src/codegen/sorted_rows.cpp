// Kernels of a sort, or of the first places of one.
//
// Traffic: each element is read once, and results are written once. What is stored of an element is
// read again by its place, from the L1 or the L2. Where several blocks share a row, what they have
// sorted lies in the workspace until an entry that follows has merged it.

#include <fmt/format.h>

#include <array>
#include <string>

#include "codegen/kernel_facts.hpp"
#include "codegen/schedule.hpp"
#include "core/ceil_div.hpp"
#include "core/embedded.hpp"
#include "plan/ordered_rows.hpp"

namespace fusecalc {
namespace {

class Sort {
 public:
  Sort(const KernelView& kernel, const Device& device)
      : kernel_(kernel),
        op_(kernel.op(kernel.ops().front())),
        rows_(ordered_rows(kernel.graph(), op_)),
        tiling_(sort_tiling(kernel.graph(), op_, device)),
        code_(kernel) {}

  GeneratedKernel write() {
    for (const TensorId output : op_.outputs) {
      if (kernel_.needed_outside(output)) code_.parameters().output(output);
    }
    const std::string in = in_struct();
    GeneratedKernel result;
    std::string& text = result.source.text;
    text = preamble(kernel_.graph(), rows_.count * rows_.length);
    text += embedded_kernel("sorted_rows");
    text += in;
    text += fmt::format("using Item = {};\nusing Rows = SortedRows<{}, {}, {}, {}>;\n\n",
                        tiling_.wide ? "WideItem" : "NarrowItem", rows_.count, rows_.length,
                        rows_.apart, tiling_.kept);
    write_sort(result);
    write_merges(result);
    if (rows_.apart > 1) {
      result.gaps.more_reads = result.gaps.more_writes =
          "rows run across memory: blocks that share its sectors need not run at the same time";
    }
    result.storages = code_.parameters().storages();
    return result;
  }

 private:
  std::string in_struct() {
    const TensorId operand = op_.operands[0].tensor;
    const ComputeType type = compute_type(kernel_.tensor(operand).type.dtype);
    const std::string at = element_function(code_, "at(idx i)", operand, "i", type);
    const bool picks = op_.attributes->k.has_value();
    const bool descending = picks ? op_.attributes->largest : op_.attributes->descending;
    std::string stored;
    for (std::size_t k = 0; k < op_.outputs.size(); ++k) {
      const TensorId output = op_.outputs[k];
      if (!kernel_.needed_outside(output)) continue;
      stored += fmt::format("    put({}, to, ({})({}));\n", code_.parameters().output(output),
                            name_of(compute_type(kernel_.tensor(output).type.dtype)),
                            k == 0 ? "at(from)" : "place");
    }
    return fmt::format(
        "\nstruct In {{\n{0}{1}"
        "  __device__ __forceinline__ auto key(idx i) const {{ return {2}key_of(at(i)); }}\n"
        "  __device__ __forceinline__ void take(idx from, u64 to, u64 place) const {{\n{3}  }}\n"
        "}};\n",
        code_.parameters().members(), at, descending ? "~" : "", stored);
  }

  void write_sort(GeneratedKernel& result) const {
    const std::uint64_t together = tiling_.together();
    const std::uint64_t threads = together * tiling_.threads();
    const bool merges = tiling_.runs.size() > 1;
    const std::string sorts =
        fmt::format("Network<Item, {}, {}, {}>", tiling_.items, tiling_.threads(), threads);
    result.shared_bytes = static_cast<std::uint32_t>(tiling_.shared_bytes());
    result.source.text += static_asserts(
        {{fmt::format("sizeof(Item) * {}::kSlots", sorts), result.shared_bytes / together}});
    result.source.text += fmt::format(
        "extern \"C\" __global__ void __launch_bounds__({0}) fused({1}{2}) {{\n"
        "  extern __shared__ __align__(16) u8 memory[];\n"
        "  const In in{{{3}}};\n"
        "  Rows::sort<Item, {4}, {5}, {6}, {7}>(in, reinterpret_cast<Item*>(memory), {8});\n}}\n",
        threads, code_.parameters().declarations(), merges ? ", u8* work" : "",
        code_.parameters().arguments(), tiling_.items, tiling_.threads(), together,
        tiling_.runs.front().kept, merges ? "reinterpret_cast<Item*>(work)" : "nullptr");
    result.source.entries = {"fused"};
    result.threads = static_cast<unsigned>(threads);
    result.blocks = ceil_div(rows_.count * tiling_.runs.front().runs, together);
    result.schedule =
        merges ? fmt::format("{} stretches of a row, each sorted by {} threads, then merged",
                             tiling_.runs.front().runs, tiling_.threads())
               : fmt::format("a row sorted by {} threads, {} rows per block", tiling_.threads(),
                             together);
  }

  void write_merges(GeneratedKernel& result) const {
    const std::array<std::uint64_t, 2> bytes = tiling_.buffers(rows_.count);
    result.workspace_bytes = bytes[0] + bytes[1];
    for (std::size_t i = 0; i + 1 < tiling_.runs.size(); ++i) {
      const SortedRuns& from = tiling_.runs[i];
      const SortedRuns& to = tiling_.runs[i + 1];
      const std::string name = fmt::format("merge{}", i);
      result.source.text += fmt::format(
          "extern \"C\" __global__ void __launch_bounds__({}) {}({}, u8* work) {{\n"
          "  const In in{{{}}};\n"
          "  Rows::merge<Item, {}, {}, {}, {}, {}>(in, reinterpret_cast<const Item*>(work + {}),\n"
          "                                    reinterpret_cast<Item*>(work + {}));\n}}\n",
          kLoopThreads, name, code_.parameters().declarations(), code_.parameters().arguments(),
          SortTiling::kRunsMerged, from.span, from.kept, to.kept, to.runs == 1,
          i % 2 == 0 ? 0 : bytes[0], i % 2 == 0 ? bytes[0] : 0);
      result.source.entries.push_back(name);
      result.following.push_back(
          {.blocks = ceil_div(rows_.count * from.runs * from.kept, kLoopThreads),
           .threads = kLoopThreads});
      result.gaps.more_reads = result.gaps.more_writes =
          "what blocks have sorted lies in memory until it is merged, as far as the L2 does not "
          "keep it";
    }
  }

  const KernelView& kernel_;
  const Op& op_;
  const OrderedRows rows_;
  const SortTiling tiling_;
  KernelCode code_;
};

}  // namespace

GeneratedKernel generate_sort(const KernelView& kernel, const Device& device) {
  return Sort(kernel, device).write();
}

}  // namespace fusecalc
