#include "plan/shallow.hpp"

#include <array>
#include <limits>
#include <span>

#include "core/ceil_div.hpp"

namespace fusecalc {
namespace {

constexpr std::uint64_t kRegisters = 65536;
constexpr std::uint64_t kAnyTiles = std::numeric_limits<std::uint64_t>::max();

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

// Of four warps, which leave each thread more registers: what the L2 holds needs no whole lines.
ShallowTiling in_fours(const ProductShape& product, std::uint64_t strips, std::uint64_t groups,
                       const Device& device) {
  ShallowTiling tiling{.steps = ceil_div(product.k, 32),
                       .own = strips,
                       .part = groups,
                       .down = 4 / groups,
                       .parts = ceil_div(product.n, 32 * groups)};
  const std::uint64_t registers = 16 * (tiling.steps * (1 + strips) + strips + 1);
  tiling.resident = std::clamp<std::uint64_t>(kRegisters / (128 * registers), 2, 4);
  spread(tiling, ceil_div(product.m, tiling.rows()), device);
  return tiling;
}

// A warp waits for all that it loads; others work meanwhile, of which there should be two rounds.
ShallowTiling across(const ProductShape& product, std::uint64_t align, std::uint64_t most_tiles,
                     const Device& device) {
  constexpr std::uint64_t kPartBytes = 32768;  // of shared memory
  constexpr std::uint64_t kMostOfEight = 96;   // of k, where a lane has eight neighbours
  constexpr std::uint64_t kMostBlocks = 8;
  ShallowTiling tiling{.across = true, .steps = ceil_div(product.k, 16)};
  tiling.own = align % 8 == 0 && product.n % 8 == 0 && product.k <= kMostOfEight ? 8 : 4;
  const std::uint64_t registers = (tiling.steps + 2) * 2 * tiling.own + 48;
  tiling.resident =
      std::clamp<std::uint64_t>(kRegisters / (tiling.threads() * registers), 2, kMostBlocks);
  const std::uint64_t units = ceil_div(product.n, tiling.columns()) * product.batches;
  const std::uint64_t warps = tiling.down * tiling.resident * std::max(1U, device.multiprocessors);
  const std::uint64_t tiles = ceil_div(product.m, 16);
  const std::uint64_t most = std::min(
      {most_tiles, kPartBytes / (512 * tiling.steps), ceil_div(tiles, ceil_div(2 * warps, units))});
  tiling.part = share(tiles, most);
  tiling.parts = ceil_div(product.m, tiling.rows());
  spread(tiling, units, device);
  return tiling;
}

// Whether the kernel takes the product.
bool takes(const ProductShape& product, std::uint64_t align, const Device& device) {
  constexpr std::uint64_t kMostDepth = 192, kMostAcross = 144;
  constexpr std::uint64_t kFewRows = 2048;
  constexpr std::uint64_t kFewest = 8;  // of the other operand's lines
  constexpr std::uint64_t kFewResults = std::uint64_t{1} << 20U;
  constexpr std::uint64_t kMostLines = std::uint64_t{1} << 30U;
  const std::uint64_t columns = product.batches * product.n;
  if (device.capability < kFirstWithCopies || product.a_across || product.halves ||
      product.of_bytes || !product.parts.empty() || product.m * columns < kFewResults) {
    return false;
  }
  if (is_shallow_across(product)) {
    return product.m >= kFewest && product.k <= kMostAcross && columns <= kMostLines &&
           align % 4 == 0 && product.n % 4 == 0;
  }
  return product.batches == 1 && product.n >= kFewest && product.k <= kMostDepth &&
         product.m >= kFewRows && product.m <= kMostLines && align % 8 == 0 && product.k % 8 == 0;
}

// Whether it is likely to be the fastest.
bool repays(const ProductShape& product, bool reading) {
  constexpr std::uint64_t kMostDepth = 96;
  constexpr std::uint64_t kMostAcross = 144;
  constexpr std::uint64_t kMostOfParts = 112;  // where lines are no whole eights
  // Of an epilogue that reads nothing as large, wide tiles are as good for many columns.
  constexpr std::uint64_t kManyColumns = 1024, kAnyDepth = 32;
  if (is_shallow_across(product)) {
    return product.k <= (product.n % 8 == 0 ? kMostAcross : kMostOfParts);
  }
  return product.k <= kMostDepth &&
         (reading || product.n <= kManyColumns || product.k <= kAnyDepth);
}

}  // namespace

bool is_shallow_across(const ProductShape& product) {
  return product.b_across && product.batches * product.n > product.m;
}

std::optional<ShallowTiling> shallow_tiling(const ProductShape& product, std::uint64_t align,
                                            bool reading, const Device& device) {
  if (!takes(product, align, device) || !repays(product, reading)) return std::nullopt;
  return is_shallow_across(product) ? across(product, align, kAnyTiles, device)
                                    : along(product, reading, device);
}

std::vector<ShallowTiling> shallow_tilings(const ProductShape& product, std::uint64_t align,
                                           bool reading, const Device& device) {
  struct Fours {
    std::uint64_t strips, groups;
  };
  constexpr std::array kFours = {Fours{1, 2}, Fours{2, 2}, Fours{1, 1}, Fours{2, 1}, Fours{2, 4}};
  constexpr std::size_t kFew = 3;  // of them, where other kernels are likely to be faster
  constexpr std::uint64_t kFewTiles = 4;
  std::vector<ShallowTiling> tilings;
  if (!takes(product, align, device)) return tilings;
  const auto first = shallow_tiling(product, align, reading, device);
  if (first) tilings.push_back(*first);
  if (is_shallow_across(product)) {
    const ShallowTiling few = across(product, align, kFewTiles, device);
    if (!first || few.part != first->part) tilings.push_back(few);
    return tilings;
  }
  for (const Fours& fours : std::span(kFours).first(first ? kFours.size() : kFew)) {
    if (fours.groups > ceil_div(product.n, 32)) continue;
    tilings.push_back(in_fours(product, fours.strips, fours.groups, device));
  }
  return tilings;
}

}  // namespace fusecalc
