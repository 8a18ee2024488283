// Kernels without reductions: every thread computes one group of neighbouring elements.
//
// Traffic: tensors in the loop's own order are moved 16 bytes a thread, all of them in flight at
// once; one group a thread and many resident threads are faster than longer loops.

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <string>
#include <utility>
#include <vector>

#include "codegen/schedule.hpp"
#include "plan/scattered_rows.hpp"

namespace fusecalc {
namespace {

// The number of elements that the widest result has.
std::uint64_t space_of(const KernelView& kernel) {
  std::uint64_t space = 0;
  for (const OpId id : kernel.ops()) {
    const Op& op = kernel.op(id);
    for (const TensorId output : op.outputs) {
      if (!kernel.needed_outside(output)) continue;
      const bool scatters = op.row->access == Access::kScatter;
      space = std::max(space, scatters ? op.work : kernel.graph().tensors[output].elements);
    }
  }
  return space;
}

// Elements of a thread: each has its own copy of an op's code. Where slow paths lie between, long
// code does not fit in the instruction caches: 40 sines in a row are 1.2 times as fast for one
// element as for eight, and compile in a tenth of the time.
unsigned most_copies(const KernelView& kernel) {
  constexpr unsigned kMostSlowPaths = 40;
  const auto paths = static_cast<unsigned>(
      std::ranges::count_if(kernel.ops(), [&](OpId id) { return kernel.op(id).row->slow_path; }));
  return std::bit_floor(std::max(1U, kMostSlowPaths / std::max(1U, paths)));
}

// Elements of a thread where ops walk over windows. Of more than two windows of one thread, the
// neighbouring threads read too far apart; those of stretched axes are as near as their results,
// but eight spill.
unsigned most_windows(const KernelView& kernel) {
  unsigned most = kLoopThreads;
  for (const OpId id : kernel.ops()) {
    const OpRow& row = *kernel.op(id).row;
    if (row.access != Access::kWindow) continue;
    most = std::min(most, row.family == OpFamily::kUpsample ? 4U : 2U);
  }
  return most;
}

// Elements of a thread that puts rows where indices say: all of one row. They are stored or added
// together then, or by neighbouring threads, which the L2 takes at once.
unsigned most_of_row(const KernelView& kernel) {
  std::uint64_t most = kLoopThreads;
  for (const OpId id : kernel.ops()) {
    const Op& op = kernel.op(id);
    if (op.row->family == OpFamily::kScatter) most = updates_of_one_row(kernel.graph(), op, most);
  }
  return static_cast<unsigned>(most);
}

// Whether elements of a table are read several times each, wherever indices say.
bool reads_table(const KernelView& kernel) {
  return std::ranges::any_of(kernel.ops(), [&](OpId id) {
    const Op& op = kernel.op(id);
    const OpFamily family = op.row->family;
    if (family != OpFamily::kEmbedding && family != OpFamily::kGather) return false;
    const Tensor& table = kernel.tensor(op.operands[0].tensor);
    return kernel.tensor(op.outputs[0]).elements >= 2 * table.elements;
  });
}

// Sets the blocks of a kernel, and returns the number of the chunk that one takes, in code.
std::string chunk_of_block(const KernelView& kernel, const Device& device, std::uint64_t space,
                           std::uint64_t of_block, GeneratedKernel& result) {
  result.blocks = (space + of_block - 1) / of_block;
  const auto passes = passes_side_by_side(kernel, device, LoopSpace::of_results(space));
  if (!passes) return "blockIdx.x";
  const std::uint64_t of_pass = (space / passes->outer / passes->passes + of_block - 1) / of_block;
  result.blocks = of_pass * passes->passes * passes->outer;
  result.schedule += fmt::format(", {} passes side by side", passes->passes);
  return in_passes("blockIdx.x", *passes, of_pass, of_block);
}

}  // namespace

GeneratedKernel generate_map(const KernelView& kernel, const Device& device) {
  const std::uint64_t space = space_of(kernel);
  const Roots roots = find_roots(kernel, space);
  const unsigned width = std::min({group_width(kernel, roots, space), most_copies(kernel),
                                   most_windows(kernel), most_of_row(kernel)});
  const Loop loop{.element = group_index(), .once = reads_table(kernel)};
  KernelCode code(kernel);
  CodeBlock full{.width = width, .width_text = "kV"};
  store_full({code, loop, full}, roots.full);
  if (roots.small.empty()) {
    if (auto tiles = generate_transposition(kernel, roots, full, space)) return *std::move(tiles);
  }
  std::string body;
  for (const TensorId tensor : roots.small) {
    CodeBlock small{.width = width, .width_text = "kV"};
    store_small({code, loop, small}, tensor, loop.element.name);
    const Op& op = kernel.op(kernel.tensor(tensor).producer);
    const bool scatters = op.row->access == Access::kScatter;
    body += fmt::format("  if (i < {}) {{\n{}  }}\n",
                        scatters ? op.work : kernel.tensor(tensor).elements, small.text("    "));
  }
  body += full.text("  ");

  const std::string parameters = code.parameters().declarations();
  const std::string arguments = ", " + code.parameters().arguments();
  GeneratedKernel result;
  result.schedule = fmt::format("{} element{} per thread", width, width == 1 ? "" : "s");
  const std::string chunk =
      chunk_of_block(kernel, device, space, std::uint64_t{kLoopThreads} * width, result);
  std::string& text = result.source.text;
  text = preamble(kernel.graph(), space);
  text += fmt::format(
      "template <int kV>\n__device__ __forceinline__ void elements(idx i, {}) {{\n{}}}\n\n",
      parameters, body);
  text += fmt::format(
      "extern \"C\" __global__ void __launch_bounds__({}) fused({}) {{\n"
      "  idx i = ((idx){} * {} + threadIdx.x) * {};\n",
      kLoopThreads, parameters, chunk, kLoopThreads, width);
  if (space % width == 0) {
    text += fmt::format("  if (i < {}) elements<{}>(i{});\n}}\n", space, width, arguments);
  } else {
    text += fmt::format(
        "  if (i + {0} <= {1}) {{\n    elements<{0}>(i{2});\n  }} else {{\n"
        "    for (; i < {1}; ++i) elements<1>(i{2});\n  }}\n}}\n",
        width, space, arguments);
  }
  result.source.entries = {"fused"};
  result.storages = code.parameters().storages();
  result.threads = kLoopThreads;
  return result;
}

}  // namespace fusecalc
