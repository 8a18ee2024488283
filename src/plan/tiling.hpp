#pragma once

#include <algorithm>
#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/ceil_div.hpp"
#include "core/dtype.hpp"
#include "device/device.hpp"
#include "graph/shape.hpp"

namespace fusecalc {

// How products are distributed over blocks and threads of kernels/contract_*.cuh: pure arithmetic,
// with figures measured on an H200.

constexpr std::uint64_t kScaledAtOnce = 128;  // columns whose sums of a step are scaled at once

// result[m][n] = sum over k of a[m][k] b[k][n], in batches.
struct ProductShape {
  // What most groups of rows have at least and at most, an even share of the rows being 32 parts.
  static constexpr std::uint64_t kLeastShare = 24, kEvenShare = 32, kMostShare = 40;

  std::uint64_t m = 1;
  std::uint64_t n = 1;
  std::uint64_t k = 1;
  std::uint64_t batches = 1;
  bool b_across = false;  // b lies as [k][n]
  bool a_across = false;  // a lies as [k][m]
  bool halves = false;    // a tile has as many columns of the second half as of the first
  bool of_bytes = false;  // elements are single bytes
  bool exact = false;     // each product of 32-bit floats is three of tf32 (exact_steps.cuh)
  bool grouped = false;   // batches are groups of rows, whose matrices of b follow each other
  // Where the sums of each step are scaled: neighbouring columns that have one scale; else 0.
  std::uint64_t scaled_columns = 0;
  // Where n counts those of several products, that have no tile in common: each one's.
  std::vector<std::uint64_t> parts{};
  auto operator<=>(const ProductShape&) const = default;

  // Tiles of this width side by side.
  std::uint64_t column_tiles(std::uint64_t width) const {
    std::uint64_t tiles = parts.empty() ? ceil_div(n, width) : 0;
    for (const std::uint64_t columns : parts) tiles += ceil_div(columns, width);
    return tiles;
  }
  // Tiles of so many rows above each other, of all batches. Groups of rows count as if they had
  // from three quarters to five quarters of an even share, and begin with a tile of their own.
  std::uint64_t row_tiles(std::uint64_t rows) const {
    if (!grouped) return ceil_div(m, rows) * batches;
    std::uint64_t tiles = 0;
    for (std::uint64_t share = kLeastShare; share <= kMostShare; ++share) {
      tiles += ceil_div(m * share, kEvenShare * rows);
    }
    return ceil_div(tiles * batches, kMostShare - kLeastShare + 1);
  }
  // Those of one batch, or of the largest such group.
  std::uint64_t most_row_tiles(std::uint64_t rows) const {
    return grouped ? ceil_div(m * kMostShare, kEvenShare * rows) : ceil_div(m, rows);
  }
  // Whether lanes may hold neighbours (LinesOfB::kInOrder in contract_sm90.cuh).
  bool in_order() const {
    return !b_across && (batches == 1 || grouped) && n % 8 == 0 &&
           std::ranges::all_of(parts, [](std::uint64_t columns) { return columns % 8 == 0; });
  }
  // Whether columns that are scaled at once have one scale.
  bool scales_together() const {
    return scaled_columns >= n || scaled_columns % kScaledAtOnce == 0;
  }
  double flops() const {
    return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) *
           static_cast<double>(batches);
  }
  // Whether some lines of 16-bit operands do not start where a line of the L2 does, so that a box
  // lies in two of those.
  constexpr bool straddles() const { return k % 64 != 0 || (b_across && n % 64 != 0); }
};

// The same bytes as products of 16-bit elements, for which tiles were measured.
inline ProductShape in_halves(ProductShape shape, std::uint64_t element_bytes, bool exact) {
  shape.k = ceil_div(shape.k * element_bytes, 2);
  shape.of_bytes = element_bytes == 1;
  shape.exact = exact;
  return shape;
}
inline ProductShape in_halves(const ProductShape& shape, DType type) {
  return in_halves(shape, bytes_of(type, 1), type == DType::kF32);
}

// A product of rows in groups, as one batch for each of them that has rows, all equally many.
inline ProductShape grouped_shape(ProductShape shape, std::uint64_t groups) {
  shape.batches = std::max<std::uint64_t>(1, std::min(groups, shape.m));
  shape.m = ceil_div(shape.m, shape.batches);
  shape.grouped = true;
  return shape;
}

constexpr std::uint64_t kTileRows = 128;  // of most of contract_sm90's tiles
constexpr std::uint64_t kBoxBytes = 128;  // of k, in a box that the copy engine brings
constexpr std::size_t kMostTerms = 4;     // that tiles have shared memory for, of each column

// A size of contract_sm90's tiles, and what a tile takes.
struct TileWidth {
  std::uint64_t columns = 0;
  std::uint64_t stages = 0;
  double step = 0;    // cycles, to multiply 64 of k for a column
  double beside = 0;  // cycles, to start a tile and to store it
  std::uint64_t rows = kTileRows;

  bool high() const { return rows > kTileRows; }
  bool low() const { return rows < kTileRows; }
  // Warpgroups that multiply.
  std::uint64_t consumers() const { return high() ? rows / 64 : 2; }
  // Whether they share a tile; they alternate otherwise.
  bool shared() const { return (columns >= 192 && !low()) || high(); }
  // Whether shared memory is left for terms of columns.
  bool keeps_terms() const { return columns <= 256; }
  // Whether registers are left for an operand that is loaded ahead.
  bool loads_ahead() const { return shared() && columns <= (high() ? 128 : 256); }
  // Stages, and the bytes of one, with its barriers. Behind exact operands lie B's parts.
  std::uint64_t stages_of(const ProductShape& product) const {
    return !product.exact ? stages : product.b_across ? 3 : 4;
  }
  std::uint64_t stage_bytes(const ProductShape& product) const {
    const std::uint64_t more = !product.exact ? 0 : product.b_across ? 2 : 1;
    return (rows + (1 + more) * columns) * kBoxBytes + (product.exact ? 24 : 16);
  }
};

// How contract_sm90's blocks share a product. A cluster's tiles lie above each other, whose blocks
// share columns of B, and side by side, whose blocks share rows of A.
struct ProductTiling {
  TileWidth width{};
  std::uint64_t above = 1;
  std::uint64_t beside = 1;

  std::uint64_t blocks() const { return above * beside; }
  // What a cluster's tiles cover together.
  std::uint64_t rows() const { return width.rows * above; }
  std::uint64_t columns() const { return width.columns * beside; }
  // Of a product, one after the other, in each of which every cluster has tiles.
  std::uint64_t clusters(const ProductShape& product) const {
    return product.row_tiles(rows()) * ceil_div(product.column_tiles(width.columns), beside);
  }
  // Clusters that run at once.
  std::uint64_t at_once(std::uint64_t multiprocessors) const;
  std::uint64_t rounds(const ProductShape& product, std::uint64_t multiprocessors) const {
    return ceil_div(clusters(product), at_once(multiprocessors));
  }
  // Lines of the operands that a block fetches for a box's length of k.
  std::uint64_t lines() const { return width.rows / beside + width.columns / above; }
  // Row units that contract_sm90 walks together before the next columns of B.
  std::uint64_t group(const ProductShape& product) const;
};

// Cycles in which a block gets from the L2 what it multiplies for 64 of k.
double fetch_cycles(const ProductShape& product, const ProductTiling& tiling,
                    std::uint64_t multiprocessors);

// What a tile does beside its products.
struct TileWork {
  double reads = 0;         // tensors as large as the result that the epilogue reads
  double epilogue = 0;      // cycles of its instructions, for each of the tile's columns
  double made = 0;          // cycles in which a block makes its rows of A for 64 of k
  double slowdown = 0.306;  // of the clock, once tensor cores that always work have warmed up
};

// What a product takes in a tiling, from the start of its first block to the end of its last.
double tiling_cycles(const ProductShape& product, const ProductTiling& tiling,
                     std::uint64_t multiprocessors, const TileWork& work);

// Those that take about the least time, the best first; `reading`: the epilogue reads a tensor as
// large as the result.
std::vector<ProductTiling> product_tilings(const ProductShape& product,
                                           std::uint64_t multiprocessors, bool reading);
// Whether a product of few rows by lines of B across k has so many columns that low tiles, which
// blocks take one after the other, are better than a block for each.
bool fills_low_tiles(const ProductShape& product, std::uint64_t multiprocessors);
// What the first of them takes.
double product_cycles(const ProductShape& product, std::uint64_t multiprocessors, bool reading);

// The same where tiles make their rows of A (prologue.cuh): they are as wide as they get, and
// blocks side by side share what they make.
ProductTiling made_tiling(const ProductShape& product);

// A convolution whose windows the copy engine could gather (convolve_sm90).
struct ConvolutionSize {
  std::uint64_t images = 1;
  std::uint64_t groups = 1;
  std::uint64_t channels = 1;  // of a group's input
  std::uint64_t filters = 1;   // of a group's result
  std::uint64_t taps = 1;
  std::uint64_t in = 1;  // pixels of an image
  std::uint64_t out = 1;
  bool channels_last = false;  // in the input; otherwise it is copied first
  bool weights_last = false;   // likewise
  std::uint64_t bytes = 2;     // of an element
  bool exact = false;          // as for ProductShape

  // Channels that a step of k has of a tap.
  std::uint64_t box() const { return kBoxBytes / bytes; }
  // That of the filters and of what the windows of all pixels cover; boxes of channels are filled
  // up with zeros.
  ProductShape product() const;
  // How many groups of few channels are multiplied as one, whose filters have weights of zero for
  // the channels of the others.
  std::uint64_t together() const;
  // With those groups as one.
  ConvolutionSize merged() const;
  // Whether single elements are products of matrices, an image each: their lines are what the copy
  // engine takes, and no tile is mostly empty.
  bool has_pixel_products() const;
  // Whether the weights are copied first: not where they lie as the tiles take them.
  bool packs_weights() const {
    return !weights_last || channels % (taps > 1 ? box() : 16 / bytes) != 0;
  }
};
constexpr std::uint64_t kBoxChannels = 64;  // of 16-bit elements
// With fewer in an image, the tiles of a product for each image are mostly empty.
constexpr std::uint64_t kFewPixels = 192;

// Element types whose windows it gathers.
inline bool has_window_tiles(DType type) {
  return type == DType::kBf16 || type == DType::kF16 || type == DType::kF32 || type == DType::kTf32;
}

// Whether arithmetic takes longer than to copy the input, and tiles are not mostly empty.
bool repays_gathering(const ConvolutionSize& size, std::uint64_t multiprocessors);

// Whether lines of its pixels are no whole words, so that they should be put together in shared
// memory on their way to memory (store_flat in convolve_sm90.cuh).
bool leaves_through_shared(const ConvolutionSize& size);

// Whether pixels of all images are the rows of its tiles, if its result leaves with its channels
// last, rather than the columns.
bool has_pixel_rows(const ConvolutionSize& size);

// How blocks of convolve_sm90 share that product.
struct WindowTiles {
  std::uint64_t rows = 128;
  std::uint64_t columns = 256;
  std::uint64_t stages = 4;
  std::uint64_t cluster = 1;
};
// Blocks of a cluster of convolve_few_sm90 that share k, of tiles of 64 x 64: 1 where those of
// window_tiles() are enough for most multiprocessors.
std::uint64_t window_split(const ConvolutionSize& size, std::uint64_t multiprocessors);

// Tiles of convolve_sm80, filters by pixels: low ones where they leave less of the last one empty.
struct FilterTiles {
  std::uint64_t rows = 64;
  std::uint64_t columns = 256;
};
FilterTiles filter_tiles(std::uint64_t filters);

// Blocks of a cluster of convolve_sm80 that share the depth of each of so many tiles, in steps of
// 64 bytes: 1 where there are tiles for most multiprocessors, or no clusters.
std::uint64_t depth_split(std::uint64_t tiles, std::uint64_t steps, const Device& device);

// Tiles of convolve_few_sm90, of which a block has one.
struct SmallTiles {
  std::uint64_t rows = 64;  // or 128
  std::uint64_t columns = 64;
  std::uint64_t split = 1;     // blocks that share k
  std::uint64_t resident = 1;  // blocks that a multiprocessor runs at once
  std::uint64_t stages = 12;

  std::uint64_t threads() const { return 2 * rows + 64; }
  std::uint64_t stage_bytes() const { return (rows + columns) * kBoxBytes + 16; }
  // `terms`: numbers that are kept of each column.
  std::uint64_t shared_bytes(std::uint64_t terms) const {
    return stages * stage_bytes() + columns * terms * 4;
  }
};
// Those in which all of a product's tiles run at once, the ones that take about the least time, the
// best first; nothing where there are more tiles. Columns are filters, in wholes of 32.
std::vector<SmallTiles> small_tiles(const ProductShape& product, const Device& device);
// `through_shared`: results leave through shared memory.
WindowTiles window_tiles(const ConvolutionSize& size, bool through_shared,
                         std::uint64_t multiprocessors);

// A convolution of single elements of 16 bits, whose channels follow each other without gaps
// (convolve_pixels_sm90).
struct PixelSize {
  std::uint64_t images = 1;
  std::uint64_t channels = 1;
  std::uint64_t filters = 1;
  std::uint64_t pixels = 1;  // of an image
};
// Whether a warpgroup should copy the pixels to the tiles, of which none is mostly empty.
bool repays_copies(const PixelSize& size);

// How blocks share that product, whose columns are those of whole tiles.
struct PixelTiles {
  std::uint64_t rows = 128;
  std::uint64_t columns = 128;
  std::uint64_t stages = 6;
  std::uint64_t all_columns = 128;

  // Lines of shared memory, of a stage.
  std::uint64_t lines() const { return rows + ceil_div(columns, 64) * 64; }
};
PixelTiles pixel_tiles(const PixelSize& size);

// A convolution of one channel in a group, of two axes.
struct PlaneShape {
  std::uint64_t images = 1;
  std::uint64_t groups = 1;   // planes of an image
  std::uint64_t filters = 1;  // of a plane
  std::array<std::uint64_t, 2> in{1, 1};
  std::array<std::uint64_t, 2> out{1, 1};
  std::array<std::uint64_t, 2> taps{1, 1};
  std::array<std::uint64_t, 2> stride{1, 1};
  std::array<std::uint64_t, 2> padding{0, 0};
  std::array<std::uint64_t, 2> dilation{1, 1};

  std::uint64_t planes() const { return images * groups; }
  // Lines of the input that so many neighbours along an axis of the result take.
  std::uint64_t covered(std::size_t axis, std::uint64_t results) const {
    return (results - 1) * stride.at(axis) + (taps.at(axis) - 1) * dilation.at(axis) + 1;
  }
};
// How blocks of convolve_planes share it: planes of a block, and what a thread computes of one
// filter's.
struct PlaneTiles {
  static constexpr std::uint64_t kThreads = 128;
  std::uint64_t planes = 1;
  std::uint64_t lines = 1;
  std::uint64_t columns = 1;
  std::uint64_t align = 1;  // of lines of the input, in elements
  std::uint64_t shared_bytes = 0;
};
// Nothing where a few blocks of them would fill a multiprocessor's shared memory. `bytes`: of an
// element of the input; `result_bytes`: of one that is stored as a stream, or 0 where sums are left
// for the epilogue.
std::optional<PlaneTiles> plane_tiles(const PlaneShape& shape, std::uint64_t bytes,
                                      std::uint64_t result_bytes, std::uint64_t multiprocessors);

// How blocks of convolve_planes_mma share it, with 16-bit elements and lines of an even number of
// them: a block has so many planes of so many images, one image after the other.
struct PlaneBands {
  std::uint64_t planes = 1;
  std::uint64_t lines = 1;  // of the result, that take what a load of eight lines brings
  std::uint64_t share = 1;  // warps of a plane of the result
  std::uint64_t images = 1;
  std::uint64_t together = 1;  // images of a stage
  std::uint64_t stages = 1;
  std::uint64_t resident = 1;  // blocks that a multiprocessor runs at once
  std::uint64_t shared_bytes = 0;

  std::uint64_t threads(const PlaneShape& shape) const {
    return 32 * planes * shape.filters * share;
  }
  std::uint64_t blocks(const PlaneShape& shape) const {
    return ceil_div(shape.groups, planes) * ceil_div(shape.images, images);
  }
};
// Nothing where a band of weights is too wide, planes of an image begin at no multiples of 16
// bytes, or a multiprocessor would hold few of them.
std::optional<PlaneBands> plane_bands(const PlaneShape& shape, std::uint64_t result_bytes,
                                      const Device& device);

// A convolution of one channel in a group and one filter for it, of two axes, whose channels lie
// last.
struct LastShape {
  std::uint64_t images = 1;
  std::uint64_t channels = 1;
  std::array<std::uint64_t, 2> in{1, 1};
  std::array<std::uint64_t, 2> out{1, 1};
  std::array<std::uint64_t, 2> taps{1, 1};
  std::array<std::uint64_t, 2> stride{1, 1};
  std::array<std::uint64_t, 2> padding{0, 0};
  std::array<std::uint64_t, 2> dilation{1, 1};
  std::uint64_t bytes = 2;  // of an element of the input

  // Of the input, that so many neighbours along an axis of the result take.
  std::uint64_t covered(std::size_t axis, std::uint64_t results) const {
    return (results - 1) * stride.at(axis) + (taps.at(axis) - 1) * dilation.at(axis) + 1;
  }
};

// Row units that are walked together: their part of A stays in the L2 while B streams through.
std::uint64_t group_of(const ProductShape& product, std::uint64_t unit_rows, std::uint64_t bytes);

// Columns of a block of contract_skinny_sm90, and the blocks that share its k.
constexpr std::uint64_t kSkinnyColumns = 64;
std::uint64_t skinny_split(const ProductShape& product, std::uint64_t multiprocessors);

// How contract_nibbles spreads lines of B over its warps: line_warps have different ones, each
// line_tiles of 16, and depth_warps share k.
struct PackedTiling {
  std::uint64_t line_warps = 1;
  std::uint64_t depth_warps = 8;
  std::uint64_t line_tiles = 2;
  std::uint64_t stages = 3;

  std::uint64_t threads() const { return 32 * line_warps * depth_warps; }
  std::uint64_t lines() const { return 16 * line_tiles * line_warps; }
  std::uint64_t depth() const { return 128 * depth_warps; }  // of k, of a stage
  // With so many rows, and functions of so many neighbours.
  std::uint64_t shared_bytes(std::uint64_t rows, std::uint64_t group) const {
    const std::uint64_t stage = depth() * (lines() / 2 + rows * 2);
    return stages * stage + 2 * (lines() * depth() / group) * 8;
  }
};
// Of those that fit on chip, the ones that take about the least time for so many rows and lines,
// the best first.
std::vector<PackedTiling> packed_tilings(std::uint64_t rows, std::uint64_t lines,
                                         std::uint64_t multiprocessors, std::uint64_t on_chip_bytes,
                                         std::uint64_t group);

// Threads of a block of contract_vector, those of them to a row, blocks to a row.
struct VectorSplit {
  std::uint64_t threads = 512;
  std::uint64_t lanes = 512;
  std::uint64_t split = 1;
};
VectorSplit vector_split(std::uint64_t rows, std::uint64_t packs, std::uint64_t multiprocessors);

// How many blocks hold a row together: a cluster of so many runs on every device that has clusters.
// They share rows that lie in memory as a whole.
inline unsigned row_cluster(const RowLayout& rows, ComputeCapability capability) {
  return rows.whole_rows() && capability >= kHopper ? 8 : 1;
}

// Blocks that hold long rows: how many a multiprocessor runs, their threads, and what each thread
// can spare of its registers.
struct RowBlock {
  unsigned resident;
  unsigned threads;
  unsigned register_bytes;
};
// The first that holds a row is taken: while some blocks read, others reduce or write.
inline constexpr unsigned kMostRowThreads = 1024;
inline constexpr std::array kRowBlocks = {RowBlock{3, 512, 0}, RowBlock{2, 512, 64},
                                          RowBlock{1, kMostRowThreads, 64}};

// Clusters of so many blocks that run at once: the multiprocessors of one are neighbours (of a GPC,
// which has 16 to 18 of them, and fills 16).
std::uint64_t running_clusters(std::uint64_t blocks, unsigned resident, unsigned multiprocessors);

// Blocks of a cluster, `least` to `most`, that read a row of so many rounds of one block in the
// least time: clusters run in waves.
std::uint64_t row_cluster_blocks(std::uint64_t rows, std::uint64_t rounds, std::uint64_t least,
                                 std::uint64_t most, unsigned resident, unsigned multiprocessors);

// How contract_rows_sm90 holds whole rows: tiles side by side in the blocks of a cluster.
struct RowTiling {
  std::uint64_t tile_n = 0;
  std::uint64_t cluster = 0;

  std::uint64_t stages() const { return tile_n == 256 ? 4 : tile_n == 192 ? 5 : 6; }
  // That the product takes, all in all.
  double cycles(const ProductShape& product, unsigned multiprocessors) const;
};

// Those that hold a row, the ones that take about the least time, the best first.
std::vector<RowTiling> row_tilings(const ProductShape& product, unsigned multiprocessors);

}  // namespace fusecalc
