// Kernels without reductions that read a tensor in a transposed order: tiles of it lie in shared
// memory in between.
//
// Traffic: tensors and results are moved in whole groups of 16 bytes that begin at multiples of it.
// Where rows begin anywhere, each row of a tile begins at its own whole sector, so that no sector
// is written in parts; the tile has some more columns on chip than any of its rows stores.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "codegen/schedule.hpp"
#include "core/ceil_div.hpp"

namespace fusecalc {
namespace {

// A transposed read: rows of the loop run along axis `along` of the map, its last one, and rows of
// the tensors along axis `across`.
struct Transposition {
  IndexTransform map;
  std::size_t across = 0;
  std::size_t along = 0;
  std::vector<TensorId> tensors{};  // that are read so

  std::uint64_t rows() const { return map.axes[across].extent; }
  std::uint64_t columns() const { return map.axes[along].extent; }
  // Elements of the tensors from one column to the next.
  std::uint64_t pitch() const { return map.axes[along].stride; }
};

// How the elements of a tile lie in memory.
enum class Runs : std::uint8_t {
  kAligned,  // each of its rows and columns begins at a whole group
  kAnywhere,
  kTensorRun,  // it has all of few rows, and is one run of the tensors
  kLoopRun,    // it has all of few columns, and is one run of the loop
};

constexpr std::uint64_t kLeastSide = 16;      // of a tile, unless the other side leaves no gaps
constexpr std::uint64_t kLeastLong = 64;      // that other side
constexpr std::uint64_t kTile = 64;           // rows and columns of an aligned tile
constexpr std::uint64_t kRunElements = 3072;  // about so many are a tile that is one run
constexpr std::uint64_t kSharedBytes = std::uint64_t{48} << 10U;  // of all tiles
constexpr std::size_t kMostTensors = 3;  // of 4 bytes each on chip; of 8 there is but one
// Of a warp, along and across rows that begin anywhere.
constexpr unsigned kLanesAlong = 4;
constexpr unsigned kTall = kWarp / kLanesAlong;

// Each 32 elements of a run are followed by a gap: lanes that are several elements apart find
// other banks.
std::uint64_t with_gaps(std::uint64_t elements) { return elements + elements / kWarp; }

bool has_tiles(const Transposition& found) {
  const std::uint64_t rows = found.rows();
  const std::uint64_t columns = found.columns();
  if (rows >= kLeastSide && columns >= kLeastSide) return true;
  if (rows < kLeastSide) return found.pitch() == rows && columns >= kLeastLong;
  return found.across + 1 == found.along && rows >= kLeastLong;
}

// The first transposition that a large scattered read follows, where tiles help.
std::optional<Transposition> find_transposition(const KernelView& kernel, const CodeBlock& block,
                                                std::uint64_t space) {
  for (const auto& [tensor, map] : block.scattered_reads) {
    if (map.axes.size() < 2) continue;
    if (kernel.graph().tensors[tensor].elements < space / 2) continue;
    if (is_packed(kernel.graph().tensors[tensor].type.dtype)) continue;
    Transposition found{.map = map, .across = map.axes.size(), .along = map.axes.size() - 1};
    for (std::size_t axis = 0; axis < map.axes.size(); ++axis) {
      if (map.axes[axis].stride == 1) found.across = axis;
    }
    if (found.across >= found.along || !has_tiles(found)) continue;
    const auto bytes = [&](TensorId id) {
      return bytes_of(kernel.graph().tensors[id].type.dtype, 1);
    };
    found.tensors = {tensor};
    if (bytes(tensor) > sizeof(float)) return found;
    for (const auto& [other, other_map] : block.scattered_reads) {
      const bool known = std::ranges::find(found.tensors, other) != found.tensors.end();
      const bool fits = bytes(other) <= sizeof(float) && found.tensors.size() < kMostTensors;
      if (other_map == map && !known && fits) found.tensors.push_back(other);
    }
    return found;
  }
  return std::nullopt;
}

// The tiles of a transposition, moved in groups of `width` elements.
struct Tiling {
  Runs runs = Runs::kAligned;
  std::uint64_t width = 1;
  std::uint64_t rows = 0;  // that a tile stores
  std::uint64_t columns = 0;
  // What a run of the loop begins with is a multiple of so many elements, whole sectors: so it may
  // begin some columns (or rows) ahead of the tile, which holds them, too.
  std::uint64_t sector = 1;
  std::uint64_t ahead = 0;
  std::uint64_t pitch = 0;  // elements of a column on chip
  std::uint64_t words = 0;  // on chip, of each tensor
};

bool groups_are_aligned(const Transposition& found, unsigned width) {
  const std::vector<StridedMap::Axis>& axes = found.map.axes;
  return found.map.offset % width == 0 && found.rows() % width == 0 &&
         found.columns() % width == 0 && std::ranges::all_of(axes, [&](const auto& axis) {
           return axis.stride == 1 || axis.stride % width == 0;
         });
}

// `on_chip_bytes`: of an element as it is computed.
Tiling tiling_of(const Transposition& found, unsigned width, std::uint64_t on_chip_bytes) {
  const std::uint64_t few = std::min(found.rows(), found.columns());
  const std::uint64_t many = kRunElements / few / kLeastLong * kLeastLong;
  Tiling tiling{.width = width, .sector = std::max(2 * width, kTall)};
  if (found.rows() < kLeastSide) {
    tiling.runs = Runs::kTensorRun;
    tiling.rows = few;
    tiling.columns = many;
    tiling.ahead = tiling.sector;
    tiling.words = with_gaps((tiling.ahead + many) * few + 2 * width);
  } else if (found.columns() < kLeastSide) {
    tiling.runs = Runs::kLoopRun;
    tiling.rows = many;
    tiling.columns = few;
    tiling.ahead = ceil_div(tiling.sector, few);
    tiling.pitch = with_gaps(ceil_div(many + tiling.ahead, width) * width + width) | 1U;
    tiling.words = few * tiling.pitch;
  } else if (groups_are_aligned(found, width)) {
    tiling = {.width = width, .rows = kTile, .columns = kTile, .pitch = kTile + 1};
    tiling.words = kTile * tiling.pitch;
  } else {
    tiling.runs = Runs::kAnywhere;
    tiling.rows = kTile - width;
    tiling.ahead = tiling.sector;
    tiling.pitch = kTile + 1;
    tiling.columns = 2 * kTile;
    const auto words = [&] { return (tiling.columns + tiling.ahead) * tiling.pitch; };
    while (found.tensors.size() * words() * on_chip_bytes > kSharedBytes) tiling.columns /= 2;
    tiling.words = words();
  }
  return tiling;
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

std::uint64_t bytes_on_chip(const KernelView& kernel, const Transposition& found) {
  const DType dtype = kernel.tensor(found.tensors.front()).type.dtype;
  return bytes_of(dtype, 1) > sizeof(float) ? 8 : 4;
}

// Writes a kernel whose blocks move one tile each.
class TileWriter {
 public:
  TileWriter(const KernelView& kernel, const Transposition& found, std::uint64_t space,
             unsigned width)
      : found_(found),
        space_(space),
        tiling_(tiling_of(found, width, bytes_on_chip(kernel, found))),
        place_(place_of(found, space)),
        code_(kernel) {}

  GeneratedKernel write(const Roots& roots);

 private:
  // Groups that a block moves, and code that finds the one numbered `n`.
  struct Groups {
    std::uint64_t count = 0;
    std::string text;
  };

  Groups groups_of_tensors() const;
  Groups groups_of_loop() const;
  std::string element_on_chip() const;
  std::string starts() const;
  std::string loads(const TransposedTiles& tiles);
  std::string stores(const Roots& roots, const Loop& loop);
  std::uint64_t row_tiles() const;
  std::uint64_t column_tiles() const;

  const Transposition& found_;
  std::uint64_t space_;
  Tiling tiling_;
  TilePlace place_;
  KernelCode code_;
};

std::uint64_t TileWriter::row_tiles() const {
  if (tiling_.runs != Runs::kLoopRun) return ceil_div(found_.rows(), tiling_.rows);
  return ceil_div(found_.rows() * tiling_.columns + tiling_.sector - 1,
                  tiling_.rows * tiling_.columns);
}

std::uint64_t TileWriter::column_tiles() const {
  if (tiling_.runs == Runs::kLoopRun) return 1;
  return ceil_div(found_.columns() + tiling_.sector - 1, tiling_.columns);
}

// Where the elements lie on chip, from where the block's part of the tensors begins.
std::string TileWriter::starts() const {
  switch (tiling_.runs) {
    case Runs::kAligned: return {};
    case Runs::kAnywhere:
      return fmt::format("  const u32 near = (u32)(from + (c0 - {}) * {} + b0) % {};\n",
                         tiling_.ahead, found_.pitch(), tiling_.width);
    case Runs::kTensorRun:
      return fmt::format(
          "  const idx start = from + (c0 - {}) * {};\n  const u32 near = (u32)start % {};\n",
          tiling_.ahead, tiling_.rows, tiling_.width);
    case Runs::kLoopRun:
      return fmt::format(
          "  const idx start = from + b0 - {};\n  const u32 near = (u32)start % {};\n",
          tiling_.ahead, tiling_.width);
  }
  return {};
}

// Lane j of the group `x` of the loop's row `b`.
std::string TileWriter::element_on_chip() const {
  const std::uint64_t turn = found_.pitch() % tiling_.width;
  switch (tiling_.runs) {
    case Runs::kAligned: return "(x + j) * kPitch + b";
    case Runs::kAnywhere:
      return fmt::format("(x + j) * kPitch + b + (near + (x + j) * {}) % {}", turn, tiling_.width);
    case Runs::kTensorRun: return fmt::format("with_gaps((x + j) * {} + b + near)", tiling_.rows);
    case Runs::kLoopRun:
      return fmt::format(
          "(x + j) % {0} * kPitch + with_gaps((x + j) / {0} + (near + (x + j) % {0} * {1}) % {2})",
          tiling_.columns, turn, tiling_.width);
  }
  return {};
}

// Deals groups out to warps so that neither side of a tile has bank conflicts.
std::string dealt(std::uint64_t along, std::string_view across) {
  return fmt::format(
      "    const u32 k = n % {0} + n / {1} % {2} * {0};\n"
      "    const u32 {3} = n / {0} % {4} + n / {5} * {4};\n",
      kLanesAlong, kWarp, along / kLanesAlong, across, kTall, kTall * along);
}

// The groups of the tensors, each with the number `at` of its first element and its place on chip.
TileWriter::Groups TileWriter::groups_of_tensors() const {
  const std::uint64_t width = tiling_.width;
  const std::uint64_t all = (tiling_.columns + tiling_.ahead) * tiling_.rows;
  switch (tiling_.runs) {
    case Runs::kAligned:
      return {all / width,
              fmt::format("    const u32 b = n % {0} * {1}, c = n / {0};\n"
                          "    if (b0 + b >= {2} || c0 + c >= {3}) continue;\n"
                          "    const idx at = from + (c0 + c) * {4} + b0 + b;\n"
                          "    const u32 place = c * kPitch + b;\n",
                          kTile / width, width, found_.rows(), found_.columns(), found_.pitch())};
    case Runs::kAnywhere:
      return {(tiling_.columns + tiling_.ahead) * kTile / width,
              dealt(kTile / width, "r") +
                  fmt::format("    const idx c = c0 + r - {0};\n"
                              "    const idx start = from + c * {1} + b0;\n"
                              "    const u32 past = (u32)start % {2};\n"
                              "    const idx rows = {4} - b0 < {3} ? {4} - b0 : {3};\n"
                              "    if (c >= {5} || k * {2} >= past + rows) continue;\n"
                              "    const idx at = start - past + k * {2};\n"
                              "    const u32 place = r * kPitch + k * {2};\n",
                              tiling_.ahead, found_.pitch(), width, tiling_.rows, found_.rows(),
                              found_.columns())};
    case Runs::kTensorRun:
      return {all / width + 1, fmt::format("    const idx at = start - near + n * {0};\n"
                                           "    const u32 place = with_gaps(n * {0});\n",
                                           width)};
    case Runs::kLoopRun: {
      const std::uint64_t groups = ceil_div(tiling_.rows + tiling_.ahead, width) + 1;
      return {groups * tiling_.columns,
              fmt::format("    const u32 k = n % {0}, c = n / {0};\n"
                          "    const idx at = (start + c * {1}) / {2} * {2} + k * {2};\n"
                          "    const u32 place = c * kPitch + with_gaps(k * {2});\n",
                          groups, found_.pitch(), width)};
    }
  }
  return {};
}

// The groups of the loop, each with the number `i` of its first element and its place `x` in a row
// of the tile; `first` of the loop's run of `most`, whose ends need not be those of groups.
TileWriter::Groups TileWriter::groups_of_loop() const {
  const std::uint64_t width = tiling_.width;
  const std::uint64_t groups = tiling_.rows * tiling_.columns / width;
  const std::string run =
      fmt::format("    const idx run = to + (b0 + b) * {} + c0;\n", place_.loop_across);
  const auto begin = [&](std::string_view first, std::uint64_t ahead) {
    return fmt::format(
        "    const u32 early = (u32)run % {};\n"
        "    const idx first = {} + k * {} - early;\n"
        "    const u32 x = k * {} - early + {};\n"
        "    const idx i = run + k * {} - early;\n",
        tiling_.sector, first, width, width, ahead, width);
  };
  switch (tiling_.runs) {
    case Runs::kAligned:
      return {groups, fmt::format("    const u32 x = n % {0} * {1}, b = n / {0};\n"
                                  "    if (b0 + b >= {2} || c0 + x >= {3}) continue;\n"
                                  "    const idx i = to + (b0 + b) * {4} + c0 + x;\n",
                                  kTile / width, width, found_.rows(), found_.columns(),
                                  place_.loop_across)};
    case Runs::kAnywhere: {
      const std::uint64_t rows = ceil_div(tiling_.rows, kTall) * kTall;
      return {rows * tiling_.columns / width,
              dealt(tiling_.columns / width, "b") +
                  fmt::format("    if (b >= {} || b0 + b >= {}) continue;\n", tiling_.rows,
                              found_.rows()) +
                  run + begin("c0", tiling_.ahead)};
    }
    case Runs::kTensorRun:
      return {groups,
              fmt::format("    const u32 k = n % {0}, b = n / {0};\n", tiling_.columns / width) +
                  run + begin("c0", tiling_.ahead)};
    case Runs::kLoopRun:
      return {groups,
              fmt::format("    const u32 k = n;\n    const idx run = to + b0 * {};\n",
                          tiling_.columns) +
                  begin(fmt::format("b0 * {}", tiling_.columns), tiling_.ahead * tiling_.columns)};
  }
  return {};
}

// A loop over groups, dealt out to the threads of the block.
std::string loop_over(std::uint64_t groups, unsigned unrolled, const std::string& body) {
  return fmt::format("#pragma unroll {}\n  for (u32 n = threadIdx.x; n < {}; n += {}) {{\n{}  }}\n",
                     unrolled, groups, kLoopThreads, body);
}

std::string TileWriter::loads(const TransposedTiles& tiles) {
  const Groups groups = groups_of_tensors();
  std::string body = groups.text;
  for (const auto& [tensor, name] : tiles.names) {
    const Tensor& read = code_.view().tensor(tensor);
    const std::string memory = code_.parameters().input(tensor);
    const std::string pack =
        tiling_.runs == Runs::kAligned
            ? fmt::format("load_pack<{}>({} + at)", tiling_.width, memory)
            : fmt::format("load_within<{}>({}, at, {})", tiling_.width, memory, read.elements);
    body += fmt::format(
        "    const Pack<{0}, {1}> of_{2} = {3};\n"
        "#pragma unroll\n    for (int j = 0; j < {1}; ++j) {{\n"
        "      {2}[place + j] = to_compute(of_{2}.v[j]);\n    }}\n",
        stored_type(read.type.dtype), tiling_.width, name, pack);
  }
  return loop_over(groups.count, 4, body);
}

std::string TileWriter::stores(const Roots& roots, const Loop& loop) {
  const auto body = [&](unsigned width, std::string_view indent) {
    CodeBlock block = block_of(width);
    store_full({code_, loop, block}, roots.full);
    return block.text(indent);
  };
  const Groups groups = groups_of_loop();
  const auto width = static_cast<unsigned>(tiling_.width);
  if (tiling_.runs == Runs::kAligned) {
    return loop_over(groups.count, 2, groups.text + body(width, "    "));
  }
  const std::uint64_t most =
      found_.columns() * (tiling_.runs == Runs::kLoopRun ? found_.rows() : 1);
  return loop_over(
      groups.count, 2,
      groups.text +
          fmt::format("    if (first < {0} && {0} - first >= {1}) {{\n{2}      continue;\n    }}\n"
                      "    const idx group = i;\n    const u32 place = x;\n"
                      "    for (u32 e = 0; e < {1}; ++e) {{\n"
                      "      if (first + e >= {0}) continue;\n"
                      "      const idx i = group + e;\n      const u32 x = place + e;\n{3}    }}\n",
                      most, width, body(width, "      "), body(1, "      ")));
}

GeneratedKernel TileWriter::write(const Roots& roots) {
  TransposedTiles tiles{.map = found_.map, .place = element_on_chip(), .names = {}};
  for (const TensorId tensor : found_.tensors) tiles.names[tensor] = fmt::format("tile{}", tensor);
  Loop loop;
  loop.element = group_index();
  loop.tiles = tiles;
  std::string declarations;
  for (const auto& [tensor, name] : tiles.names) {
    const DType dtype = code_.view().tensor(tensor).type.dtype;
    declarations +=
        fmt::format("  __shared__ {} {}[{}];\n", name_of(compute_type(dtype)), name, tiling_.words);
  }
  const std::string moved = starts() + loads(tiles) + "  __syncthreads();\n" + stores(roots, loop);
  GeneratedKernel result;
  result.source.text =
      preamble(code_.view().graph(), space_) +
      fmt::format(
          "extern \"C\" __global__ void __launch_bounds__({}) fused({}) {{\n"
          "  constexpr u32 kPitch = {};\n{}"
          "  const idx c0 = (idx)(blockIdx.x % {}) * {};\n"
          "  const u32 rest = blockIdx.x / {};\n"
          "  const idx b0 = (idx)(rest % {}) * {};\n  const idx outer = rest / {};\n"
          "  const idx from = {};\n  const idx to = {};\n{}}}\n",
          kLoopThreads, code_.parameters().declarations(), tiling_.pitch, declarations,
          column_tiles(), tiling_.columns, column_tiles(), row_tiles(), tiling_.rows, row_tiles(),
          place_.tensor.text("outer"), place_.loop.text("outer"), moved);
  result.source.entries = {"fused"};
  result.storages = code_.parameters().storages();
  result.threads = kLoopThreads;
  result.blocks = row_tiles() * column_tiles() * (space_ / found_.rows() / found_.columns());
  result.schedule =
      fmt::format("tiles of {} by {}, transposed on chip", tiling_.rows, tiling_.columns);
  return result;
}

}  // namespace

std::optional<GeneratedKernel> generate_transposition(const KernelView& kernel, const Roots& roots,
                                                      const CodeBlock& block, std::uint64_t space) {
  const auto found = find_transposition(kernel, block, space);
  if (!found) return std::nullopt;
  return TileWriter(kernel, *found, space, block.width).write(roots);
}

}  // namespace fusecalc
