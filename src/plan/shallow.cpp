#include "plan/shallow.hpp"

namespace fusecalc {
namespace {

// Of `all` in parts of `most` at most: the largest one, where they are about alike.
std::uint64_t share(std::uint64_t all, std::uint64_t most) {
  return ceil_div(all, ceil_div(all, most));
}

// The blocks of a part go through what is large together.
void spread(ShallowTiling& tiling, std::uint64_t units, const Device& device) {
  const std::uint64_t running = tiling.resident * std::max(1U, device.multiprocessors);
  const std::uint64_t most = ceil_div(units, tiling.down);
  tiling.blocks = tiling.parts * std::clamp<std::uint64_t>(running / tiling.parts, 1, most);
}

// Lines of memory should be read and written as wholes, and near each other at a time: a block's
// warps have neighbouring columns. Beside columns of 64 of k and an operand loaded ahead, 128
// registers hold one strip, and beside those of 96 none.
ShallowTiling along(const ProductShape& product, bool reading, const Device& device) {
  ShallowTiling tiling{.steps = ceil_div(product.k, 32)};
  const bool tight = tiling.steps > 2 && reading;
  const std::uint64_t warps = tight ? 6 : 8;  // of a block, at most: it runs beside another one
  tiling.own = tiling.steps == 1 || (tiling.steps == 2 && !reading) ? 2 : 1;
  tiling.part = share(ceil_div(product.n, 32), warps);
  tiling.down = warps / tiling.part;
  tiling.parts = ceil_div(product.n, tiling.columns());
  tiling.resident = warps * 64 / tiling.threads();  // two blocks of 32 threads a warp
  spread(tiling, ceil_div(product.m, tiling.rows()), device);
  return tiling;
}

// A warp waits for all that it loads; others work meanwhile, of which there should be two rounds.
ShallowTiling across(const ProductShape& product, std::uint64_t align, const Device& device) {
  constexpr std::uint64_t kPartBytes = 32768;  // of shared memory
  constexpr std::uint64_t kRegisters = 65536;
  constexpr std::uint64_t kMostOfEight = 96;  // of k, where a lane has eight neighbours
  constexpr std::uint64_t kMostBlocks = 8;
  ShallowTiling tiling{.across = true, .steps = ceil_div(product.k, 16)};
  tiling.own = align % 8 == 0 && product.n % 8 == 0 && product.k <= kMostOfEight ? 8 : 4;
  const std::uint64_t registers = (tiling.steps + 2) * 2 * tiling.own + 48;
  tiling.resident =
      std::clamp<std::uint64_t>(kRegisters / (tiling.threads() * registers), 2, kMostBlocks);
  const std::uint64_t units = ceil_div(product.n, tiling.columns()) * product.batches;
  const std::uint64_t warps = tiling.down * tiling.resident * std::max(1U, device.multiprocessors);
  const std::uint64_t tiles = ceil_div(product.m, 16);
  const std::uint64_t most =
      std::min(kPartBytes / (512 * tiling.steps), ceil_div(tiles, ceil_div(2 * warps, units)));
  tiling.part = share(tiles, most);
  tiling.parts = ceil_div(product.m, tiling.rows());
  spread(tiling, units, device);
  return tiling;
}

}  // namespace

bool is_shallow_across(const ProductShape& product) {
  return product.b_across && product.batches * product.n > product.m;
}

std::optional<ShallowTiling> shallow_tiling(const ProductShape& product, std::uint64_t align,
                                            bool reading, const Device& device) {
  constexpr std::uint64_t kMostDepth = 96;
  constexpr std::uint64_t kMostAcross = 144;
  constexpr std::uint64_t kMostOfParts = 112;  // where lines are no whole eights
  constexpr std::uint64_t kFewRows = 2048;
  // Of an epilogue that reads nothing as large, wide tiles are as good for many columns.
  constexpr std::uint64_t kManyColumns = 1024, kAnyDepth = 32;
  constexpr std::uint64_t kFewest = 8;  // of the other operand's lines
  constexpr std::uint64_t kFewResults = std::uint64_t{1} << 20U;
  constexpr std::uint64_t kMostLines = std::uint64_t{1} << 30U;
  const std::uint64_t columns = product.batches * product.n;
  if (device.capability < kFirstWithCopies || product.a_across || product.halves ||
      product.of_bytes || !product.parts.empty() || product.m * columns < kFewResults) {
    return std::nullopt;
  }
  if (is_shallow_across(product)) {
    const std::uint64_t most = product.n % 8 == 0 ? kMostAcross : kMostOfParts;
    const bool fits = product.m >= kFewest && product.k <= most && columns <= kMostLines &&
                      align % 4 == 0 && product.n % 4 == 0;
    return fits ? std::optional(across(product, align, device)) : std::nullopt;
  }
  const bool repays = reading || product.n <= kManyColumns || product.k <= kAnyDepth;
  const bool fits = product.batches == 1 && product.n >= kFewest && product.k <= kMostDepth &&
                    repays && product.m >= kFewRows && product.m <= kMostLines && align % 8 == 0 &&
                    product.k % 8 == 0;
  return fits ? std::optional(along(product, reading, device)) : std::nullopt;
}

}  // namespace fusecalc
