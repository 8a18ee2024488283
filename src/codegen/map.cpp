// Kernels without reductions: every thread makes one group of neighbouring elements.
//
// Traffic: whatever lies in the loop's own order is moved 16 bytes a thread, all of them in flight
// at once; one group a thread and many threads resident beat longer loops.

#include <fmt/format.h>

#include <algorithm>

#include "codegen/schedule.hpp"

namespace fusecalc {
namespace {

constexpr unsigned kThreads = 256;

// The number of elements that the widest result has.
std::uint64_t space_of(const Emitter& emitter, PhaseFinder& finder) {
  std::uint64_t space = 0;
  for (const OpId id : emitter.kernel()) {
    const Op& op = emitter.op(id);
    for (const TensorId output : op.outputs) {
      if (!finder.needed_outside(output)) continue;
      const bool scatters = op.row->access == Access::kScatter;
      space = std::max(space, scatters ? op.work : emitter.graph().tensors[output].elements);
    }
  }
  return space;
}

}  // namespace

GeneratedKernel generate_map(Emitter& emitter, PhaseFinder& finder) {
  const std::uint64_t space = space_of(emitter, finder);
  if (space == 0) cannot_generate(emitter.op(emitter.kernel().front()), "it writes nothing");
  const Roots roots = find_roots(emitter, finder, space);
  const unsigned width = group_width(emitter, roots, space);
  const Index e{.name = "i", .spread = Spread::kUnit, .aligned = true};

  std::string body;
  Piece piece{.width = width, .width_text = "kV"};
  emitter.enter(piece, 0);
  emitter.set_loop(e, "");
  store_full(emitter, roots.full, e, "");
  for (const TensorId tensor : roots.small) {
    Piece some{.width = width, .width_text = "kV"};
    emitter.enter(some, 0);
    store_small(emitter, tensor, "i");
    const Op& op = emitter.op(emitter.graph().tensors[tensor].producer);
    const bool scatters = op.row->access == Access::kScatter;
    body += fmt::format("  if (i < {}) {{\n{}  }}\n",
                        scatters ? op.work : emitter.graph().tensors[tensor].elements,
                        some.text("    "));
  }
  body += piece.text("  ");

  const std::string parameters = emitter.parameters();
  std::string arguments;
  for (std::size_t i = 0; i < emitter.storages().size(); ++i) arguments += fmt::format(", p{}", i);
  GeneratedKernel result;
  std::string& text = result.source.text;
  text = preamble(emitter.graph(), space);
  text += fmt::format(
      "template <int kV>\n__device__ __forceinline__ void elements(idx i, {}) {{\n{}}}\n\n",
      parameters, body);
  text += fmt::format(
      "extern \"C\" __global__ void __launch_bounds__({}) fused({}) {{\n"
      "  idx i = ((idx)blockIdx.x * {} + threadIdx.x) * {};\n",
      kThreads, parameters, kThreads, width);
  if (space % width == 0) {
    text += fmt::format("  if (i < {}) elements<{}>(i{});\n}}\n", space, width, arguments);
  } else {
    text += fmt::format(
        "  if (i + {0} <= {1}) {{\n    elements<{0}>(i{2});\n  }} else {{\n"
        "    for (; i < {1}; ++i) elements<1>(i{2});\n  }}\n}}\n",
        width, space, arguments);
  }
  result.source.entries = {"fused"};
  result.storages = emitter.storages();
  result.threads = kThreads;
  const std::uint64_t groups = (space + width - 1) / width;
  result.blocks = (groups + kThreads - 1) / kThreads;
  result.schedule = fmt::format("{} elements a thread", width);
  return result;
}

}  // namespace fusecalc
