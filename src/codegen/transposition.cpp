// Kernels that read tensors in transposed order, by tiles of 64 by 64 that are transposed in shared
// memory: tensors are read along their own rows, results written along theirs.

#include "codegen/transposition.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "core/ceil_div.hpp"

namespace fusecalc {

Index element_index() { return {.name = "i", .pattern = LanePattern::kUnit, .aligned = true}; }

namespace {

constexpr unsigned kTile = 64;

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

// The loop over a kernel's elements, with its tiles.
Loop tile_loop_of(const Transposition& found) {
  TransposedTiles tiles{.map = found.map, .names = {}};
  for (const TensorId tensor : found.tensors) tiles.names[tensor] = fmt::format("tile{}", tensor);
  return {.element = element_index(), .tiles = std::move(tiles)};
}

// The kernel of a block for each tile; `body` knows from where its tile lies: c0 and b0 in the
// matrix, `from` and `to` the number of the matrix's first element in tensors and in the loop.
GeneratedKernel tile_kernel(const KernelView& kernel, const KernelCode& code, const Loop& loop,
                            const Transposition& found, std::uint64_t space, unsigned pitch,
                            const std::string& body) {
  const std::uint64_t rows = found.map.axes[found.across].extent;
  const std::uint64_t columns = found.map.axes[found.along].extent;
  const std::uint64_t row_tiles = ceil_div(rows, kTile);
  const std::uint64_t column_tiles = ceil_div(columns, kTile);
  const TilePlace place = place_of(found, space);
  std::string declarations;
  for (const auto& [tensor, name] : loop.tiles.names) {
    declarations +=
        fmt::format("  __shared__ {} {}[{} * kPitch];\n",
                    name_of(compute_type(kernel.tensor(tensor).type.dtype)), name, kTile);
  }
  GeneratedKernel result;
  std::string& text = result.source.text;
  text = preamble(kernel.graph(), space);
  text += fmt::format(
      "extern \"C\" __global__ void __launch_bounds__({}) fused({}) {{\n"
      "  constexpr u32 kPitch = {};\n{}"
      "  const idx c0 = (idx)(blockIdx.x % {}) * {};\n  const u32 rest = blockIdx.x / {};\n"
      "  const idx b0 = (idx)(rest % {}) * {};\n  const idx outer = rest / {};\n"
      "  const idx from = {};\n  const idx to = {};\n{}}}\n",
      kLoopThreads, code.parameters().declarations(), pitch, declarations, column_tiles, kTile,
      column_tiles, row_tiles, kTile, row_tiles, place.tensor.text("outer"),
      place.loop.text("outer"), body);
  result.source.entries = {"fused"};
  result.storages = code.parameters().storages();
  result.threads = kLoopThreads;
  result.blocks = row_tiles * column_tiles * (space / rows / columns);
  result.schedule = fmt::format("tiles of {0} by {0}, transposed on chip", kTile);
  return result;
}

}  // namespace

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

// Each transposed tensor's tile is read along its own rows, and taken out of shared memory along
// the loop's. A row of the tile takes one element more, so that neither direction has bank
// conflicts.
GeneratedKernel generate_tiles(const KernelView& kernel, const Roots& roots,
                               const Transposition& found, std::uint64_t space, unsigned width) {
  KernelCode code(kernel);
  const Loop loop = tile_loop_of(found);
  std::string fill;
  for (const auto& [tensor, name] : loop.tiles.names) {
    fill += fmt::format(
        "      const Pack<{0}, {1}> x_{2} = load_pack<{1}>({3} + from + (c0 + c) * {4} + b0 + b);\n"
        "#pragma unroll\n      for (int j = 0; j < {1}; ++j) {{\n"
        "        {2}[c * kPitch + b + j] = to_compute(x_{2}.v[j]);\n      }}\n",
        stored_type(kernel.tensor(tensor).type.dtype), width, name, code.parameters().input(tensor),
        found.map.axes[found.along].stride);
  }
  CodeBlock block = block_of(width);
  store_full({code, loop, block}, roots.full);
  const std::string body =
      tile_loop(found, width, "b", "c", fill) + "  __syncthreads();\n" +
      tile_loop(found, width, "c", "b",
                fmt::format("      const idx i = to + (b0 + b) * {} + c0 + c;\n",
                            place_of(found, space).loop_across) +
                    block.text("      "));
  return tile_kernel(kernel, code, loop, found, space, kTile + 1, body);
}

namespace {

// Groups of the tensor's memory that have elements of the tile, 9 of 8 elements for each of its
// rows. In shared memory a row has a place more after each group, and is as long as 9 groups are
// then: the threads of a warp, which have groups one after the other, write to different banks.
std::string fill_shifted(const KernelView& kernel, const Transposition& found, KernelCode& code,
                         const Loop& loop, unsigned width) {
  const unsigned groups = kTile / width + 1;
  std::string text;
  for (const auto& [tensor, name] : loop.tiles.names) {
    text += fmt::format(
        "#pragma unroll\n  for (u32 n = threadIdx.x; n < {0}; n += {1}) {{\n"
        "    const u32 c = n / {2};\n    const idx at = from + (c0 + c) * {3} + b0;\n"
        "    const idx group = (at / {4} + n % {2}) * {4};\n"
        "    if (c0 + c >= {5} || group >= {6}) continue;\n"
        "    const Pack<{7}, {4}> x = load_before<{4}>({8}, group, {6});\n"
        "#pragma unroll\n    for (int j = 0; j < {4}; ++j) {{\n"
        "      const u32 b = (u32)(group + j - at);\n"
        "      if (b < {9}) {10}[c * kPitch + b + b / {4}] = to_compute(x.v[j]);\n    }}\n  }}\n",
        kTile * groups, kLoopThreads, groups, found.map.axes[found.along].stride, width,
        found.map.axes[found.along].extent, kernel.tensor(tensor).elements,
        stored_type(kernel.tensor(tensor).type.dtype), code.parameters().input(tensor), kTile,
        name);
  }
  return text;
}

// Whole groups of the loop's memory first, then what a row of the tile has ahead of its first one
// and after its last, element by element.
std::string drain_shifted(const Transposition& found, const TilePlace& place, unsigned width,
                          const std::string& groups, const std::string& ends) {
  const std::string row = fmt::format(
      "    if (b0 + row >= {0}) continue;\n    const idx at = to + (b0 + row) * {1} + c0;\n"
      "    const u32 long_row = {2} - (u32)c0 < {3} ? {2} - (u32)c0 : {3};\n"
      "    const u32 head = (u32)(({4} - at % {4}) % {4});\n"
      "    const u32 b = row + row / {4};\n",
      found.map.axes[found.across].extent, place.loop_across, found.map.axes[found.along].extent,
      kTile, width);
  return fmt::format(
      "#pragma unroll\n  for (u32 n = threadIdx.x; n < {0}; n += {1}) {{\n"
      "    const u32 row = n / {2};\n{3}    const u32 c = head + n % {2} * {4};\n"
      "    if (c + {4} > long_row) continue;\n    const idx i = at + c;\n{5}  }}\n"
      "#pragma unroll\n  for (u32 n = threadIdx.x; n < {6}; n += {1}) {{\n"
      "    const u32 row = n / {7};\n{3}    const u32 e = n % {7};\n"
      "    const u32 whole = head < long_row ? (long_row - head) / {4} * {4} : 0;\n"
      "    const u32 c = e < head ? e : whole + e;\n"
      "    if (c >= long_row) continue;\n    const idx i = at + c;\n{8}  }}\n",
      kTile * kTile / width, kLoopThreads, kTile / width, row, width, groups, kTile * 2 * width,
      2 * width, ends);
}

}  // namespace

GeneratedKernel generate_shifted_tiles(const KernelView& kernel, const Roots& roots,
                                       const Transposition& found, std::uint64_t space,
                                       unsigned width) {
  KernelCode code(kernel);
  const Loop loop = tile_loop_of(found);
  const std::string fill = fill_shifted(kernel, found, code, loop, width);
  CodeBlock groups = block_of(width);
  store_full({code, loop, groups}, roots.full);
  CodeBlock ends = block_of(1);
  store_full({code, loop, ends}, roots.full);
  const std::string body =
      fill + "  __syncthreads();\n" +
      drain_shifted(found, place_of(found, space), width, groups.text("    "), ends.text("    "));
  const unsigned pitch = (kTile / width + 1) * (width + 1);
  return tile_kernel(kernel, code, loop, found, space, pitch, body);
}

}  // namespace fusecalc
