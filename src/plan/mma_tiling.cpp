#include "plan/mma_tiling.hpp"

#include <algorithm>
#include <array>
#include <limits>

namespace fusecalc {
namespace {

// A tile for some operands, and the cycles that it takes: for 64 bytes of k where others fill the
// multiprocessor, and alone on it; to start and to end.
struct TileRow {
  MmaTile tile;
  double step = 0;
  double alone = 0;
};

constexpr MmaTile kLarge{.warp_rows = 64, .stages = 3, .blocks = 2};
constexpr MmaTile kLargeShifted{.warp_rows = 32, .stages = 3, .blocks = 1};
constexpr MmaTile kSmall{.rows = 64,
                         .columns = 64,
                         .warp_rows = 32,
                         .groups = 2,
                         .line_bytes = 128,
                         .stages = 3,
                         .blocks = 2};

}  // namespace

MmaTiling mma_tiling(const ProductShape& product, const MmaOperands& operands,
                     const Device& device) {
  const bool exact = operands.kind == MmaKind::kExact;
  const std::array<TileRow, 2> rows = {
      TileRow{exact || operands.made ? kLargeShifted : kLarge, 450, 700},
      TileRow{kSmall, 170, 300}};
  constexpr double kBeside = 2500;
  const double steps = static_cast<double>(ceil_div(product.k * operands.bytes, std::uint64_t{64}));
  MmaTiling best{.tile = {}, .cycles = std::numeric_limits<double>::max()};
  for (const TileRow& row : rows) {
    const std::uint64_t tiles = ceil_div(product.m, row.tile.rows) *
                                product.column_tiles(row.tile.columns) * product.batches;
    const std::uint64_t each = ceil_div(tiles, std::max<std::uint64_t>(1, device.multiprocessors));
    const double cycles = steps * std::max(row.alone, static_cast<double>(each) * row.step) +
                          static_cast<double>(ceil_div(each, row.tile.blocks)) * kBeside;
    if (cycles < best.cycles) best = {row.tile, cycles};
  }
  return best;
}

}  // namespace fusecalc
