#include "plan/last_bands.hpp"

#include <algorithm>
#include <array>

#include "core/ceil_div.hpp"

namespace fusecalc {
namespace {

constexpr std::uint64_t kReservedOfBlock = 1024;

// What convolve_last_bands computes of a tile.
struct BandGeometry {
  std::uint64_t products = 1;  // of 16 columns of the result
  std::uint64_t eights = 1;    // columns of the input that one takes
  std::uint64_t width = 8;     // columns of a plane
  std::uint64_t height = 1;
  std::uint64_t lines_in = 1;  // of the lines that take what a load brings
  std::uint64_t steps = 1;     // of eight times as many lines
  std::uint64_t plane_words = 0;
  std::uint64_t plane_sums = 0;
};

BandGeometry geometry_of(const LastShape& shape, const LastBands& bands) {
  BandGeometry geometry;
  const std::uint64_t step = shape.stride[1];
  const std::uint64_t reach = (shape.taps[1] - 1) * shape.dilation[1];
  geometry.products = ceil_div(bands.columns, 16);
  const bool whole = bands.columns == shape.out[1];
  const bool one = whole && geometry.products == 1 && shape.in[1] <= 16 * step;
  const std::uint64_t before = one ? 0 : ceil_div(shape.padding[1], 2) * 2;
  const std::uint64_t first = one ? 0 : before - shape.padding[1];
  geometry.eights = ceil_div(one ? shape.in[1] : first + 15 * step + reach + 1, 8);
  std::uint64_t last = one ? shape.in[1] : first + (bands.columns - 1) * step + reach + 1;
  if (whole) last = std::min(last, before + shape.in[1]);
  geometry.width = ceil_div(last, 8) * 8;
  geometry.height = shape.covered(0, bands.lines);
  geometry.lines_in = shape.covered(0, bands.reused);
  geometry.steps = ceil_div(bands.lines, 8 * bands.reused);
  const std::uint64_t turn = bands.reused * shape.stride[0];
  const std::uint64_t apart =
      turn % 2 != 0 ? (geometry.width % 16 == 0 ? 4 : 0) : (turn % 4 != 0 ? 2 : 1);
  const std::uint64_t used = bands.together * geometry.height * (geometry.width / 2 + apart);
  geometry.plane_words = used + (12 - used % 8) % 8;
  if (bands.keeps_sums) {
    const std::uint64_t line =
        bands.reused % 2 != 0 ? (bands.columns + 3) / 8 * 8 + 4 : (bands.columns + 1) / 4 * 4 + 2;
    geometry.plane_sums = (bands.together * bands.lines * line + 1) / 4 * 4 + 2;
  }
  return geometry;
}

std::uint64_t registers_for_bands(const LastShape& shape, const LastBands& bands,
                                  const BandGeometry& geometry) {
  constexpr std::uint64_t kHeld = 25;
  const std::uint64_t band = 2 * shape.taps[0] * geometry.eights;
  return ceil_div(bands.own * band + 4 * bands.reused + geometry.eights + kHeld, 8) * 8;
}

// As many blocks as there is room for.
bool fit_bands(const LastShape& shape, const BandGeometry& geometry, const Device& device,
               LastBands& bands) {
  constexpr std::uint64_t kRegisters = 65536;
  constexpr std::uint64_t kThreadRegisters = 255;
  const std::uint64_t registers = registers_for_bands(shape, bands, geometry);
  const std::uint64_t pixels = bands.together * geometry.height * geometry.width;
  bands.shared_bytes =
      bands.channels() * ((geometry.plane_words + geometry.plane_sums) * 4 + pixels * shape.bytes);
  if (registers > kThreadRegisters) return false;
  bands.resident = std::min(kRegisters / (registers * bands.threads()),
                            device.on_chip_bytes / (bands.shared_bytes + kReservedOfBlock));
  return bands.resident > 0;
}

// Cycles of the multiprocessor with the most tiles: what warps execute, products, and what is
// moved. Few warps, all of one block, do one of these after the other.
double cycles_of_bands(const LastShape& shape, const LastBands& bands, const BandGeometry& geometry,
                       std::uint64_t multiprocessors) {
  constexpr double kIssued = 0.6 * 4;
  constexpr double kProduct = 1.8;  // of sixteen steps
  constexpr double kBytes = 24;     // in a cycle
  constexpr double kStep = 400;
  constexpr double kOverlap = 0.35;  // of what takes less time than the longest
  const auto of = [](std::uint64_t count) { return static_cast<double>(count); };
  const double units = of(bands.together * geometry.steps * geometry.products * bands.channels());
  const double pairs = of(bands.reused * shape.taps[0]) * of(geometry.eights) / 2;
  const double loads = of(geometry.lines_in * geometry.eights);
  const std::uint64_t lines = bands.together * geometry.height;
  const std::uint64_t pieces = bands.channels() / 8;
  const double results = of(bands.together * bands.lines * bands.columns * bands.channels());
  const double instructions =
      units * (of(bands.reused * shape.taps[0] * ceil_div(geometry.eights, 2)) + loads +
               of(bands.reused) * 7 + 12) +
      of(lines * ceil_div(geometry.width, 16) * (pieces / 2)) * 8 +
      of(lines) * (8 + 5 * of(ceil_div(geometry.width * pieces, 32))) + results / 512 * 34;
  const double bytes = of(lines * geometry.width * bands.channels() * 2) + 2 * results;
  std::array<double, 3> parts = {instructions / kIssued, units * pairs * kProduct, bytes / kBytes};
  std::ranges::sort(parts);
  const double apart = bands.resident > 1 ? kOverlap : 1;
  const double tile = parts[2] + apart * (parts[0] + parts[1]) + kStep / of(bands.resident);
  const std::uint64_t tiles = bands.tiles(shape) * ceil_div(shape.channels, bands.channels());
  const std::uint64_t running = bands.resident * multiprocessors;
  return tile * of(ceil_div(tiles, running) * bands.resident);
}

}  // namespace

std::uint64_t LastBands::tiles(const LastShape& shape) const {
  return ceil_div(shape.images, together) * ceil_div(shape.out[0], lines) *
         ceil_div(shape.out[1], columns);
}

std::uint64_t LastBands::blocks(const LastShape& shape) const {
  return ceil_div(shape.channels, channels()) * ceil_div(tiles(shape), each);
}

bool repays_bands(std::uint64_t taps, std::uint64_t strides) {
  constexpr std::uint64_t kFewProducts = 25;  // of an element of the input
  return taps > kFewProducts * strides;
}

std::optional<LastBands> last_bands(const LastShape& shape, bool keeps_sums, const Device& device) {
  constexpr std::uint64_t kMostReach = 29;
  constexpr std::uint64_t kMostReused = 8;
  constexpr std::uint64_t kMostTogether = 8;
  constexpr std::uint64_t kMostWaves = 4;
  const std::uint64_t reach = (shape.taps[1] - 1) * shape.dilation[1];
  if (shape.channels % 8 != 0 || shape.bytes != 2 || reach > kMostReach) return std::nullopt;
  const std::uint64_t multiprocessors = std::max(1U, device.multiprocessors);
  std::optional<LastBands> best;
  double least = 0;
  const auto consider = [&](LastBands bands) {
    const BandGeometry geometry = geometry_of(shape, bands);
    if (!fit_bands(shape, geometry, device, bands)) return;
    const double cycles = cycles_of_bands(shape, bands, geometry, multiprocessors);
    if (!best || cycles < least) best = bands, least = cycles;
  };
  struct Channels {
    std::uint64_t warps, own;
  };
  constexpr std::array<Channels, 3> kChannels = {{{8, 2}, {16, 1}, {16, 2}}};
  for (const Channels& channels : kChannels) {
    for (std::uint64_t parts = 1; parts <= ceil_div(shape.out[1], 16); ++parts) {
      for (std::uint64_t down = 1; down <= ceil_div(shape.out[0], 8); ++down) {
        for (std::uint64_t reused = 1; reused <= kMostReused; ++reused) {
          // Only whole lines of the result have an odd number of columns.
          const std::uint64_t columns =
              parts == 1 ? shape.out[1] : ceil_div(ceil_div(shape.out[1], parts), 2) * 2;
          const std::uint64_t lines = ceil_div(ceil_div(shape.out[0], down), reused) * reused;
          const bool whole = parts == 1 && down == 1;
          for (std::uint64_t together = 1; together <= (whole ? kMostTogether : 1); together *= 2) {
            if (together > shape.images) break;
            consider({.warps = channels.warps,
                      .own = channels.own,
                      .lines = lines,
                      .columns = columns,
                      .reused = reused,
                      .together = together,
                      .keeps_sums = keeps_sums});
          }
        }
      }
    }
  }
  if (!best) return best;
  // Blocks that run at once, and as evenly as tiles allow.
  const std::uint64_t running = best->resident * multiprocessors;
  std::uint64_t shortest = 0;
  for (std::uint64_t waves = 1; waves <= kMostWaves; ++waves) {
    const std::uint64_t parts =
        std::max<std::uint64_t>(1, waves * running / ceil_div(shape.channels, best->channels()));
    LastBands bands = *best;
    bands.each = ceil_div(best->tiles(shape), parts);
    const std::uint64_t time = ceil_div(bands.blocks(shape), running) * (2 * bands.each + 1);
    if (shortest == 0 || time < shortest) shortest = time, best->each = bands.each;
  }
  return best;
}

}  // namespace fusecalc
