// Kernels of a scan, beside which pointwise ops run, before it and after it.
//
// Traffic: each element is read and written once; what else reads an element reads it again as its
// result is there, from the L1 or the L2.

#include <fmt/format.h>

#include <string>
#include <vector>

#include "codegen/schedule.hpp"
#include "core/ceil_div.hpp"
#include "core/embedded.hpp"
#include "plan/ordered_rows.hpp"

namespace fusecalc {
namespace {

class Scan {
 public:
  Scan(const KernelView& kernel, OpId scan)
      : kernel_(kernel),
        op_(kernel.op(scan)),
        rows_(ordered_rows(kernel.graph(), op_)),
        code_(kernel),
        read_as_(compute_type(kernel.tensor(op_.outputs[0]).type.dtype)) {}

  GeneratedKernel write() {
    // The reader's pointers are members of a struct: all of them must be known first.
    for (const OpId id : kernel_.ops()) {
      for (const TensorId output : kernel_.op(id).outputs) {
        if (kernel_.needed_outside(output)) code_.parameters().output(output);
      }
    }
    const std::string members =
        element_function(code_, "at(idx i)", op_.operands[0].tensor, "i", read_as_) +
        taking_function();
    const std::string body = scan();
    GeneratedKernel result;
    std::string& text = result.source.text;
    text = preamble(kernel_.graph(), rows_.count * rows_.length);
    text += embedded_kernel("scanned_rows");
    text += fmt::format("\nstruct In {{\n{}{}}};\n\n", code_.parameters().members(), members);
    text += fmt::format(
        "extern \"C\" __global__ void __launch_bounds__({}) fused({}) {{\n"
        "  const In in{{{}}};\n{}}}\n",
        kLoopThreads, code_.parameters().declarations(), code_.parameters().arguments(), body);
    result.source.entries = {"fused"};
    result.storages = code_.parameters().storages();
    result.threads = kLoopThreads;
    result.blocks = blocks_;
    result.schedule = schedule_;
    return result;
  }

 private:
  // Stores what the kernel makes at an element, once the scan's result is there.
  std::string taking_function() {
    std::vector<TensorId> results;
    for (const OpId id : kernel_.ops()) {
      for (const TensorId output : kernel_.op(id).outputs) {
        if (kernel_.needed_outside(output)) results.push_back(output);
      }
    }
    const Loop loop{.element = {.name = "i"},
                    .ready = {{op_.outputs[0], Value{.text = "scanned", .type = read_as_}}}};
    CodeBlock block;
    store_full({code_, loop, block}, results);
    return fmt::format(
        "  __device__ __forceinline__ void take(idx i, {} scanned) const {{\n"
        "    const int j = 0;\n{}  }}\n",
        name_of(read_as_), block.text("    "));
  }

  std::string scan() {
    const bool adds = op_.row->accumulator == Accumulator::kSum;
    const std::string what =
        fmt::format("{}, {}", adds ? "Adding" : "Multiplying", name_of(read_as_));
    if (rows_.apart == 1) {
      blocks_ = rows_.count;
      schedule_ = fmt::format("a row by {} threads", kLoopThreads);
      return fmt::format("  scan_row<{}, {}>(in, (u64)blockIdx.x * {}, {});\n", what, kLoopThreads,
                         rows_.length, rows_.length);
    }
    blocks_ = ceil_div(rows_.count, kLoopThreads);
    schedule_ = "a column by a thread";
    return fmt::format(
        "  const u64 q = (u64)blockIdx.x * {0} + threadIdx.x;\n  if (q >= {1}) return;\n"
        "  scan_column<{2}>(in, q / {3} * {4} + q % {3}, {5}, {3});\n",
        kLoopThreads, rows_.count, what, rows_.apart, rows_.length * rows_.apart, rows_.length);
  }

  const KernelView& kernel_;
  const Op& op_;
  const OrderedRows rows_;
  KernelCode code_;
  const ComputeType read_as_;
  std::uint64_t blocks_ = 1;
  std::string schedule_;
};

}  // namespace

GeneratedKernel generate_scan(const KernelView& kernel, OpId scan) {
  return Scan(kernel, scan).write();
}

}  // namespace fusecalc
