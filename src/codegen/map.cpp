// Kernels without reductions: every thread computes one group of neighbouring elements.
//
// Traffic: tensors in the loop's own order are moved 16 bytes a thread, all of them in flight at
// once; one group a thread and many resident threads are faster than longer loops.

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "codegen/schedule.hpp"

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

// A transposed read: rows of the loop run along axis `along` of the map, rows of the tensor along
// axis `across`.
struct Transposition {
  IndexTransform map;
  std::size_t across = 0;
  std::size_t along = 0;
  std::vector<TensorId> tensors{};  // that are read so
};

constexpr unsigned kTile = 64;

// The first transposition that a large scattered read follows, where tiles help: axes that are
// long, and in whole groups of `width`.
std::optional<Transposition> find_transposition(const KernelView& kernel, const CodeBlock& block,
                                                std::uint64_t space, unsigned width) {
  for (const auto& [tensor, map] : block.scattered_reads) {
    if (map.axes.size() < 2 || map.offset % width != 0) continue;
    if (kernel.graph().tensors[tensor].elements < space / 2) continue;
    if (is_packed(kernel.graph().tensors[tensor].type.dtype)) continue;
    Transposition found{.map = map, .across = map.axes.size(), .along = map.axes.size() - 1};
    bool whole = true;
    for (std::size_t axis = 0; axis < map.axes.size(); ++axis) {
      if (map.axes[axis].stride == 1) {
        found.across = axis;
      } else {
        whole = whole && map.axes[axis].stride % width == 0;
      }
    }
    if (found.across >= found.along || !whole) continue;
    const std::uint64_t rows = map.axes[found.across].extent;
    const std::uint64_t columns = map.axes[found.along].extent;
    if (rows < 16 || columns < 16 || rows % width != 0 || columns % width != 0) continue;
    for (const auto& [other, other_map] : block.scattered_reads) {
      const bool known = std::ranges::find(found.tensors, other) != found.tensors.end();
      const bool small = bytes_of(kernel.graph().tensors[other].type.dtype, 1) < 8;
      if (other_map == map && !known && small && found.tensors.size() < 3) {
        found.tensors.push_back(other);
      }
    }
    if (!found.tensors.empty()) return found;
  }
  return std::nullopt;
}

// Where a block's tile lies: from its number to its first element in the loop, and in the tensors.
struct TilePlace {
  IndexTransform loop;
  IndexTransform tensor;
  std::uint64_t loop_across = 1;  // elements of the loop from one row of the tile to the next
};

TilePlace place_of(const Transposition& found, std::uint64_t space) {
  const std::vector<IndexTransform::Axis>& axes = found.map.axes;
  TilePlace place;
  place.tensor.offset = found.map.offset;
  std::uint64_t stride = space;
  for (std::size_t axis = 0; axis < axes.size(); ++axis) {
    stride /= axes[axis].extent;
    if (axis == found.across) place.loop_across = stride;
    if (axis == found.across || axis == found.along) continue;
    place.loop.append(axes[axis].extent, stride);
    place.tensor.append(axes[axis].extent, axes[axis].stride);
  }
  return place;
}

// Distributes a tile over the threads of a block in groups along `first`; the body knows b and c,
// its place in the tile.
std::string tile_loop(const Transposition& found, unsigned width, std::string_view first,
                      std::string_view second, std::string_view body) {
  return fmt::format(
      "#pragma unroll\n  for (u32 n = 0; n < {0}; ++n) {{\n"
      "    const u32 k = n * {1} + threadIdx.x;\n"
      "    const u32 {2} = k % {3} * {4};\n    const u32 {5} = k / {3};\n"
      "    if (b0 + b < {6} && c0 + c < {7}) {{\n{8}    }}\n  }}\n",
      kTile * kTile / width / kLoopThreads, kLoopThreads, first, kTile / width, width, second,
      found.map.axes[found.across].extent, found.map.axes[found.along].extent, body);
}

// The index of the first element of a thread's group.
Index element_index() { return {.name = "i", .pattern = LanePattern::kUnit, .aligned = true}; }

// Blocks of 64 by 64: each transposed tensor's tile is read along its own rows, and taken out of
// shared memory along the loop's. A row of the tile takes one element more, so that neither
// direction has bank conflicts.
GeneratedKernel generate_tiles(const KernelView& kernel, const Roots& roots,
                               const Transposition& found, std::uint64_t space, unsigned width) {
  const std::uint64_t rows = found.map.axes[found.across].extent;
  const std::uint64_t columns = found.map.axes[found.along].extent;
  const TilePlace place = place_of(found, space);
  KernelCode code(kernel);
  TransposedTiles tiles{.map = found.map, .names = {}};
  for (const TensorId tensor : found.tensors) tiles.names[tensor] = fmt::format("tile{}", tensor);
  const Loop loop{.element = element_index(), .tiles = std::move(tiles)};
  std::string declarations;
  std::string fill;
  for (const auto& [tensor, name] : loop.tiles.names) {
    const DType dtype = kernel.tensor(tensor).type.dtype;
    declarations += fmt::format("  __shared__ {} {}[{} * kPitch];\n", name_of(compute_type(dtype)),
                                name, kTile);
    fill += fmt::format(
        "      const Pack<{0}, {1}> x_{2} = load_pack<{1}>({3} + from + (c0 + c) * {4} + b0 + b);\n"
        "#pragma unroll\n      for (int j = 0; j < {1}; ++j) {{\n"
        "        {2}[c * kPitch + b + j] = to_compute(x_{2}.v[j]);\n      }}\n",
        stored_type(dtype), width, name, code.parameters().input(tensor),
        found.map.axes[found.along].stride);
  }
  CodeBlock block = block_of(width);
  store_full({code, loop, block}, roots.full);
  const std::uint64_t row_tiles = (rows + kTile - 1) / kTile;
  const std::uint64_t column_tiles = (columns + kTile - 1) / kTile;
  GeneratedKernel result;
  std::string& text = result.source.text;
  text = preamble(kernel.graph(), space);
  text += fmt::format(
      "extern \"C\" __global__ void __launch_bounds__({}) fused({}) {{\n"
      "  constexpr u32 kPitch = {};\n{}"
      "  const idx c0 = (idx)(blockIdx.x % {}) * {};\n  const u32 rest = blockIdx.x / {};\n"
      "  const idx b0 = (idx)(rest % {}) * {};\n  const idx outer = rest / {};\n"
      "  const idx from = {};\n",
      kLoopThreads, code.parameters().declarations(), kTile + 1, declarations, column_tiles, kTile,
      column_tiles, row_tiles, kTile, row_tiles, place.tensor.text("outer"));
  text += tile_loop(found, width, "b", "c", fill) + "  __syncthreads();\n";
  text += tile_loop(found, width, "c", "b",
                    fmt::format("      const idx i = {} + (b0 + b) * {} + c0 + c;\n",
                                place.loop.text("outer"), place.loop_across) +
                        block.text("      "));
  text += "}\n";
  result.source.entries = {"fused"};
  result.storages = code.parameters().storages();
  result.threads = kLoopThreads;
  result.blocks = row_tiles * column_tiles * (space / rows / columns);
  result.schedule = fmt::format("tiles of {0} by {0}, transposed on chip", kTile);
  return result;
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

}  // namespace

GeneratedKernel generate_map(const KernelView& kernel) {
  const std::uint64_t space = space_of(kernel);
  const Roots roots = find_roots(kernel, space);
  constexpr unsigned kMostWindows = 4;  // eight spill
  const unsigned widest = std::min(group_width(kernel, roots, space), most_copies(kernel));
  const unsigned width = has_windows(kernel) ? std::min(widest, kMostWindows) : widest;
  const Loop loop{.element = element_index()};
  KernelCode code(kernel);
  CodeBlock full{.width = width, .width_text = "kV"};
  store_full({code, loop, full}, roots.full);
  // Tiles in narrow groups, down to single elements, are still several times as fast as none.
  for (unsigned group = width; group > 0 && roots.small.empty(); group /= 2) {
    if (const auto found = find_transposition(kernel, full, space, group)) {
      return generate_tiles(kernel, roots, *found, space, group);
    }
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
  std::string& text = result.source.text;
  text = preamble(kernel.graph(), space);
  text += fmt::format(
      "template <int kV>\n__device__ __forceinline__ void elements(idx i, {}) {{\n{}}}\n\n",
      parameters, body);
  text += fmt::format(
      "extern \"C\" __global__ void __launch_bounds__({}) fused({}) {{\n"
      "  idx i = ((idx)blockIdx.x * {} + threadIdx.x) * {};\n",
      kLoopThreads, parameters, kLoopThreads, width);
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
  const std::uint64_t groups = (space + width - 1) / width;
  result.blocks = (groups + kLoopThreads - 1) / kLoopThreads;
  result.schedule = fmt::format("{} element{} per thread", width, width == 1 ? "" : "s");
  return result;
}

}  // namespace fusecalc
