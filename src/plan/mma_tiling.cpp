#include "plan/mma_tiling.hpp"

#include <algorithm>
#include <array>
#include <limits>

namespace fusecalc {
namespace {

// What a tile takes for 64 bytes of k, in cycles: alone on its multiprocessor, and more for each
// other one there. 0: not for these operands.
struct Cost {
  double alone = 0;
  double more = 0;
};

// Operands that differ in what a step of them takes.
enum Operands : std::uint8_t {
  kBy16,  // of up to 16 bits, by the bytes of a piece
  kBy8,
  kBy4,
  kBy2,
  kTf32,
  kTf32By4,
  kExact,
  kExactBy4,
  kOperands
};

struct TileRow {
  MmaTile tile;
  std::array<Cost, kOperands> costs;
};

// Wide tiles read the fewest bytes of shared memory for a product, small ones fill the device where
// there are few; these take the least shared memory, and come last. Warps of 32 rows leave
// registers for both parts of exact operands, and for what prologues load ahead.
constexpr std::array kTiles = {
    TileRow{{.columns = 256},
            {{{1085, 1085}, {1500, 1500}, {1880, 1880}, {2560, 2560}, {}, {}, {}, {}}}},
    TileRow{{.stages = 3, .blocks = 2},
            {{{950, 590}, {1200, 800}, {1440, 1080}, {2000, 1460}, {1000, 680}, {1500, 1030}}}},
    TileRow{{.warp_rows = 32, .stages = 3}, {{{}, {}, {}, {}, {}, {}, {1970, 1970}, {2190, 2190}}}},
    TileRow{
        {.rows = 64, .columns = 64, .warp_rows = 32, .groups = 2, .line_bytes = 128, .blocks = 2},
        {{{285, 196},
          {370, 280},
          {610, 460},
          {770, 570},
          {350, 230},
          {520, 360},
          {575, 540},
          {650, 600}}}}};
constexpr TileRow kMade{{.warp_rows = 32, .stages = 3},
                        {{{900, 900}, {1100, 1100}, {1400, 1400}, {1700, 1700}}}};

Operands column_of(const MmaOperands& operands) {
  const bool by4 = operands.piece < 8;
  switch (operands.kind) {
    case MmaKind::kExact: return by4 ? kExactBy4 : kExact;
    case MmaKind::kTf32: return by4 ? kTf32By4 : kTf32;
    case MmaKind::kNarrow: break;
  }
  return operands.piece >= 16         ? kBy16
         : operands.piece >= 8        ? kBy8
         : by4 && operands.piece >= 4 ? kBy4
                                      : kBy2;
}

// With as many stages as the device has room for; three are the least.
bool fits(MmaTile& tile, bool shifts, const Device& device) {
  constexpr std::uint64_t kLeastStages = 3;
  const auto over = [&] { return tile.shared_bytes(shifts, shifts) > device.on_chip_bytes; };
  while (tile.stages > kLeastStages && over()) --tile.stages;
  return !over();
}

std::uint64_t tiles_of(const MmaTile& tile, const ProductShape& product) {
  return product.row_tiles(tile.rows) * product.column_tiles(tile.columns);
}

// Cycles that tensor cores take for a step at 0.9 of their rate: more than those measured, where
// they are slower than an H100's.
double multiply_cycles(const MmaTile& tile, MmaKind kind, const Device& device) {
  constexpr double kShare = 0.9;
  const double products = kind == MmaKind::kExact ? 3 : 1;
  return static_cast<double>(tile.rows * tile.columns * 64) * products /
         (device.constants.tensor_flops.value * kShare);
}

// Blocks that may share a tile's k: of small tiles, and where these are few.
std::uint64_t most_blocks(const MmaTile& tile, const ProductShape& product,
                          const MmaOperands& operands, const Device& device) {
  constexpr std::uint64_t kMost = 8;
  constexpr std::uint64_t kLeastBytes = 512;  // of k, of a block
  const std::uint64_t tiles = tiles_of(tile, product);
  if (tile.groups == 1 || tiles >= device.multiprocessors || tiles == 0) return 1;
  return std::clamp<std::uint64_t>(
      product.k * operands.bytes / kLeastBytes, 1,
      std::min(kMost, std::uint64_t{2} * device.multiprocessors / tiles));
}

// All tiles, with blocks that share k: they leave their sums in memory, and the last adds them.
double cycles_of(const MmaTile& tile, const Cost& cost, const ProductShape& product,
                 const MmaOperands& operands, const Device& device) {
  constexpr double kStart = 800;  // and to end it
  constexpr double kMerge = 2600;
  constexpr double kMergeEach = 500;
  const std::uint64_t blocks = tiles_of(tile, product) * tile.split;
  const auto each =
      static_cast<double>(ceil_div(blocks, std::uint64_t{std::max(1U, device.multiprocessors)}));
  const auto steps = static_cast<double>(ceil_div(product.k * operands.bytes, 64 * tile.split));
  const double least = multiply_cycles(tile, operands.kind, device);
  return steps * (std::max(cost.alone, least) + (each - 1) * std::max(cost.more, least)) +
         each * kStart +
         (tile.split > 1 ? kMerge + kMergeEach * static_cast<double>(tile.split) : 0);
}

}  // namespace

MmaTiling mma_tiling(const ProductShape& product, const MmaOperands& operands,
                     const Device& device) {
  const Operands column = column_of(operands);
  MmaTiling best{.tile = {}, .cycles = std::numeric_limits<double>::max()};
  // `last`: there is no other to fall back on.
  const auto consider = [&](const TileRow& row, bool last) {
    MmaTile tile = row.tile;
    const bool room = fits(tile, is_shifted(operands.piece), device);
    if (row.costs[column].alone == 0 || (!room && !last)) return;
    const std::uint64_t most = most_blocks(tile, product, operands, device);
    for (tile.split = 1; tile.split <= most; ++tile.split) {
      const double cycles = cycles_of(tile, row.costs[column], product, operands, device);
      if (cycles < best.cycles) best = {.tile = tile, .cycles = cycles};
    }
  };
  // No kernel makes rows of 32 bits; a plan that wants it is counted as if one did.
  if (operands.made && kMade.costs[column].alone > 0) {
    consider(kMade, true);
  } else {
    for (const TileRow& row : kTiles) consider(row, &row == &kTiles.back());
  }
  return best;
}

bool beats_wgmma(const ProductShape& product, const MmaOperands& operands, const Device& device,
                 bool reading) {
  // Both are no better known than that.
  const double clearly = operands.kind == MmaKind::kExact ? 0.85 : 0.95;
  const double cycles =
      product_cycles(in_halves(product, operands.bytes, operands.kind == MmaKind::kExact),
                     std::max(1U, device.multiprocessors), reading);
  const MmaTiling tiling = mma_tiling(product, operands, device);
  // Of 32-bit floats wgmma's are wide tiles alone.
  const bool narrower = tiling.tile.split > 1 || operands.kind == MmaKind::kExact;
  return narrower && tiling.cycles < cycles * clearly;
}

// Read once from memory, and written, in part to the L2 alone.
double padding_us(std::uint64_t bytes, const Device& device) {
  constexpr double kLaunchUs = 4;
  constexpr double kPasses = 1.75;
  return kLaunchUs +
         kPasses * static_cast<double>(bytes) / (device.constants.dram_read_gbps.value * 1e3);
}

bool repays_padding(const ProductShape& product, const MmaOperands& operands, std::uint64_t bytes,
                    bool wgmma, bool reading, const Device& device) {
  MmaOperands whole = operands;
  whole.piece = 16;
  double then = mma_tiling(product, whole, device).cycles;
  if (wgmma && !beats_wgmma(product, whole, device, reading)) {
    then = product_cycles(in_halves(product, operands.bytes, operands.kind == MmaKind::kExact),
                          std::max(1U, device.multiprocessors), reading);
  }
  const double cycles_per_us = device.constants.tensor_clock_ghz.value * 1e3;
  constexpr double kClearly = 0.8;
  return then + padding_us(bytes, device) * cycles_per_us <
         mma_tiling(product, operands, device).cycles * kClearly;
}

}  // namespace fusecalc
