// Kernels without reductions that read a tensor in a transposed order: tiles of it lie in shared
// memory in between.
//
// Traffic: tensors and results are moved in whole groups of 16 bytes that begin at multiples of it.
// Where rows begin anywhere, each row of a tile begins at its own whole sector, so that no sector
// is written in parts; the tile has some more columns on chip than any of its rows stores.

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "codegen/schedule.hpp"
#include "codegen/transposition.hpp"
#include "core/ceil_div.hpp"
#include "core/embedded.hpp"

namespace fusecalc {
namespace {

constexpr std::uint64_t kMostSet = 16;
constexpr unsigned kLineThreads = 512;
constexpr std::uint64_t kLoadThreads = 288;  // nine warps: tiles have an eighth more columns ahead

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

// Writes a kernel whose blocks move one tile each.
class TileWriter {
 public:
  // `together`: how many groups a thread loads at once.
  TileWriter(const KernelView& kernel, const Transposition& found, std::uint64_t space,
             unsigned width, unsigned together = 1)
      : found_(found),
        space_(space),
        together_(together),
        tiling_(tiling_of(kernel, found, width)),
        place_(place_of(found, space)),
        code_(kernel) {}

  GeneratedKernel write(const Roots& roots);
  // Whether loading more of them at once may be faster.
  bool has_ways() const {
    return tiling_.runs == TileRuns::kAnywhere && word_groups(loaded_type()) > threads();
  }

 private:
  // Groups that a block moves, and code that finds the one numbered `n`.
  struct Groups {
    std::uint64_t count = 0;
    std::string text;
    std::string element{};  // the place on chip of its element j
  };

  bool in_words() const {
    return tiling_.runs == TileRuns::kAligned || tiling_.runs == TileRuns::kAnywhere;
  }
  // Whether rows of a tile do, in the loop and in the tensors.
  bool begin_anywhere() const {
    return tiling_.runs == TileRuns::kAnywhere || tiling_.runs == TileRuns::kLines;
  }
  std::uint64_t row_tiles() const;
  std::uint64_t column_tiles() const;
  std::uint64_t row_sets() const;
  std::uint64_t tiles_of_set() const;
  std::string tile_of_block() const;
  std::uint64_t used_rows() const;
  std::uint64_t words_of(DType dtype) const;
  std::uint64_t word_groups(DType dtype) const;
  DType loaded_type() const { return code_.view().tensor(found_.tensors.front()).type.dtype; }
  unsigned threads() const;
  std::string loop_over(std::uint64_t groups, unsigned unrolled, const std::string& body) const;
  std::string start_of_run() const;
  std::string element_of_run() const;
  Groups groups_of_run() const;
  Groups groups_of_loop() const;
  std::string declarations(const TransposedTiles& tiles) const;
  std::string load_words(TensorId tensor, const std::string& tile);
  std::string load_lines(TensorId tensor, const std::string& tile);
  std::string load_run(TensorId tensor, const std::string& tile);
  std::string stores(const Roots& roots, const Loop& loop);

  const Transposition& found_;
  std::uint64_t space_;
  unsigned together_;
  TransposedTiling tiling_;
  TilePlace place_;
  KernelCode code_;
};

std::uint64_t TileWriter::row_tiles() const {
  if (tiling_.runs != TileRuns::kLoopRun) return ceil_div(found_.rows(), tiling_.rows);
  return ceil_div(found_.rows() * tiling_.columns + tiling_.sector - 1,
                  tiling_.rows * tiling_.columns);
}

std::uint64_t TileWriter::column_tiles() const {
  if (tiling_.runs == TileRuns::kLoopRun) return 1;
  const std::uint64_t late = tiling_.ahead > 0 ? tiling_.sector - 1 : 0;
  return ceil_div(found_.columns() + late, tiling_.columns);
}

// Of a tile that stands alone the last rows may be more than there are; warps take some at once.
std::uint64_t TileWriter::used_rows() const {
  return ceil_div(std::min(tiling_.rows, found_.rows()), tiling_.across()) * tiling_.across();
}

std::uint64_t TileWriter::words_of(DType dtype) const {
  if (!in_words()) return tiling_.words;
  return (tiling_.columns + tiling_.ahead) / shared_columns(dtype, tiling_.width) * tiling_.rows;
}

// Groups of words that a block loads.
std::uint64_t TileWriter::word_groups(DType dtype) const {
  return (tiling_.columns + tiling_.ahead) / shared_columns(dtype, tiling_.width) *
         ceil_div(used_rows(), tiling_.width);
}

// Of tiles with columns ahead, so many that each loads as many groups as any other.
unsigned TileWriter::threads() const {
  if (tiling_.runs == TileRuns::kLines) return kLineThreads;
  if (tiling_.runs != TileRuns::kAnywhere) return kLoopThreads;
  const std::uint64_t groups = word_groups(loaded_type());
  const std::uint64_t each = ceil_div(groups, kLoadThreads);
  return static_cast<unsigned>(ceil_div(ceil_div(groups, each), kWarp) * kWarp);
}

// Sets of tiles side by side in a row of the tensors, which blocks take one after another. Memory
// is fastest where these write one line after another, so that a set is one tile; but where tiles
// side by side share lines, and there are more of the others than the L2 keeps, some are one.
std::uint64_t TileWriter::row_sets() const {
  constexpr std::uint64_t kKept = std::uint64_t{8} << 20U;
  const std::uint64_t element = bytes_of(code_.view().tensor(found_.tensors.front()).type.dtype, 1);
  const std::uint64_t column_bytes = found_.columns() * tiling_.rows * element;
  const bool shared = begin_anywhere() && found_.pitch() * element % 128 != 0;
  return shared && column_bytes > kKept ? ceil_div(row_tiles(), kMostSet) : row_tiles();
}

std::uint64_t TileWriter::tiles_of_set() const { return ceil_div(row_tiles(), row_sets()); }

// Finds the first row and column of a block's tile, and its place among the other axes.
std::string TileWriter::tile_of_block() const {
  const std::uint64_t tiles = tiles_of_set();
  const std::string turn = tiles == 1
                               ? fmt::format(
                                     "  const u32 turn = blockIdx.x, rest = turn / {0};\n"
                                     "  const u32 tile = rest % {1};\n",
                                     column_tiles(), row_tiles())
                               : fmt::format(
                                     "  const u32 turn = blockIdx.x / {0}, rest = turn / {1};\n"
                                     "  const u32 tile = rest % {2} * {0} + blockIdx.x % {0};\n"
                                     "  if (tile >= {3}) return;\n",
                                     tiles, column_tiles(), row_sets(), row_tiles());
  return turn + fmt::format(
                    "  const idx b0 = (idx)tile * {}, c0 = (idx)(turn % {}) * {};\n"
                    "  const idx outer = rest / {};\n",
                    tiling_.rows, column_tiles(), tiling_.columns, row_sets());
}

// Where the run of a tile begins, and how far from a whole group.
std::string TileWriter::start_of_run() const {
  if (in_words()) return {};
  if (tiling_.runs == TileRuns::kLines) {
    return fmt::format(
        "  const idx start = from + (c0 - {}) * {} + b0;\n"
        "  const u32 near = (u32)start % {};\n",
        tiling_.ahead, found_.pitch(), tiling_.width);
  }
  if (tiling_.runs == TileRuns::kTensorRun) {
    return fmt::format(
        "  const idx start = from + (c0 - {}) * {};\n"
        "  const u32 near = (u32)start % {};\n",
        tiling_.ahead, tiling_.rows, tiling_.width);
  }
  return fmt::format(
      "  const idx start = from + b0 - {};\n"
      "  const u32 near = (u32)(to + b0 * {}) % {};\n",
      tiling_.ahead, tiling_.columns, tiling_.sector);
}

// The place on chip of element j of the loop's group at `x`.
std::string TileWriter::element_of_run() const {
  if (in_words()) return {};
  if (tiling_.runs == TileRuns::kLoopRun) return "x + j";
  if (tiling_.runs == TileRuns::kLines)
    return fmt::format("(x + j) * {} + b + near", tiling_.pitch);
  return fmt::format("with_gaps((x + j) * {} + b + near)", tiling_.rows);
}

// The groups of the tensors, each with the number `at` of its first element, and the place on chip
// of its element j.
TileWriter::Groups TileWriter::groups_of_run() const {
  const std::uint64_t width = tiling_.width;
  if (tiling_.runs == TileRuns::kTensorRun) {
    return {(tiling_.columns + tiling_.ahead) * tiling_.rows / width + 1,
            fmt::format("    const idx at = start - near + n * {0};\n"
                        "    const u32 first = with_gaps(n * {0});\n",
                        width),
            "first + j"};
  }
  const std::uint64_t groups = ceil_div(tiling_.rows + tiling_.ahead, width) + 1;
  return {groups * tiling_.columns,
          fmt::format("    const u32 k = n % {0}, c = n / {0};\n"
                      "    const idx run = start + c * {1};\n"
                      "    const u32 past = (u32)run % {2};\n"
                      "    const idx at = run - past + k * {2};\n"
                      "    const u32 first = (k * {2} + {2} - past) * {3} + c + near;\n",
                      groups, found_.pitch(), width, tiling_.columns),
          fmt::format("with_gaps(first + j * {})", tiling_.columns)};
}

// Deals groups out to warps: lanes that are a few groups of several rows find all banks.
std::string dealt(const TransposedTiling& tiling) {
  const std::uint64_t groups = tiling.columns / tiling.width;
  return fmt::format(
      "    const u32 k = n % {0} + n / {1} % {2} * {0};\n"
      "    const u32 b = n / {0} % {3} + n / {4} * {3};\n",
      tiling.along, kWarp, groups / tiling.along, tiling.across(), tiling.across() * groups);
}

// The groups of the loop, each with the number `i` of its first element and its place `x` in a row
// of the tile; `first` of the loop's run of `most`, whose ends need not be those of groups.
TileWriter::Groups TileWriter::groups_of_loop() const {
  const std::uint64_t width = tiling_.width;
  const std::uint64_t of_row = tiling_.columns / width;
  const std::string run =
      fmt::format("    const idx run = to + (b0 + b) * {} + c0;\n", place_.loop_across);
  const auto begin = [&](std::uint64_t ahead) {
    return fmt::format(
        "    const u32 early = (u32)run % {};\n"
        "    const idx first = c0 + k * {} - early;\n"
        "    const u32 x = k * {} - early + {};\n"
        "    const idx i = run + k * {} - early;\n",
        tiling_.sector, width, width, ahead, width);
  };
  const std::string rows_end = fmt::format("    if (b0 + b >= {}) continue;\n", found_.rows());
  switch (tiling_.runs) {
    case TileRuns::kAligned:
      return {
          used_rows() * of_row,
          dealt(tiling_) + fmt::format("    const u32 x = k * {};\n"
                                       "    if (b0 + b >= {} || c0 + x >= {}) continue;\n"
                                       "    const idx i = to + (b0 + b) * {} + c0 + x;\n",
                                       width, found_.rows(), found_.columns(), place_.loop_across)};
    case TileRuns::kAnywhere:
    case TileRuns::kLines:
      return {used_rows() * of_row, dealt(tiling_) + rows_end + run + begin(tiling_.ahead)};
    case TileRuns::kTensorRun:
      return {tiling_.rows * of_row,
              fmt::format("    const u32 k = n % {0}, b = n / {0};\n", of_row) + run +
                  begin(tiling_.ahead)};
    case TileRuns::kLoopRun:
      return {std::min(tiling_.rows * tiling_.columns / width,
                       ceil_div(found_.rows() * tiling_.columns + tiling_.sector - 1, width)),
              fmt::format("    const idx first = b0 * {0} + n * {1} - near;\n"
                          "    const u32 x = with_gaps(n * {1} + {2});\n"
                          "    const idx i = to + first;\n",
                          tiling_.columns, width, (tiling_.ahead + width) * tiling_.columns)};
  }
  return {};
}

// A loop over groups, dealt out to the threads of the block.
std::string TileWriter::loop_over(std::uint64_t groups, unsigned unrolled,
                                  const std::string& body) const {
  return fmt::format("#pragma unroll {}\n  for (u32 n = threadIdx.x; n < {}; n += {}) {{\n{}  }}\n",
                     unrolled, groups, threads(), body);
}

std::string TileWriter::load_words(TensorId tensor, const std::string& tile) {
  const Tensor& read = code_.view().tensor(tensor);
  const std::uint64_t packs = ceil_div(used_rows(), tiling_.width);
  const std::uint64_t shared = shared_columns(read.type.dtype, tiling_.width);
  const bool aligned = tiling_.runs == TileRuns::kAligned;
  const auto fill = [&](bool inside) {
    return fmt::format("fill_words<{}, {}, {}>({}, q, b, {}, at, {}, c, {}, {})", tiling_.width,
                       aligned, inside, tile, code_.parameters().input(tensor), found_.pitch(),
                       found_.columns(), read.elements);
  };
  const std::string loop = loop_over(
      word_groups(read.type.dtype), aligned ? 2 : together_,
      fmt::format("    const u32 b = n % {0} * {1}, q = n / {0};\n"
                  "    if (b0 + b >= {2}) continue;\n"
                  "    const idx c = c0 + q * {3} - {4};\n"
                  "    const idx at = from + c * {5} + b0 + b;\n"
                  "    {6};\n",
                  packs, tiling_.width, found_.rows(), shared, tiling_.ahead, found_.pitch(),
                  aligned ? fill(false) : "inside ? " + fill(true) + " : " + fill(false)));
  if (aligned) return loop;
  return fmt::format(
      "  {{\n  const bool inside = c0 >= {0} && c0 + {1} <= {2} &&\n"
      "                      from + (c0 + {3}) * {4} + {5} <= {6};\n{7}  }}\n",
      tiling_.ahead, tiling_.columns, found_.columns(), tiling_.columns - 1, found_.pitch(),
      found_.rows() + 2 * tiling_.width, read.elements, loop);
}

std::string TileWriter::load_lines(TensorId tensor, const std::string& tile) {
  const std::uint64_t lines = tiling_.columns + tiling_.ahead;
  const bool whole = tiling_.pitch == tiling_.rows;
  const std::uint64_t length = whole ? lines * tiling_.pitch : tiling_.rows;
  return fmt::format("  fill_lines<{}, {}, {}, {}>({}, {}, start, {}, {}, {});\n",
                     whole ? 1 : lines, length, tiling_.pitch, threads(), tile,
                     code_.parameters().input(tensor), found_.pitch(),
                     whole ? fmt::format("{}", length)
                           : fmt::format("b0 + {0} < {1} ? {0} : {1} - b0", length, found_.rows()),
                     code_.view().tensor(tensor).elements);
}

std::string TileWriter::load_run(TensorId tensor, const std::string& tile) {
  const Tensor& read = code_.view().tensor(tensor);
  const Groups groups = groups_of_run();
  return loop_over(
      groups.count, 4,
      groups.text + fmt::format("    const Pack<{0}, {1}> group = load_within<{1}>({3}, at, {4});\n"
                                "#pragma unroll\n    for (int j = 0; j < {1}; ++j) {{\n"
                                "      {2}[{5}] = to_compute(group.v[j]);\n    }}\n",
                                stored_type(read.type.dtype), tiling_.width, tile,
                                code_.parameters().input(tensor), read.elements, groups.element));
}

std::string TileWriter::stores(const Roots& roots, const Loop& loop) {
  const auto body = [&](unsigned width, std::string_view indent) {
    CodeBlock block = block_of(width);
    store_full({code_, loop, block}, roots.full);
    return block.text(indent);
  };
  const Groups groups = groups_of_loop();
  const auto width = static_cast<unsigned>(tiling_.width);
  if (tiling_.runs == TileRuns::kAligned) {
    return loop_over(groups.count, 2, groups.text + body(width, "    "));
  }
  const std::uint64_t most =
      found_.columns() * (tiling_.runs == TileRuns::kLoopRun ? found_.rows() : 1);
  return loop_over(
      groups.count, begin_anywhere() ? 1 : 2,
      groups.text +
          fmt::format("    if (first < {0} && {0} - first >= {1}) {{\n{2}      continue;\n    }}\n"
                      "    const idx group = i;\n    const u32 place = x;\n"
                      "    for (u32 e = 0; e < {1}; ++e) {{\n"
                      "      if (first + e >= {0}) continue;\n"
                      "      const idx i = group + e;\n      const u32 x = place + e;\n{3}    }}\n",
                      most, width, body(width, "      "), body(1, "      ")));
}

std::string TileWriter::declarations(const TransposedTiles& tiles) const {
  std::string text;
  if (tiling_.runs == TileRuns::kLines) {
    text = "  extern __shared__ __align__(16) u8 shared[];\n";
    std::uint64_t at = 0;
    for (const auto& [tensor, name] : tiles.names) {
      text += fmt::format("  {0}* const {1} = reinterpret_cast<{0}*>(shared + {2});\n",
                          stored_type(code_.view().tensor(tensor).type.dtype), name, at);
      at += tiling_.words * sizeof(float);
    }
    return text;
  }
  for (const auto& [tensor, name] : tiles.names) {
    const DType dtype = code_.view().tensor(tensor).type.dtype;
    const std::string_view type = !in_words()              ? name_of(compute_type(dtype))
                                  : word_bytes(dtype) == 8 ? "u64"
                                                           : "u32";
    text += fmt::format("  __shared__ alignas(16) {} {}[{}];\n", type, name, words_of(dtype));
  }
  return text;
}

GeneratedKernel TileWriter::write(const Roots& roots) {
  Loop loop;
  loop.element = group_index();
  loop.tiles = {.map = found_.map,
                .names = {},
                .width = static_cast<unsigned>(tiling_.width),
                .aligned = tiling_.runs == TileRuns::kAligned,
                .element = element_of_run()};
  std::string loads;
  for (const TensorId tensor : found_.tensors) {
    const std::string name = fmt::format("tile{}", tensor);
    loop.tiles.names[tensor] = name;
    loads += in_words()                         ? load_words(tensor, name)
             : tiling_.runs == TileRuns::kLines ? load_lines(tensor, name)
                                                : load_run(tensor, name);
  }
  if (tiling_.runs == TileRuns::kLines) loads += "  end_copy_group();\n  wait_for_copies<0>();\n";
  const std::string moved = start_of_run() + loads + "  __syncthreads();\n" + stores(roots, loop);
  GeneratedKernel result;
  result.source.text = fmt::format(
      "{}constexpr u32 kTileRows = {};\n{}\n"
      "extern \"C\" __global__ void __launch_bounds__({}) fused({}) {{\n{}{}"
      "  const idx from = {};\n  const idx to = {};\n{}}}\n",
      preamble(code_.view().graph(), space_), tiling_.rows, embedded_kernel("transposed"),
      threads(), code_.parameters().declarations(), declarations(loop.tiles), tile_of_block(),
      place_.tensor.text("outer"), place_.loop.text("outer"), moved);
  result.source.entries = {"fused"};
  result.storages = code_.parameters().storages();
  result.threads = threads();
  if (tiling_.runs == TileRuns::kLines) {
    const std::uint64_t words = found_.tensors.size() * tiling_.words;
    result.shared_bytes = static_cast<std::uint32_t>(words * sizeof(float));
  }
  result.blocks =
      row_sets() * tiles_of_set() * column_tiles() * (space_ / found_.rows() / found_.columns());
  result.schedule =
      fmt::format("tiles of {} by {}, transposed on chip{}", tiling_.rows, tiling_.columns,
                  together_ > 1 ? fmt::format(", {} loads at once", together_) : "");
  return result;
}

}  // namespace

std::optional<GeneratedKernel> generate_transposition(const KernelView& kernel, const Roots& roots,
                                                      const CodeBlock& block, std::uint64_t space) {
  const auto found = find_transposition(kernel, block, space);
  if (!found) return std::nullopt;
  TileWriter writer(kernel, *found, space, block.width);
  GeneratedKernel first = writer.write(roots);
  // On an H200 bf16 503841 x 501 takes 314 us by one and 282 by two, f32 2650696 x 33 197 and 199.
  if (writer.has_ways()) {
    first.others.push_back(TileWriter(kernel, *found, space, block.width, 2).write(roots));
  }
  return first;
}

}  // namespace fusecalc
