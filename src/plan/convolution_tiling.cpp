// How convolutions are distributed.

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "plan/measured.hpp"
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

// Tiles of 16 columns of a result take so many chunks of eight columns of the input (kChunks in
// convolve_planes_mma.cuh).
std::uint64_t band_chunks(const PlaneShape& shape) {
  const bool whole = shape.out[1] <= 16 && shape.in[1] <= 16 * shape.stride[1];
  return ceil_div(whole ? shape.in[1] : shape.padding[1] % 2 + shape.covered(1, 16), 8);
}

// What takes the least time of a piece of eight times so many lines: loads, which take as many
// turns as lanes have other words of one bank, products, and results.
std::uint64_t band_lines(const PlaneShape& shape) {
  constexpr std::uint64_t kMostLines = 8;
  constexpr std::uint64_t kBanks = 32;
  constexpr std::uint64_t kResults = 8;  // instructions of a line
  const std::uint64_t chunks = band_chunks(shape);
  const auto turns = [&](std::uint64_t lines) {
    std::array<std::uint64_t, kBanks> of_bank{};
    for (std::uint64_t slot = 0; slot < 8 && slot * lines < shape.out[0]; ++slot) {
      for (std::uint64_t word = 0; word < 4; ++word) {
        ++of_bank.at((slot * lines * shape.stride[0] * (shape.in[1] / 2) + word) % kBanks);
      }
    }
    return *std::ranges::max_element(of_bank);
  };
  std::uint64_t best = 1, least = 0;
  for (std::uint64_t lines = 1; lines <= kMostLines; ++lines) {
    const std::uint64_t loads = shape.covered(0, lines) * chunks * (1 + turns(lines));
    const std::uint64_t cost = ceil_div(shape.out[0], 8 * lines) *
                               (loads + lines * (shape.taps[0] * (chunks + 1) + kResults));
    if (least == 0 || cost <= least) best = lines, least = cost;
  }
  return best;
}

// A block makes its bands in the time of about two images.
std::uint64_t images_of_block(const PlaneShape& shape, const PlaneBands& bands,
                              std::uint64_t multiprocessors) {
  constexpr std::uint64_t kMostParts = 64;
  const std::uint64_t across = ceil_div(shape.groups, bands.planes);
  std::uint64_t least = 0;
  std::uint64_t found = 1;
  for (std::uint64_t parts = 1; parts <= std::min(shape.images, kMostParts); ++parts) {
    const std::uint64_t images =
        ceil_div(ceil_div(shape.images, parts), bands.together) * bands.together;
    const std::uint64_t cost =
        ceil_div(across * parts, bands.resident * multiprocessors) * (images + 2);
    if (least == 0 || cost < least) least = cost, found = images;
  }
  return found;
}

// Whether there are so many multiprocessors for each tile of 128 x 128.
bool has_few_tiles(const ProductShape& product, std::uint64_t each, std::uint64_t multiprocessors) {
  return ceil_div(product.m, kTileRows) * ceil_div(product.n, kTileRows) * product.batches * each <=
         multiprocessors;
}

}  // namespace

ProductShape ConvolutionSize::product() const {
  return {.m = filters,
          .n = images * out,
          .k = ceil_div(channels, box()) * box() * taps,
          .batches = groups};
}

// Another input would be copied first, and has other kernels that are as fast.
std::uint64_t ConvolutionSize::together() const {
  constexpr std::uint64_t kFewest = 4;
  if (!channels_last || groups == 1 || channels < kFewest || box() % channels != 0) return 1;
  const std::uint64_t count = box() / channels;
  return groups % count == 0 ? count : 1;
}

ConvolutionSize ConvolutionSize::merged() const {
  ConvolutionSize size = *this;
  size.groups /= together();
  size.channels *= together();
  size.filters *= together();
  return size;
}

bool ConvolutionSize::has_pixel_products() const {
  const std::uint64_t whole = exact ? 4 : 8;  // elements
  return taps == 1 && in == out && out >= kFewPixels && out % whole == 0 && channels % whole == 0 &&
         !channels_last;
}

// Tiles of 32-bit elements have 128 filters, and no blocks share their k: four that do are faster
// in tiles of convolve_sm80.
bool repays_gathering(const ConvolutionSize& size, std::uint64_t multiprocessors) {
  constexpr std::uint64_t kFewChannels = 32;
  constexpr std::uint64_t kFewFilters = 32;
  constexpr std::uint64_t kFewUses = 128;  // products that an element of the input takes part in
  // Without a copy, of windows of several elements and of single ones, and of filters.
  constexpr std::uint64_t kFewOfWindows = 48, kFewOfSingle = 8, kLeastFilters = 8;
  const std::uint64_t uses = size.filters * size.taps * size.out;
  if (size.bytes > 2 &&
      (size.filters <= kTileRows / 2 || has_few_tiles(size.product(), 4, multiprocessors))) {
    return false;
  }
  if (size.channels_last && size.groups == 1 && size.filters >= kLeastFilters &&
      size.channels >= (size.taps > 1 ? kFewOfWindows : kFewOfSingle)) {
    return true;
  }
  return size.channels >= kFewChannels && size.filters > kFewFilters &&
         (size.groups == 1 || size.channels % size.box() == 0) &&
         (size.channels_last || uses >= kFewUses * size.in);
}

bool leaves_through_shared(const ConvolutionSize& size) {
  return size.bytes == 2 && size.out >= 8 && size.out % 8 != 0 && size.filters % 16 == 0 &&
         size.filters > kTileRows / 2;
}

// Few filters leave half of wide tiles empty, which takes longer but where memory is the limit.
bool has_pixel_rows(const ConvolutionSize& size) {
  return size.filters > kTileRows / 2 || size.taps == 1;
}

// Few filters leave a part of high tiles empty. Above 128 of them, blocks share pixels, and narrow
// tiles, whose epilogue is hidden, are the fastest, but where wide ones take fewer rounds: they
// fetch less, and a round takes 1.91 times as long. Below 128, wide ones are better where there are
// enough and lines of pixels are stored in words.
WindowTiles window_tiles(const ConvolutionSize& size, bool through_shared,
                         std::uint64_t multiprocessors) {
  const ProductShape product = size.product();
  if (size.exact) return {.columns = 128, .stages = 4, .cluster = product.m > kTileRows ? 2U : 1U};
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
  constexpr std::uint64_t kMostSplit = 4;
  constexpr std::uint64_t kLeastSteps = 3;  // of a block
  const ProductShape product = size.product();
  std::uint64_t split = 1;
  if (size.bytes > 2 || !has_few_tiles(product, 2, multiprocessors)) return split;
  const std::uint64_t all = ceil_div(product.m, 64) * ceil_div(product.n, 64) * product.batches;
  const std::uint64_t steps = product.k / size.box();
  while (split < kMostSplit && all * split * 2 <= multiprocessors &&
         steps >= kLeastSteps * split * 2) {
    split *= 2;
  }
  return split;
}

FilterTiles filter_tiles(std::uint64_t filters) {
  constexpr std::uint64_t kResults = 16384;
  const auto filled = [&](std::uint64_t rows) { return ceil_div(filters, rows) * rows; };
  const std::uint64_t rows = filled(64) < filled(128) ? 64 : 128;
  return {.rows = rows, .columns = kResults / rows};
}

std::uint64_t depth_split(std::uint64_t tiles, std::uint64_t steps, const Device& device) {
  constexpr std::uint64_t kMostSplit = 8;
  constexpr std::uint64_t kLeastSteps = 4;  // of a block
  std::uint64_t split = 1;
  while (device.capability == kHopper && split < kMostSplit &&
         tiles * split * 2 <= device.multiprocessors && steps >= kLeastSteps * split * 2) {
    split *= 2;
  }
  return split;
}

// What a multiprocessor fetches is what counts, then the columns of a warp's epilogue: of 3136 rows
// of 960 by 160 columns, 8.7 us in 98 tiles of 64 x 96, 8.9 in 245 of 64 x 32, 9.6 in 147 of 64 x
// 64 and 10.1 in 49 of 64 x 160. Blocks that shared k would take 10.3 us or more.
std::vector<SmallTiles> small_tiles(const ProductShape& product, const Device& device) {
  constexpr std::uint64_t kMostResident = 2;
  constexpr std::uint64_t kReserved = 1024;  // bytes of a block
  constexpr std::uint64_t kFetch = 3;        // cycles, of a line of a step
  constexpr std::uint64_t kEpilogue = 14;    // of a column
  const std::uint64_t multiprocessors = std::max(1U, device.multiprocessors);
  const std::uint64_t steps = std::max<std::uint64_t>(1, ceil_div(product.k, kBoxChannels));
  std::vector<std::pair<double, SmallTiles>> timed;
  for (const std::uint64_t rows : {64U, 128U}) {
    for (const std::uint64_t columns : {32U, 64U, 96U, 128U, 160U, 192U}) {
      const std::uint64_t tiles =
          ceil_div(product.m, rows) * ceil_div(product.n, columns) * product.batches;
      SmallTiles found{
          .rows = rows, .columns = columns, .resident = ceil_div(tiles, multiprocessors)};
      // Two blocks of a multiprocessor have registers for so many sums.
      const std::uint64_t most = rows > 64 ? 128 : 192;
      if (found.resident > (columns > most ? 1 : kMostResident)) continue;
      const std::uint64_t room = (device.on_chip_bytes + kReserved) / found.resident - kReserved -
                                 columns * kMostTerms * sizeof(float);
      const std::uint64_t stages = room / found.stage_bytes();
      if (stages < 2) continue;
      found.stages = std::clamp<std::uint64_t>(steps, 2, stages);
      const std::uint64_t cycles =
          found.resident * steps * (rows + columns) * kFetch + columns * kEpilogue;
      timed.emplace_back(static_cast<double>(cycles), found);
    }
  }
  return about_least(std::move(timed), {.most = 4, .times = 1.4});
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
  const std::uint64_t starts = across > 1 ? tiles.columns * shape.stride[1] : 0;
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
  const std::uint64_t share = ceil_div(ceil_div(shape.planes(), multiprocessors), unit) * unit;
  tiles.planes = std::max(unit, std::min(most / unit * unit, share));
  if (result_bytes == 0) tiles.planes = fullest(tiles.planes, unit, shape.filters * (pixels / 8));
  tiles.shared_bytes = tiles.planes * (plane + results);
  return tiles;
}

std::optional<PlaneBands> plane_bands(const PlaneShape& shape, std::uint64_t result_bytes,
                                      const Device& device) {
  constexpr std::uint64_t kStage = 6400;  // bytes, at most but for a plane
  constexpr std::uint64_t kWarps = 4;     // of a block
  constexpr std::uint64_t kMostThreads = 512;
  constexpr std::uint64_t kMost = std::uint64_t{100} << 10U;  // of two blocks
  // Of strided windows, whose results are few: four, or lanes without planes take less.
  constexpr std::uint64_t kMostStrided = std::uint64_t{55} << 10U;
  constexpr std::uint64_t kMany = std::uint64_t{37} << 10U;  // of six
  constexpr std::uint64_t kRegisters = 65536;
  constexpr std::uint64_t kMostBlocks = 16;
  constexpr std::uint64_t kMostBand = 40;  // of 16 x 8 weights
  constexpr std::uint64_t kMostSpan = 30;  // a lane for each column, and two more
  const std::uint64_t plane = shape.in[0] * shape.in[1] * 2;
  const std::uint64_t pixels = shape.out[0] * shape.out[1];
  const std::uint64_t results =
      shape.filters *
      (result_bytes > 0 ? pixels * result_bytes : ceil_div(pixels, 4) * 4 * sizeof(float));
  const std::uint64_t unit = 16 / std::gcd(std::uint64_t{16}, std::gcd(plane, results));
  const std::uint64_t band = shape.taps[0] * band_chunks(shape);
  // Results of an odd line, stored one by one, take longer than strips of lanes.
  const bool even = shape.in[1] % 2 == 0 && shape.out[1] % 2 == 0;
  if (!even || shape.groups % unit != 0 || band > kMostBand || shape.covered(1, 1) > kMostSpan) {
    return std::nullopt;
  }

  PlaneBands bands{.planes = unit, .lines = band_lines(shape)};
  while (bands.planes * shape.filters * 2 <= kWarps && 2 * bands.planes * plane <= kStage &&
         bands.planes < shape.groups) {
    bands.planes *= 2;
  }
  const std::uint64_t pieces = ceil_div(shape.out[0], 8 * bands.lines) * ceil_div(shape.out[1], 16);
  if (pieces > 1 && 2 * bands.planes * shape.filters <= kWarps) bands.share = 2;
  while (bands.together < shape.images && 2 * bands.together * bands.planes * plane <= kStage) {
    bands.together *= 2;
  }
  const std::uint64_t zeros = ceil_div(shape.in[1] * 2 + 64, 128) * 128;
  const auto shared = [&](std::uint64_t stages) {
    return bands.together * (stages * (zeros + bands.planes * plane) +
                             2 * (ceil_div(bands.planes * results, 16) * 16));
  };
  bands.stages = shared(3) <= kMany ? 3 : 2;
  bands.shared_bytes = shared(bands.stages);
  const std::uint64_t threads = bands.threads(shape);
  const std::uint64_t most =
      std::min(shape.stride[0] > 1 ? kMostStrided : kMost, device.on_chip_bytes);
  if (bands.shared_bytes > most || threads > kMostThreads) return std::nullopt;
  // Found where they were compiled without a limit: a third more than what is held all the time.
  const std::uint64_t held = 2 * band + 4 * bands.lines + shape.covered(0, bands.lines);
  const std::uint64_t registers = ceil_div(20 + held * 13 / 10, 8) * 8;
  bands.resident =
      std::max<std::uint64_t>(1, std::min({device.on_chip_bytes / (bands.shared_bytes + 1024),
                                           kRegisters / (registers * threads), kMostBlocks}));
  bands.images = images_of_block(shape, bands, std::max(1U, device.multiprocessors));
  return bands;
}

}  // namespace fusecalc
