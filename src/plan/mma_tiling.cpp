#include "plan/mma_tiling.hpp"

#include <algorithm>
#include <array>
#include <limits>

namespace fusecalc {
namespace {

// A tile, and cycles of 64 bytes of k: where others fill the multiprocessor, and alone on it.
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
      TileRow{exact || operands.made ? kLargeShifted : kLarge, 500, 900}, TileRow{kSmall, 200, 450}};
  constexpr double kBeside = 2500;
  constexpr double kMerge = 2500;
  const double steps =
      static_cast<double>(ceil_div(product.k * operands.bytes, std::uint64_t{64}));
  MmaTiling best{.tile = {}, .cycles = std::numeric_limits<double>::max()};
  for (const TileRow& row : rows) {
    for (const std::uint64_t split : {1U, 2U, 4U, 8U}) {
      if (split > 1 && (!operands.splits || steps < static_cast<double>(16 * split))) break;
      const std::uint64_t tiles = ceil_div(product.m, row.tile.rows) *
                                  product.column_tiles(row.tile.columns) * product.batches * split;
      const std::uint64_t each = ceil_div(tiles, std::max(1U, device.multiprocessors));
      const double cycles =
          steps / static_cast<double>(split) *
              std::max(row.alone, static_cast<double>(each) * row.step) +
          static_cast<double>(ceil_div(each, row.tile.blocks)) * kBeside + (split > 1 ? kMerge : 0);
      if (cycles < best.cycles) {
        best = {row.tile, cycles};
        best.tile.split = split;
      }
    }
  }
  return best;
}

}  // namespace fusecalc
