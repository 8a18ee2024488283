// Kernels of an op whose every result depends on a whole row: scans and sorts. Beside a scan run
// pointwise ops, before it and after it.
//
// Traffic: a scan reads and writes each element once; what else reads an element reads it again as
// its result is there, from the L1 or the L2. A sort counts for each element how many come
// before it, which reads a row once for each of its blocks: all but the first time from the L2.

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <string>
#include <vector>

#include "codegen/schedule.hpp"
#include "core/ceil_div.hpp"
#include "core/embedded.hpp"

namespace fusecalc {
namespace {

const Op& whole_row_op(const KernelView& kernel) {
  return kernel.op(*std::ranges::find_if(
      kernel.ops(), [&](OpId id) { return kernel.op(id).op_class == OpClass::kOpaque; }));
}

class WholeRows {
 public:
  explicit WholeRows(const KernelView& kernel)
      : kernel_(kernel), op_(whole_row_op(kernel)), code_(kernel) {
    const Shape& shape = kernel_.tensor(op_.operands[0].tensor).type.shape;
    const auto rank = static_cast<std::int64_t>(shape.size());
    const std::int64_t written = op_.attributes->axes ? op_.attributes->axes->front() : -1;
    const auto axis = static_cast<std::size_t>(written < 0 ? written + rank : written);
    length_ = shape[axis];
    inner_ = elements_between(shape, axis + 1, shape.size());
    rows_ = elements_between(shape, 0, axis) * inner_;
  }

  GeneratedKernel write() {
    const bool scans = op_.row->family == OpFamily::kScan;
    // The reader's pointers are members of a struct: all of them must be known first.
    for (const OpId id : kernel_.ops()) {
      for (const TensorId output : kernel_.op(id).outputs) {
        if (kernel_.needed_outside(output)) code_.parameters().output(output);
      }
    }
    read_as_ =
        compute_type(kernel_.tensor(scans ? op_.outputs[0] : op_.operands[0].tensor).type.dtype);
    std::string members =
        element_function(code_, "at(idx i)", op_.operands[0].tensor, "i", read_as_);
    if (scans) members += taking_function();
    const std::string body = scans ? scan() : sort();
    GeneratedKernel result;
    std::string& text = result.source.text;
    text = preamble(kernel_.graph(), rows_ * length_);
    text += embedded_kernel("whole_rows");
    text += fmt::format("\nstruct In {{\n{}{}}};\n\n", code_.parameters().members(), members);
    text += fmt::format(
        "extern \"C\" __global__ void __launch_bounds__({}) fused({}) {{\n"
        "  const In in{{{}}};\n{}}}\n",
        threads_, code_.parameters().declarations(), code_.parameters().arguments(), body);
    result.source.entries = {"fused"};
    result.storages = code_.parameters().storages();
    result.threads = static_cast<unsigned>(threads_);
    result.blocks = blocks_;
    result.schedule = schedule_;
    if (!scans && length_ > threads_) {
      result.gaps.more_reads =
          "each block of a row reads the whole row, again from memory once the L2 has evicted it";
    }
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
    if (inner_ == 1) {
      blocks_ = rows_;
      schedule_ = fmt::format("a row by {} threads", threads_);
      return fmt::format("  scan_row<{}, {}>(in, (u64)blockIdx.x * {}, {});\n", what, threads_,
                         length_, length_);
    }
    blocks_ = ceil_div(rows_, threads_);
    schedule_ = "a column by a thread";
    return fmt::format(
        "  const u64 q = (u64)blockIdx.x * {0} + threadIdx.x;\n  if (q >= {1}) return;\n"
        "  scan_column<{2}>(in, q / {3} * {4} + q % {3}, {5}, {3});\n",
        threads_, rows_, what, inner_, length_ * inner_, length_);
  }

  std::string sort() {
    const bool picks = op_.attributes->k.has_value();
    const bool descending = picks ? op_.attributes->largest : op_.attributes->descending;
    const auto kept = picks ? static_cast<std::uint64_t>(*op_.attributes->k) : length_;
    threads_ = std::clamp<std::uint64_t>(std::bit_ceil(length_), kWarp, kLoopThreads);
    const std::uint64_t parts = ceil_div(length_, threads_);
    blocks_ = rows_ * parts;
    schedule_ = fmt::format("an element by a thread, {} threads per block", threads_);
    std::string text = fmt::format(
        "  const u64 q = blockIdx.x / {0};\n"
        "  const u64 at = (u64)(blockIdx.x % {0}) * {1} + threadIdx.x;\n"
        "  const u64 row = q / {2} * {3} + q % {2};\n"
        "  const {4} own = in.at(row + (at < {5} ? at : 0) * {2});\n"
        "  const u64 place = sorted_place<{6}, {1}>(in, row, {5}, {2}, own, at);\n"
        "  if (at >= {5} || place >= {7}) return;\n"
        "  const u64 to = q / {2} * {8} + q % {2} + place * {2};\n",
        parts, threads_, inner_, length_ * inner_, name_of(read_as_), length_, descending, kept,
        kept * inner_);
    for (std::size_t k = 0; k < op_.outputs.size(); ++k) {
      const TensorId output = op_.outputs[k];
      if (!kernel_.needed_outside(output)) continue;
      text += fmt::format("  put({}, to, ({})({}));\n", code_.parameters().output(output),
                          name_of(compute_type(kernel_.tensor(output).type.dtype)),
                          k == 0 ? "own" : "at");
    }
    return text;
  }

  const KernelView& kernel_;
  const Op& op_;
  KernelCode code_;
  std::uint64_t length_ = 1;
  std::uint64_t inner_ = 1;  // elements from one of a row to its next
  std::uint64_t rows_ = 1;
  ComputeType read_as_ = ComputeType::kF32;
  std::uint64_t threads_ = kLoopThreads;
  std::uint64_t blocks_ = 1;
  std::string schedule_;
};

}  // namespace

GeneratedKernel generate_whole_rows(const KernelView& kernel) { return WholeRows(kernel).write(); }

}  // namespace fusecalc
