#include "plan/tiling.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "plan/measured.hpp"

namespace fusecalc {
namespace {

constexpr std::uint64_t kLowRows = 64;
constexpr std::uint64_t kExactColumns = 128;
constexpr std::uint64_t kNarrowColumns = 64;  // of tiles where wider ones would be few
constexpr std::uint64_t kMostAtOnce = 256;    // columns that a wgmma multiplies, or a box has lines

constexpr std::array kTileWidths = {
    TileWidth{96, 6, 4.56, 570},        TileWidth{128, 6, 4, 90},
    TileWidth{160, 6, 4, 470},          TileWidth{192, 5, 4, 980},
    TileWidth{224, 4, 4, 1400},         TileWidth{256, 4, 4, 1200},
    TileWidth{320, 4, 4, 3190},         TileWidth{128, 5, 6, 980, 192},
    TileWidth{128, 5, 2, 90, kLowRows}, TileWidth{256, 5, 2, 90, kLowRows},
    TileWidth{kNarrowColumns, 8, 4, 90}};
constexpr const TileWidth& kNarrowMade = kTileWidths[1];
constexpr const TileWidth& kWideMade = kTileWidths[5];

// Rows and columns of tiles.
constexpr std::array<std::pair<std::uint64_t, std::uint64_t>, 7> kClusters = {
    {{1, 1}, {2, 1}, {1, 2}, {3, 1}, {1, 4}, {2, 2}, {4, 1}}};

// B as [k][n] comes in boxes of 64 columns, of two halves in two of them, and so do columns of two
// halves of other lines. Half of more than 256 are no whole boxes, sums of so many are spilled
// where elements are single bytes, and places of groups have no room beside their stages.
bool has_width(const ProductShape& product, const TileWidth& width) {
  if (product.scaled_columns > 0) {
    return width.rows == kTileRows && width.columns % kScaledAtOnce == 0 &&
           width.columns <= 2 * kScaledAtOnce;
  }
  if (product.exact) return width.rows == kTileRows && width.columns == kExactColumns;
  if (width.low() && (product.m > width.rows || !product.b_across)) return false;
  const bool narrow = product.b_across || product.of_bytes || product.grouped;
  if (narrow && width.columns > kMostAtOnce) return false;
  const std::uint64_t boxes = product.b_across && product.halves ? 2 : 1;
  return !(product.b_across || product.halves) || width.columns % (64 * boxes) == 0;
}

// Whether blocks can share what they fetch. B's lines come in boxes of 32 or 64, which any number
// of blocks takes in turns, or each fetches as many, in one box; A's do, too, or come in boxes of
// 64.
bool divides(const ProductShape& product, const ProductTiling& tiling) {
  const bool in_boxes = product.b_across || product.in_order();
  const bool in_one = tiling.width.columns % (8 * tiling.above) == 0 &&
                      tiling.width.columns / tiling.above <= kMostAtOnce;
  return (in_boxes || in_one) &&
         tiling.width.rows / tiling.beside % (product.a_across ? 64 : 8) == 0;
}

}  // namespace

// All multiprocessors are in pairs of neighbours; clusters of three or four leave some out. On an
// H100 39 and 30 run at once, of 44 and 33.
std::uint64_t ProductTiling::at_once(std::uint64_t multiprocessors) const {
  const std::uint64_t filled = blocks() == 3   ? multiprocessors * 117 / 132
                               : blocks() == 4 ? multiprocessors * 120 / 132
                                               : multiprocessors;
  return std::max<std::uint64_t>(1, filled / blocks());
}

// All blocks share what the L2 gives, and none gets more than a multiprocessor takes. Narrow tiles,
// which all begin at once, read the same rows of A at about the same time: the L2 gives more then,
// and to share these rows with one other block is no gain.
double fetch_cycles(const ProductShape& product, const ProductTiling& tiling,
                    std::uint64_t multiprocessors) {
  constexpr double kMost = 80;          // bytes a cycle, of a multiprocessor
  constexpr double kEach = 43;          // that it gets if all work
  constexpr double kEachAtOnce = 58;    // with narrow tiles
  constexpr double kStraddling = 0.83;  // of that
  const bool narrow = tiling.width.columns == kNarrowColumns;
  const bool alone = narrow && tiling.beside == 2;
  const std::uint64_t lines =
      alone ? tiling.width.rows + tiling.width.columns / tiling.above : tiling.lines();
  const auto bytes = static_cast<double>(lines * kBoxBytes);
  const auto blocks = static_cast<double>(
      std::min(tiling.at_once(multiprocessors), tiling.clusters(product)) * tiling.blocks());
  const double each = (narrow ? kEachAtOnce : kEach) * (product.straddles() ? kStraddling : 1);
  return std::max(bytes / kMost, bytes * blocks / (each * static_cast<double>(multiprocessors)));
}

// Blocks work in rounds, all on a tile at a time, and the last round is seldom full. Fitted to
// 490 tilings of 80 products with an activation, a residual, a gate or siblings: 3.9 % off in the
// mean.
double tiling_cycles(const ProductShape& product, const ProductTiling& tiling,
                     std::uint64_t multiprocessors, const TileWork& work) {
  constexpr double kOnce = 3660;        // until clusters have met and the first stages are full
  constexpr double kUnhidden = 0.16;    // of the shorter one of multiplying and fetching
  constexpr double kRead = 9.4;         // for each column, to read 128 elements beside
  constexpr double kMultiplied = 4096;  // FLOPs of a cycle
  constexpr double kWarm = 1.9e6;       // cycles, after which the clock has fallen
  const auto steps = static_cast<double>(ceil_div(product.k, 64));
  const auto rounds = static_cast<double>(tiling.rounds(product, multiprocessors));
  const auto columns = static_cast<double>(tiling.width.columns);
  // Where the sums of a step are scaled: measured, and where each column has a scale of its own.
  constexpr double kScaled = 1.28, kScaledEach = 1.95;
  const double scaling = product.scaled_columns == 0 ? 1
                         : product.scales_together() ? kScaled
                                                     : kScaledEach;
  // Three products each, as fast as shared memory lets them: less where both parts of B are written
  // there, and where A is loaded by single words; and what is not hidden of a tile's end. Fitted to
  // 42 products.
  constexpr double kExact = 3.55, kExactOfB = 0.8, kExactOfA = 0.22, kExactEnd = 800;
  const double exact =
      kExact + (product.b_across ? kExactOfB : 0) + (product.a_across ? kExactOfA : 0);
  const double multiply = tiling.width.step * columns * (product.exact ? exact : scaling);
  const double fetch = std::max(fetch_cycles(product, tiling, multiprocessors), work.made);
  const double strips = static_cast<double>(tiling.width.rows) / kTileRows;
  const double beside = (product.exact ? kExactEnd : tiling.width.beside) +
                        columns * strips * (work.epilogue + kRead * work.reads);
  const auto all = [&](double slower) {
    const auto [shorter, longer] = std::minmax({multiply * slower, fetch});
    return kOnce + rounds * (steps * (longer + kUnhidden * shorter) + beside);
  };
  const double cool = all(1);
  const double load = product.flops() / (cool * kMultiplied * static_cast<double>(multiprocessors));
  return all(1 + work.slowdown * load * std::min(1.0, cool / kWarm));
}

std::vector<ProductTiling> product_tilings(const ProductShape& product,
                                           std::uint64_t multiprocessors, bool reading) {
  std::vector<std::pair<double, ProductTiling>> timed;
  for (const TileWidth& width : kTileWidths) {
    if (!has_width(product, width)) continue;
    // Of an empty product, one.
    const std::uint64_t row_tiles = std::max<std::uint64_t>(1, product.most_row_tiles(width.rows));
    const std::uint64_t column_tiles =
        std::max<std::uint64_t>(1, product.column_tiles(width.columns));
    for (const auto& [above, beside] : kClusters) {
      const ProductTiling tiling{width, above, beside};
      if (above > row_tiles || beside > column_tiles || !divides(product, tiling)) continue;
      if (tiling.blocks() == 1 && row_tiles > 1) continue;
      // The L2 is enough for few.
      const std::uint64_t tiles = row_tiles * column_tiles * product.batches;
      if (tiling.blocks() > std::min<std::uint64_t>(row_tiles, 2) && 2 * tiles < multiprocessors) {
        continue;
      }
      // The epilogue of high tiles is not hidden, and narrow ones fetch more for what they
      // multiply.
      const bool once = width.high() || width.columns == kNarrowColumns;
      if (once && tiling.rounds(product, multiprocessors) > 1) continue;
      const TileWork work{.reads = reading ? 1.0 : 0.0};
      timed.emplace_back(tiling_cycles(product, tiling, multiprocessors, work), tiling);
    }
  }
  return about_least(std::move(timed), {.most = 5, .times = 1.2});
}

bool fills_low_tiles(const ProductShape& product, std::uint64_t multiprocessors) {
  constexpr std::uint64_t kFewRows = 16, kFewColumns = 256;
  return product.b_across && product.m > kFewRows && product.m <= kLowRows &&
         product.n > kFewColumns &&
         product.batches * ceil_div(product.n, kFewColumns) >= multiprocessors;
}

double product_cycles(const ProductShape& product, std::uint64_t multiprocessors, bool reading) {
  return tiling_cycles(product, product_tilings(product, multiprocessors, reading).front(),
                       multiprocessors, {.reads = reading ? 1.0 : 0.0});
}

ProductTiling made_tiling(const ProductShape& product) {
  const TileWidth& width = product.n <= kNarrowMade.columns ? kNarrowMade : kWideMade;
  const std::uint64_t tiles = ceil_div(product.n, width.columns);
  const std::uint64_t above = product.m > kTileRows ? 2 : 1;
  if (tiles % 4 == 0) return {.width = width, .above = above, .beside = 4};
  if (tiles % 2 == 0) return {.width = width, .above = 1, .beside = 2};
  return {.width = width, .above = above};
}

std::uint64_t group_of(const ProductShape& product, std::uint64_t unit_rows, std::uint64_t bytes) {
  constexpr std::uint64_t kResident = std::uint64_t{16} << 20U;
  constexpr std::uint64_t kLeast = 8;
  // If all of B stays there, long groups only move A's rows further apart: 1 to 8 % slower.
  if (product.n * product.k * bytes <= kResident) return kLeast;
  return std::clamp<std::uint64_t>(
      kResident / std::max<std::uint64_t>(1, unit_rows * product.k * bytes), kLeast, 64);
}

// Where all of B stays in the L2, a row of tiles after the other: those of a group would be at work
// at different times, and its rows of A be read again. A residual of 16384 x 2048 x 2048 takes 175
// MB of reads then, and 221 in groups of 8.
std::uint64_t ProductTiling::group(const ProductShape& product) const {
  constexpr std::uint64_t kResidentOfA = std::uint64_t{8} << 20U;
  constexpr std::uint64_t kResidentOfB = std::uint64_t{16} << 20U;
  constexpr std::uint64_t kBytes = 2;  // of an element: shapes are in halves
  if (product.n * product.k * kBytes <= kResidentOfB) return 1;
  return std::clamp<std::uint64_t>(
      kResidentOfA / std::max<std::uint64_t>(1, rows() * product.k * kBytes), 8, 64);
}

// Two blocks fit on a multiprocessor. k is in parts where blocks are few, and halved, if it is
// long, where all still run at once or where few would run alone at the end: within 2 % of the
// fastest on the H200 for 1 to 64 rows, 16 to 2004 tiles and 2,048 to 28,672 of k.
std::uint64_t skinny_split(const ProductShape& product, std::uint64_t multiprocessors) {
  constexpr std::uint64_t kLong = 4096;
  const std::uint64_t at_once = 2 * multiprocessors;
  const std::uint64_t tiles = ceil_div(product.n, kSkinnyColumns) * product.batches;
  const auto has_room = [&](std::uint64_t split, std::uint64_t least_depth) {
    return tiles * split <= at_once * 3 / 4 && product.k / split >= least_depth;
  };
  if (has_room(8, 1024)) return 8;
  if (has_room(4, 256)) return 4;
  if (has_room(2, 256)) return 2;
  const bool few_at_the_end = tiles > at_once && tiles % at_once <= at_once / 4;
  return product.k >= kLong && (2 * tiles <= at_once || few_at_the_end) ? 2 : 1;
}

// Blocks run in rounds, and each takes as long to start and to end as for so many lines; with more
// than eight rows that is what it takes to copy A.
std::vector<PackedTiling> packed_tilings(std::uint64_t rows, std::uint64_t lines,
                                         std::uint64_t multiprocessors, std::uint64_t on_chip_bytes,
                                         std::uint64_t group) {
  const bool few = rows <= 8;
  std::vector<PackedTiling> candidates = {{2, 4, 7, 2}, {2, 4, 6, 2}, {2, 4, 5, 2}, {2, 4, 4, 2},
                                          {2, 4, 3, 3}, {4, 2, 2, 3}, {2, 4, 2, 3}};
  if (few) candidates.push_back({1, 8, 2, 3});
  std::vector<std::pair<double, PackedTiling>> timed;
  for (const PackedTiling& tiling : candidates) {
    if (tiling.shared_bytes(rows, group) > on_chip_bytes) continue;
    const std::uint64_t rounds = ceil_div(ceil_div(lines, tiling.lines()), multiprocessors);
    timed.emplace_back(static_cast<double>(rounds * (tiling.lines() + (few ? 10 : 142))), tiling);
  }
  return about_least(std::move(timed));
}

// Enough threads must be active to saturate memory, and each should have a few packs.
VectorSplit vector_split(std::uint64_t rows, std::uint64_t packs, std::uint64_t multiprocessors) {
  if (packs <= 64) return {.threads = 256, .lanes = 8};
  if (rows * 32 >= multiprocessors * 512) return {.threads = 256, .lanes = 32};
  constexpr std::uint64_t kLeastPacks = 2048;  // of a block that shares a row
  const std::uint64_t parts = std::max<std::uint64_t>(1, packs / kLeastPacks);
  return {.split = std::clamp<std::uint64_t>(2 * multiprocessors / rows, 1, parts)};
}

// Clusters of work are taken in rounds. What follows a tile's steps takes longer than those of a
// short k; rows that end within a tile take a slower path.
double RowTiling::cycles(const ProductShape& product, unsigned multiprocessors) const {
  constexpr double kColumn = 40;   // cycles of what follows, for each of a tile's
  constexpr double kWithin = 1.5;  // times as long
  constexpr double kSlower = 1.1;  // times as long, to fetch
  const std::uint64_t tiles = ceil_div(product.m, kTileRows) * product.batches;
  const ProductTiling fetched{{tile_n, 0, 0, 0}, 1, cluster};
  const std::uint64_t rounds = ceil_div(tiles, fetched.at_once(multiprocessors));
  const double step = std::max(4 * static_cast<double>(tile_n),
                               kSlower * fetch_cycles(product, fetched, multiprocessors));
  const bool within = product.n % tile_n != 0;
  return static_cast<double>(rounds) *
         (static_cast<double>(ceil_div(product.k, 64)) * step +
          kColumn * (within ? kWithin : 1) * static_cast<double>(tile_n));
}

std::vector<RowTiling> row_tilings(const ProductShape& product, unsigned multiprocessors) {
  constexpr std::uint64_t kMostBlocks = 4;
  std::vector<std::pair<double, RowTiling>> timed;
  constexpr double kTwice = 2;  // what follows differs too much
  for (const std::uint64_t tile_n : {128U, 192U, 256U}) {
    const RowTiling tiling{tile_n, ceil_div(product.n, tile_n)};
    if (tiling.cluster > kMostBlocks) continue;
    timed.emplace_back(tiling.cycles(product, multiprocessors), tiling);
  }
  return about_least(std::move(timed), {.times = kTwice});
}

std::uint64_t running_clusters(std::uint64_t blocks, unsigned resident, unsigned multiprocessors) {
  constexpr std::uint64_t kFilled = 16;      // multiprocessors of a GPC
  constexpr std::uint64_t kNeighbours = 17;  // that it has, in the mean
  if (blocks == 1) return std::uint64_t{resident} * multiprocessors;
  return std::max<std::uint64_t>(1, resident * kFilled / blocks * multiprocessors / kNeighbours);
}

std::uint64_t row_cluster_blocks(std::uint64_t rows, std::uint64_t rounds, std::uint64_t least,
                                 std::uint64_t most, unsigned resident, unsigned multiprocessors) {
  const auto time = [&](std::uint64_t blocks) {
    return ceil_div(rows, running_clusters(blocks, resident, multiprocessors)) *
           ceil_div(rounds, blocks);
  };
  std::uint64_t best = least;
  for (std::uint64_t blocks = least + 1; blocks <= most; ++blocks) {
    // More blocks have more to tell each other.
    if (10 * time(blocks) < 9 * time(best)) best = blocks;
  }
  return best;
}

}  // namespace fusecalc
