#include "plan/last_boxes.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "core/ceil_div.hpp"

namespace fusecalc {
namespace {

constexpr std::uint64_t kBoxesOnChip = std::uint64_t{228} << 10U;  // of a multiprocessor
constexpr std::uint64_t kBoxesRegisters = 65536;

std::uint64_t box_stage_bytes(const LastShape& shape, const LastBoxes& boxes) {
  constexpr std::uint64_t kUnit = 1024;
  const std::uint64_t pixels = boxes.together * boxes.box_lines * boxes.box_columns;
  return ceil_div(pixels * boxes.channels * shape.bytes, kUnit) * kUnit;
}

// Parts of a block's channels that warps have.
std::uint64_t warp_parts(const LastBoxes& boxes) { return boxes.channels / 16; }

std::uint64_t places_in_box(const LastBoxes& boxes) {
  return boxes.together * boxes.deep * ceil_div(boxes.columns, 8);
}

// Of a thread: weights, sums of the lines that a line of the input belongs to, that line, what an
// epilogue holds, and addresses.
std::uint64_t registers_for_boxes(const LastShape& shape, const LastBoxes& boxes) {
  constexpr std::uint64_t kHeld = 52;
  constexpr std::uint64_t kTap = 2;
  const std::uint64_t sums = 8 * std::min(boxes.lines, ceil_div(shape.taps[0], shape.stride[0]));
  const std::uint64_t line = 4 * shape.taps[1];
  const std::uint64_t all = kTap * shape.taps[0] * shape.taps[1] + sums + line + kHeld;
  return std::min<std::uint64_t>(255, ceil_div(all, 8) * 8);
}

void measure_box(const LastShape& shape, LastBoxes& boxes) {
  constexpr std::uint64_t kWarps = 8;
  boxes.box_lines = shape.covered(0, boxes.tile_lines());
  boxes.box_columns = shape.covered(1, boxes.columns);
  const std::uint64_t parts = warp_parts(boxes);
  const std::uint64_t rounds = ceil_div(places_in_box(boxes) * parts, kWarps);
  boxes.warps = parts * ceil_div(places_in_box(boxes), rounds);
}

// Cycles of a multiprocessor: what it fetches and stores, and what its warps execute.
double cycles_of_boxes(const LastShape& shape, const LastBoxes& boxes) {
  constexpr double kBytes = 40;     // in a cycle
  constexpr double kShort = 1.4;    // times as long, of 32 bytes a pixel
  constexpr double kEpilogue = 90;  // instructions of a line
  constexpr double kAddress = 4;    // of a load
  constexpr double kIssued = 0.6 * 4;
  constexpr double kStep = 200;
  const auto of = [](std::uint64_t count) { return static_cast<double>(count); };
  const double units = of(boxes.tiles(shape)) * of(ceil_div(shape.channels, boxes.channels));
  const std::uint64_t rows = shape.covered(0, boxes.lines);
  const std::uint64_t products = 2 * shape.taps[0] * ceil_div(shape.taps[1], 2);
  const double instructions = of(boxes.lines * products) + of(boxes.lines) * kEpilogue +
                              of(rows * shape.taps[1]) * kAddress;
  const double tasks = of(places_in_box(boxes) * warp_parts(boxes));
  const double bytes = of(boxes.together * boxes.channels * shape.bytes) *
                       of(boxes.box_lines * boxes.box_columns + boxes.tile_lines() * boxes.columns);
  const double slow = boxes.channels * shape.bytes < 64 ? kShort : 1;
  return units * slow * (bytes / kBytes + tasks * instructions / kIssued + kStep);
}

// As many blocks as there is room for, and as many stages as that leaves.
bool fit_boxes(const LastShape& shape, LastBoxes& boxes) {
  constexpr std::uint64_t kMostStages = 8;
  constexpr std::uint64_t kMostBlocks = 8;
  constexpr std::uint64_t kSums = 1024;  // of a warp that exchanges them
  const std::uint64_t reserved = 2048 + boxes.warps * kSums;
  const std::uint64_t stage = box_stage_bytes(shape, boxes);
  const std::uint64_t by_registers =
      kBoxesRegisters / (registers_for_boxes(shape, boxes) * boxes.threads());
  boxes.resident = std::min({by_registers, kMostBlocks, kBoxesOnChip / (2 * stage + reserved)});
  if (boxes.resident == 0) return false;
  boxes.stages = std::min(kMostStages, (kBoxesOnChip / boxes.resident - reserved) / stage);
  return boxes.stages >= 2;
}

// What a block may have: tiles of the most lines and columns first.
std::vector<LastBoxes> box_candidates(const LastShape& shape) {
  constexpr std::uint64_t kMostLines = 8;
  constexpr std::uint64_t kMostBox = 256;  // pixels along an axis
  constexpr std::uint64_t kMostStage = std::uint64_t{44} << 10U;
  constexpr std::uint64_t kSmallStage = std::uint64_t{24} << 10U;
  constexpr std::array<std::uint64_t, 3> kChannels = {64, 32, 16};
  std::vector<LastBoxes> found;
  const auto add = [&](LastBoxes boxes) {
    const auto stage = [&] { return box_stage_bytes(shape, boxes); };
    measure_box(shape, boxes);
    if (boxes.box_lines > kMostBox || boxes.box_columns > kMostBox || stage() > kMostStage) return;
    const bool whole = boxes.columns >= shape.out[1] && boxes.tile_lines() >= shape.out[0];
    while (whole && 2 * stage() <= kSmallStage && 2 * boxes.together <= shape.images) {
      boxes.together *= 2;
      measure_box(shape, boxes);
    }
    if (fit_boxes(shape, boxes)) found.push_back(boxes);
  };
  for (const std::uint64_t channels : kChannels) {
    const std::uint64_t most = std::min(kMostLines, ceil_div(shape.out[0], LastBoxes::kSides));
    for (std::uint64_t lines = 1; lines <= most; ++lines) {
      for (std::uint64_t deep = 1; deep <= ceil_div(shape.out[0], LastBoxes::kSides * lines);
           ++deep) {
        for (std::uint64_t parts = 1; parts <= ceil_div(shape.out[1], 8); ++parts) {
          const std::uint64_t columns = ceil_div(shape.out[1], parts);
          add({.channels = channels, .columns = columns, .deep = deep, .lines = lines});
        }
      }
    }
  }
  return found;
}

}  // namespace

std::uint64_t LastBoxes::tiles(const LastShape& shape) const {
  return ceil_div(shape.images, together) * ceil_div(shape.out[0], tile_lines()) *
         ceil_div(shape.out[1], columns);
}

std::uint64_t LastBoxes::blocks(const LastShape& shape) const {
  return ceil_div(shape.channels, channels) * ceil_div(tiles(shape), each);
}

std::optional<LastBoxes> last_boxes(const LastShape& shape, std::uint64_t multiprocessors) {
  constexpr std::uint64_t kMostTaps = 49;
  constexpr std::uint64_t kMostWaves = 4;
  if (shape.channels % 8 != 0 || shape.bytes != 2 || shape.taps[0] * shape.taps[1] > kMostTaps) {
    return std::nullopt;
  }
  const std::vector<LastBoxes> all = box_candidates(shape);
  if (all.empty()) return std::nullopt;
  LastBoxes best = *std::ranges::min_element(
      all, {}, [&](const LastBoxes& boxes) { return cycles_of_boxes(shape, boxes); });
  // Blocks that run at once, and as evenly as tiles allow.
  const std::uint64_t running = best.resident * multiprocessors;
  std::uint64_t shortest = 0;
  for (std::uint64_t waves = 1; waves <= kMostWaves; ++waves) {
    const std::uint64_t parts =
        std::max<std::uint64_t>(1, waves * running / ceil_div(shape.channels, best.channels));
    LastBoxes boxes = best;
    boxes.each = ceil_div(best.tiles(shape), parts);
    const std::uint64_t time = ceil_div(boxes.blocks(shape), running) * (2 * boxes.each + 1);
    if (shortest == 0 || time < shortest) shortest = time, best.each = boxes.each;
  }
  best.stages = std::min(best.stages, best.each);
  best.shared_bytes = best.stages * box_stage_bytes(shape, best);
  return best;
}

}  // namespace fusecalc
