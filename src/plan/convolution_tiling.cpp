// How convolutions are distributed.

#include <algorithm>
#include <array>
#include <numeric>

#include "plan/tiling.hpp"

namespace fusecalc {
namespace {

// Of `most` planes and fewer, in steps of `unit` and above half of it, as many as leave the
// smallest share of a block's threads idle in the last round of the epilogue, which takes eight
// sums a thread.
std::uint64_t fullest(std::uint64_t most, std::uint64_t unit, std::uint64_t eights) {
  std::uint64_t best = most;
  const auto idle = [&](std::uint64_t planes) {  // of each 1024 of the threads' turns
    const std::uint64_t turns =
        ceil_div(planes * eights, PlaneTiles::kThreads) * PlaneTiles::kThreads;
    return turns > 0 ? (turns - planes * eights) * 1024 / turns : 0;
  };
  for (std::uint64_t planes = most; 2 * planes > most && planes >= unit; planes -= unit) {
    if (idle(planes) < idle(best)) best = planes;
  }
  return best;
}

}  // namespace

ProductShape ConvolutionSize::product() const {
  return {.m = filters,
          .n = images * out,
          .k = ceil_div(channels, kBoxChannels) * kBoxChannels * taps,
          .batches = groups};
}

// Another input would be copied first, and has other kernels that are as fast.
std::uint64_t ConvolutionSize::together() const {
  constexpr std::uint64_t kFewest = 4;
  if (!channels_last || groups == 1 || channels < kFewest || kBoxChannels % channels != 0) return 1;
  const std::uint64_t count = kBoxChannels / channels;
  return groups % count == 0 ? count : 1;
}

ConvolutionSize ConvolutionSize::merged() const {
  ConvolutionSize size = *this;
  size.groups /= together();
  size.channels *= together();
  size.filters *= together();
  return size;
}

bool repays_gathering(const ConvolutionSize& size) {
  constexpr std::uint64_t kFewChannels = 32;
  constexpr std::uint64_t kFewFilters = 32;
  constexpr std::uint64_t kFewUses = 128;  // products that an element of the input takes part in
  const std::uint64_t uses = size.filters * size.taps * size.out;
  return size.channels >= kFewChannels && size.filters > kFewFilters &&
         (size.groups == 1 || size.channels % kBoxChannels == 0) &&
         (size.channels_last || uses >= kFewUses * size.in);
}

bool leaves_through_shared(const ConvolutionSize& size) {
  return size.out >= 8 && size.out % 8 != 0 && size.filters % 16 == 0 &&
         size.filters > kTileRows / 2;
}

// Few filters leave a part of high tiles empty. Above 128 of them, blocks share pixels, and narrow
// tiles, whose epilogue is hidden, are the fastest, but where wide ones take fewer rounds: they
// fetch less, and a round takes 1.91 times as long. Below 128, wide ones are better where there are
// enough and lines of pixels are stored in words.
WindowTiles window_tiles(const ConvolutionSize& size, bool through_shared,
                         std::uint64_t multiprocessors) {
  const ProductShape product = size.product();
  if (product.m <= kTileRows / 2) return {.rows = kTileRows / 2, .columns = 256, .stages = 5};
  if (product.m > kTileRows) {
    const std::uint64_t clusters = std::max<std::uint64_t>(1, multiprocessors / 2);
    const auto rounds = [&](std::uint64_t columns) {
      return ceil_div(
          ceil_div(product.m, 2 * kTileRows) * ceil_div(product.n, columns) * product.batches,
          clusters);
    };
    const bool wide = through_shared && rounds(256) * 191 < rounds(128) * 100;
    return wide ? WindowTiles{.columns = 256, .stages = 4, .cluster = 2}
                : WindowTiles{.columns = 128, .stages = 6, .cluster = 2};
  }
  const bool many =
      size.out % 4 == 0 && ceil_div(product.n, 256) * product.batches >= multiprocessors;
  return many ? WindowTiles{.columns = 256, .stages = 4} : WindowTiles{.columns = 128, .stages = 6};
}

std::uint64_t window_split(const ConvolutionSize& size, std::uint64_t multiprocessors) {
  constexpr std::uint64_t kMostSplit = 8;
  constexpr std::uint64_t kLeastSteps = 3;  // of a block
  const ProductShape product = size.product();
  const auto tiles = [&](std::uint64_t rows, std::uint64_t columns) {
    return ceil_div(product.m, rows) * ceil_div(product.n, columns) * product.batches;
  };
  std::uint64_t split = 1;
  if (tiles(kTileRows, kTileRows) * 2 > multiprocessors) return split;
  const std::uint64_t all = tiles(64, 64), steps = product.k / kBoxChannels;
  while (split < kMostSplit && all * split * 2 <= 2 * multiprocessors &&
         steps >= kLeastSteps * split * 2) {
    split *= 2;
  }
  return split;
}

// Each 128 filters copy the input again: 12.2 us for 70 images of 1024 channels and 14 x 14 pixels.
// From an input with its channels last they take 10.3 us, but 20 us to copy it so come first.
bool repays_copies(const PixelSize& size) {
  constexpr std::uint64_t kFewChannels = 32;
  constexpr std::uint64_t kFewFilters = 32;
  constexpr std::uint64_t kManyFilters = 1280;
  constexpr std::uint64_t kHalfFull = 32;  // pixels of an image that has 64 columns
  return size.channels >= kFewChannels && size.filters > kFewFilters &&
         size.filters <= kManyFilters && size.pixels >= kHalfFull;
}

// Tiles of 200 or 256 columns take up to 1.2 times as long: their epilogue is not hidden.
PixelTiles pixel_tiles(const PixelSize& size) {
  constexpr std::array<std::uint64_t, 5> kWidths = {80, 96, 104, 112, 128};
  constexpr std::uint64_t kSmall = 64;
  PixelTiles tiles;
  if (size.filters <= kTileRows / 2) tiles.rows = kTileRows / 2, tiles.stages = 5;
  tiles.all_columns = size.images * kSmall;
  if (size.pixels <= kSmall) return tiles;
  const std::uint64_t of_image = ceil_div(size.pixels, kWidths.back());
  tiles.columns = *std::ranges::find_if(
      kWidths, [&](std::uint64_t width) { return width * of_image >= size.pixels; });
  tiles.all_columns = size.images * of_image * tiles.columns;
  return tiles;
}

// As many sums as stay in registers, of strips of the same size, and about a strip for each thread;
// but not so many planes that some multiprocessors have none, or run few blocks.
std::optional<PlaneTiles> plane_tiles(const PlaneShape& shape, std::uint64_t bytes,
                                      std::uint64_t result_bytes, std::uint64_t multiprocessors) {
  constexpr std::uint64_t kMostColumns = 16;
  constexpr std::uint64_t kMostSums = 32;
  constexpr std::uint64_t kWanted = std::uint64_t{27} << 10U;  // bytes: of eight blocks
  constexpr std::uint64_t kMost = std::uint64_t{55} << 10U;    // of four
  const auto balanced = [](std::uint64_t all, std::uint64_t most) {
    return ceil_div(all, ceil_div(all, most));
  };
  PlaneTiles tiles{.columns = balanced(shape.out[1], kMostColumns)};
  if (tiles.columns < shape.out[1]) tiles.columns += tiles.columns % 2;
  const std::uint64_t across = ceil_div(shape.out[1], tiles.columns);
  tiles.lines = balanced(shape.out[0], std::max<std::uint64_t>(1, kMostSums / tiles.columns));
  const std::uint64_t starts = across > 1 ? tiles.columns * shape.stride : 0;
  tiles.align = std::gcd(std::uint64_t{4}, std::gcd(shape.in[1], starts));

  const std::uint64_t plane = shape.in[0] * shape.in[1] * bytes;
  const std::uint64_t pixels = shape.out[0] * shape.out[1];
  const std::uint64_t results =
      shape.filters *
      (result_bytes > 0 ? pixels * result_bytes : ceil_div(pixels, 4) * 4 * sizeof(float));
  // Planes of whole 16 bytes.
  const std::uint64_t unit = 16 / std::gcd(std::uint64_t{16}, std::gcd(plane, results));
  const std::uint64_t strips = shape.filters * across * ceil_div(shape.out[0], tiles.lines);
  if (unit * (plane + results) > kMost) return std::nullopt;
  const std::uint64_t most = std::min(PlaneTiles::kThreads / strips, kWanted / (plane + results));
  const std::uint64_t share = ceil_div(ceil_div(shape.planes, multiprocessors), unit) * unit;
  tiles.planes = std::max(unit, std::min(most / unit * unit, share));
  if (result_bytes == 0) tiles.planes = fullest(tiles.planes, unit, shape.filters * (pixels / 8));
  tiles.shared_bytes = tiles.planes * (plane + results);
  return tiles;
}

// About as many blocks as plane_tiles() has, whose warps have equal shares.
std::optional<PlaneBands> plane_bands(const PlaneShape& shape, std::uint64_t padding,
                                      std::uint64_t span, std::uint64_t result_bytes,
                                      std::uint64_t multiprocessors) {
  constexpr std::uint64_t kWanted = std::uint64_t{27} << 10U;
  constexpr std::uint64_t kWarps = 4;
  // Of fewer lines, a plane has no two pieces that share the bands, which take a warp as long as
  // one.
  constexpr std::uint64_t kFewestLines = 17;
  constexpr std::uint64_t kMostRows = 32;  // of a band
  constexpr std::uint64_t kMostAdvance = 2;
  // Of few taps, strips of lanes take no longer, but that those of whole 16 bytes have no tiles.
  constexpr std::uint64_t kFewTaps = 4;
  const bool whole_lines = shape.out[1] % 8 == 0 && shape.in[1] % 8 == 0;
  if (span <= kFewTaps && !whole_lines) return std::nullopt;
  const std::uint64_t rows = padding % 2 + 7 * shape.stride + span;
  if (shape.in[1] % 2 != 0 || shape.out[0] < kFewestLines || rows > kMostRows ||
      shape.stride > kMostAdvance) {
    return std::nullopt;
  }
  const std::uint64_t plane = shape.in[0] * shape.in[1] * 2;
  const std::uint64_t pixels = shape.out[0] * shape.out[1];
  const std::uint64_t results =
      shape.filters *
      (result_bytes > 0 ? pixels * result_bytes : ceil_div(pixels, 4) * 4 * sizeof(float));
  const std::uint64_t unit = 16 / std::gcd(std::uint64_t{16}, std::gcd(plane, results));
  if (unit * (plane + results) > kWanted) return std::nullopt;
  const std::uint64_t share = ceil_div(ceil_div(shape.planes, multiprocessors), unit) * unit;
  const std::uint64_t most =
      std::max(unit, std::min(kWanted / (plane + results) / unit * unit, share));
  const auto idle = [&](std::uint64_t planes) {  // of each 1024 of the warps' turns
    const std::uint64_t turns = planes * shape.filters * ceil_div(shape.out[0], 16);
    const std::uint64_t all = ceil_div(turns, kWarps) * kWarps;
    return (all - turns) * 1024 / all;
  };
  std::uint64_t best = most;
  for (std::uint64_t planes = most; 2 * planes > most && planes >= unit; planes -= unit) {
    if (idle(planes) < idle(best)) best = planes;
  }
  const std::uint64_t zeros = ceil_div(shape.in[1] * 2 + 64, 128) * 128;
  return PlaneBands{.planes = best, .shared_bytes = zeros + best * (plane + results)};
}

std::uint64_t LastTiles::blocks(const LastShape& shape) const {
  const std::uint64_t strips =
      shape.images * ceil_div(shape.out[0], lines) * ceil_div(shape.out[1], columns);
  return ceil_div(strips, kThreads / pairs * rounds) * (shape.channels / (2 * pairs));
}

// Strips cost what a thread executes: multiplications, loads of the input with their conversions,
// loads of weights, and the epilogue. Larger ones load less for each pixel, but the last ones of a
// plane reach beyond it, and too few threads leave memory idle.
std::optional<LastTiles> last_tiles(const LastShape& shape, std::uint64_t multiprocessors) {
  constexpr std::uint64_t kMostTaps = 64;
  constexpr std::uint64_t kMostSpan = 32;
  constexpr std::uint64_t kMostSums = 40;
  constexpr std::uint64_t kMostPairs = 64;
  constexpr std::uint64_t kWantedThreads = 1024;  // of a multiprocessor
  constexpr std::uint64_t kManyBlocks = 4;
  if (shape.channels % 8 != 0 || shape.taps[0] * shape.taps[1] > kMostTaps) return std::nullopt;
  const std::uint64_t pairs = shape.channels / 2;
  const auto reach = [&](std::size_t axis, std::uint64_t pixels) {
    return (pixels - 1) * shape.stride.at(axis) +
           (shape.taps.at(axis) - 1) * shape.dilation.at(axis) + 1;
  };
  std::optional<LastTiles> best;
  double least = 0;
  for (const std::uint64_t columns : {4U, 8U}) {
    for (std::uint64_t lines = 1; 2 * lines * columns <= kMostSums; ++lines) {
      if (reach(1, columns) > kMostSpan) continue;
      const std::uint64_t strips =
          shape.images * ceil_div(shape.out[0], lines) * ceil_div(shape.out[1], columns) * pairs;
      const std::uint64_t taps = shape.taps[0] * shape.taps[1];
      const std::uint64_t cost = 2 * taps * lines * columns +
                                 4 * reach(0, lines) * reach(1, columns) + 2 * taps * lines +
                                 12 * lines * columns;
      const double idle = std::max(
          1.0, static_cast<double>(kWantedThreads * multiprocessors) / static_cast<double>(strips));
      const double time = static_cast<double>(strips * cost) * idle;
      if (best && time >= least) continue;
      best = {.lines = lines, .columns = columns};
      least = time;
    }
  }
  if (!best) return best;
  for (std::uint64_t each = 4; each <= std::min(kMostPairs, pairs); each += 4) {
    if (pairs % each == 0) best->pairs = each;
  }
  best->rounds =
      std::clamp<std::uint64_t>(best->blocks(shape) / (kManyBlocks * multiprocessors), 1, 4);
  return best;
}

}  // namespace fusecalc
